"""The loss: log EDP of the differentiable model, plus lambda times the penalties."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fadiff.next.cost.model import layer_costs
from fadiff.next.schedule.arrays import Fusion, MappingArrays, fuse
from fadiff.next.schedule.capacity import tiles
from fadiff.next.search.driver import EXPONENTS
from fadiff.next.search.gradient.candidates import SHARED_DIMS
from fadiff.next.search.gradient.penalties import PENALTIES, Scene, incompleteness
from fadiff.next.search.gradient.smooth_nest import SmoothNest, UsefulNest
from fadiff.next.search.space import rank_table

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float, Int

    from fadiff.next.search.gradient.problem import Form, ProblemArrays
    from fadiff.next.search.gradient.relaxation import Integers, Relaxed
    from fadiff.next.search.gradient.settings import Anneal, DescentSettings

SHARED_RANK = np.array([SHARED_DIMS.index(d) if d in SHARED_DIMS else 0 for d in range(8)], dtype=np.float32)
"""Nesting of the shared loops: G, N, P, Q."""
Known = dict[tuple[object, ...], Any]
"""Counts and extents of a nest, by what they are of."""
_KNOWN = ("count", "held", "last", "innermost", "slides")


class Chosen(NamedTuple):
    """A loop order for every memory of every layer, and what the exact nest counts in it."""

    orders: Int[Array, "memories restarts layers"]
    known: Known


class Seen(NamedTuple):
    """What the model says about a relaxed schedule."""

    energy_pj: Float[Array, " restarts"]
    cycles: Float[Array, " restarts"]
    penalties: Float[Array, "penalties restarts"]
    """In the order of :data:`~fadiff.next.search.gradient.penalties.PENALTIES`, before weights."""


def price_orders(
    form: Form,
    problem: ProblemArrays,
    settings: DescentSettings,
    integers: Integers,
    sigma: Float[Array, "restarts edges"],
    orders: Int[Array, "considered memories restarts layers"],
    weight: Float[Array, ""],
) -> tuple[Float[Array, "considered restarts layers"], Known]:
    """The price of every layer in each of the considered orders, and what the exact nest counts in each.

    A layer adds to log EDP its shares of energy and latency, and to the loss its unfinished sums if it is fused:

    .. math:: price_o = E_o / \\bar E + D_o / \\bar D + \\lambda\\, P_{complete,o}
    """
    # One axis more, of the considered orders, after dims.
    shared, tile = integers.shared[:, None], integers.tile[:, None]
    fusion = fuse(problem.edges, sigma, shared, SHARED_RANK[:, None, None, None], tile)
    mapping = MappingArrays(integers.factors[:, :, None], _ranks(form, orders))
    nest = UsefulNest(form.structure, problem.layers, mapping, fusion, alone=not form.shares)
    costs = layer_costs(nest, problem.machine)
    tiles(nest, problem.machine)  # its counts are wanted too
    energy, cycles = (values * problem.layers.repeat for values in (costs.energy_pj, costs.cycles))
    a, b = EXPONENTS[settings.objective]
    price = a * energy / jnp.sum(energy[:1], axis=-1, keepdims=True)
    price = price + b * cycles / jnp.sum(cycles[:1], axis=-1, keepdims=True)
    complete = [penalty.name for penalty in PENALTIES].index("complete")
    price = price + weight * settings.weights[complete] * incompleteness(nest)
    known = {key: values for key, values in nest.known.items() if key[0] in _KNOWN}
    return jnp.broadcast_to(price, (len(orders), *integers.tile.shape[1:])), known


def choose_orders(
    settings: DescentSettings,
    orders: Int[Array, "considered memories restarts layers"],
    price: Float[Array, "considered restarts layers"],
    known: Known,
    gumbel: Float[Array, "considered restarts layers"],
    tau: Float[Array, ""],
) -> Chosen:
    """Take one of the considered orders of every layer.

    Loop orders are a third relaxed choice: one is drawn with :math:`p_o = softmax_o(-\\log price_o / \\tau)`.
    """
    score = -jnp.log(price + 1e-20)
    if settings.orders == "drawn":
        score = score / tau + gumbel
    best = jnp.argmax(score, axis=0)

    def take(values: Array) -> Array:
        return reduce(lambda rest, i: jnp.where(best == i, values[i], rest), range(1, len(values)), values[0])

    return Chosen(take(orders), {key: take(values) for key, values in known.items()})


def _ranks(form: Form, orders: Int[Array, "*considered memories restarts layers"]) -> tuple[Array, ...]:
    """By memory the rank of each dim's loop, ``[8, *considered, restarts, layers]``."""
    tables = [jnp.asarray(rank_table(choices)) for choices in form.orders]
    return tuple(
        table[:, orders[..., i, :, :]] if table.shape[1] > 1 else table.reshape(8, *([1] * (orders.ndim - 1)))
        for i, table in enumerate(tables)
    )


def look(
    form: Form,
    problem: ProblemArrays,
    settings: DescentSettings,
    relaxed: Relaxed,
    integers: Integers,
    chosen: Chosen,
) -> Seen:
    """Price a relaxed schedule."""
    rank = SHARED_RANK[:, None, None]
    fusion: Fusion = fuse(problem.edges, relaxed.sigma, integers.shared, rank, integers.tile)
    mapping = MappingArrays(integers.factors, _ranks(form, chosen.orders))
    nest = SmoothNest(
        form.structure, problem.layers, mapping, fusion, alone=not form.shares, known=dict(chosen.known),
        logs=relaxed.logs, smooth=settings.gradient == "smooth",
    )  # fmt: skip
    costs = layer_costs(nest, problem.machine)
    scene = Scene(problem, nest, relaxed.sigma, relaxed.excess, relaxed.wandering, settings.hinge == "squared")
    return Seen(
        energy_pj=jnp.sum(costs.energy_pj * problem.layers.repeat, axis=-1),
        cycles=jnp.sum(costs.cycles * problem.layers.repeat, axis=-1),
        penalties=jnp.stack([penalty.excess(scene) for penalty in PENALTIES]),
    )


def loss(seen: Seen, settings: DescentSettings, now: Anneal) -> Float[Array, " restarts"]:
    """The augmented loss.

    .. math:: Loss = \\log EDP + \\lambda (P_{map} + P_{mem} + P_{align} + P_{whole} + P_{complete})

    The paper's is EDP itself (setting `log_objective`), with P_map = P_valid + P_spatial, and lambda constant.
    """
    a, b = EXPONENTS[settings.objective]
    objective = a * jnp.log(seen.energy_pj * 1e-6) + b * jnp.log(seen.cycles)
    penalties = sum((weight * value for weight, value in zip(settings.weights, seen.penalties, strict=True)), 0.0)
    return (objective if settings.log_objective else jnp.exp(objective)) + now.weight * penalties


def apart(happens: Array, function: Any, *arguments: Any) -> Any:  # noqa: ANN401  (any function of arrays)
    """`function(*arguments)`, compiled apart from what surrounds it; `happens` is true, but the compiler cannot know.

    Otherwise the compiler would compute its results again wherever one of them is used, many times over.
    """
    function = jax.jit(function)  # traced once
    shapes = jax.eval_shape(function, *arguments)

    def nothing(*_: Any) -> Any:  # noqa: ANN401
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    return jax.lax.cond(happens, function, nothing, *arguments)
