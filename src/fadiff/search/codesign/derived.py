r"""Machines that follow from mappings, as DOSA derives them: each memory and each axis as large as some layer needs it.

A number of lanes is the most that any layer unrolls over its axes, a number of bytes the most that any layer holds in
its memories,

.. math:: \ln x_i = \max_{nodes} \left(\max_{layers} \ln need - \ln c - \sum_{j \ne i} e_j \ln x_j\right)

so a machine costs the energy and the area of what its mappings need, and the gradient tells each mapping what its needs
cost all others. Numbers that are neither lanes nor bytes stay at their upper ends: mappings do not need less of them.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import jax.numpy as jnp

from fadiff.search.gradient.penalties import soft_needs

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float

    from fadiff.hardware import Space
    from fadiff.search.gradient.penalties import Scene


def needed_logs(space: Space, scene: Scene) -> Float[Array, "numbers restarts"]:
    """Logarithms of the free numbers of the smallest machines for relaxed schedules, within the ends of the space."""
    structure = space.machine.structure
    lanes = {axis: scene.nest.log_product([(axis, d) for d in range(8)]) for axis in structure.axes}
    sizes = dict(zip(structure.memories[1:], soft_needs(scene), strict=True))
    need = {axis: jnp.max(used, axis=-1) for axis, used in lanes.items()}
    need |= {memory: jnp.log(jnp.maximum(jnp.max(held, axis=-1), 1)) for memory, held in sizes.items()}
    ends = [[jnp.log(jnp.float32(end)) for end in number.ends] for number in space.numbers]
    found = [jnp.broadcast_to(high, scene.relaxed.sigma.shape[:1]) for _, high in ends]
    # Bytes may be shared among lanes, so lanes are known first.
    for field, unit in (("size", "lanes"), ("bytes", "bytes")):
        for i, number in enumerate(space.numbers):
            products = [v for v in space.varied if v.field == field and dict(v.product.powers).get(i, 0) == 1]
            if number.unit != unit or not products:
                continue
            wanted = [need[v.node] - v.product.log(found) + found[i] for v in products]
            found[i] = jnp.clip(reduce(jnp.maximum, wanted), *ends[i])
    return jnp.stack(found)
