"""DOSA's loss, and Adam on it: all layers of all starts at once, steps in one compiled loop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax

from fadiff.next.search.layerwise.mapspace import Frame, Model, costs_of, loads, measure, nest_of, with_quotients

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float, Int

NEAR_ONE = 1e-5
"""A factor this close to 1 is 1: in 32 bits 3/3 may come out a little above, and would count as a loop that runs."""
_ADAM = optax.scale_by_adam(eps=1e-16)
"""DOSA's EDPs are in the billions, and the usual epsilon of 1e-8 is nothing beside their gradients. Here losses are
divided by the cost of their start, so that squared gradients stay within 32 bits; an epsilon as small keeps the steps.
"""


class State(NamedTuple):
    """Where the descent stands."""

    variables: Float[Array, "nodes 8 starts layers"]
    """Factors over their normalizers."""
    adam: optax.ScaleByAdamState


class Fixed(NamedTuple):
    """What does not change between two roundings."""

    normalizers: Float[Array, "nodes 8 1 1"]
    orders: Int[Array, "starts layers"]
    """Loop orders of the first memory."""
    scale: Float[Array, " starts"]
    """What each start costs."""
    learning_rate: float


def init(variables: Array) -> State:
    """A descent before its first step."""
    return State(variables, cast("optax.ScaleByAdamState", _ADAM.init(variables)))


def to_point(model: Model, variables: Array, normalizers: Array) -> Array:
    """The factors that variables stand for; those that are not free are 1."""
    return jnp.where(model.free, variables * normalizers, 1)


def acting(factors: Array) -> Array:
    """Factors as the model sees them: those below 1 act as 1, without a gradient. At 1 the gradient passes."""
    still = jax.lax.stop_gradient(factors)
    at_least_one = 1 + jnp.where(still >= 1 - NEAR_ONE, factors - still, 0)
    return jnp.where(still > 1 + NEAR_ONE, factors, at_least_one)


def loss(frame: Frame, model: Model, point: Array, orders: Array) -> Float[Array, " starts"]:
    """The loss of each start.

    .. math:: Loss = EDP + \\overline{EDP}\\, P, \\qquad
        P = \\sum_f \\max(0, 1 - f)^2 + \\sum_{v,i} \\max(0, need_{v,i} / C_i - 1)^2

    f runs over all factors, the first memory's quotients included, v over layers, i over axes and memories; the bar
    stops the gradient. The last sum is not DOSA's, whose hardware grows with its mappings. It is P_spatial and P_mem of
    FADiff's paper, squared excess of need over capacity, with lambda = EDP / C_i^2.
    """
    every = with_quotients(model, point)
    nest = nest_of(frame, model, acting(every), orders)
    costs = costs_of(nest, model)
    below = jnp.sum(jnp.maximum(1 - every, 0) ** 2, axis=(0, 1, -1))
    excess = jnp.sum(jnp.maximum(loads(nest, model) - 1, 0) ** 2, axis=(0, -1))
    energy_pj, cycles = (jnp.sum(part * model.layers.repeat, axis=-1) for part in (costs.energy_pj, costs.cycles))
    cost = measure(model, energy_pj, cycles)
    return cost + jax.lax.stop_gradient(cost) * (below + excess)


@partial(jax.jit, static_argnames=("frame",))
def descend(frame: Frame, model: Model, fixed: Fixed, state: State, count: int) -> State:
    """`count` steps of Adam."""

    def total(variables: Array) -> Array:
        point = to_point(model, variables, fixed.normalizers)
        return jnp.sum(loss(frame, model, point, fixed.orders) / fixed.scale)

    def advance(_: Array, state: State) -> State:
        update, adam = _ADAM.update(jax.grad(total)(state.variables), state.adam)
        variables = state.variables - fixed.learning_rate * cast("Array", update)
        return State(variables, cast("optax.ScaleByAdamState", adam))

    return jax.lax.fori_loop(0, count, advance, state)
