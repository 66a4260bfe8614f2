"""DOSA's loss, and Adam on it: all layers of all starts at once, steps in one compiled loop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax

from fadiff.cost.model import layer_costs
from fadiff.search.layerwise.mapspace import Frame, Model, every_factor, loads, measure, nest_of

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

    variables: Float[Array, "free starts layers"]
    """Factors over their normalizers."""
    adam: optax.ScaleByAdamState


class Fixed(NamedTuple):
    """What does not change between two roundings."""

    normalizers: Float[Array, "free 1 1"]
    orders: Int[Array, "starts layers"]
    """Loop orders of the first memory."""
    scale: Float[Array, " starts"]
    """What each start costs."""
    learning_rate: float


class Terms(NamedTuple):
    """What each layer adds to energy, latency and penalties."""

    energy_pj: Float[Array, "starts layers"]
    cycles: Float[Array, "starts layers"]
    penalty: Float[Array, "starts layers"]


def init(variables: Array) -> State:
    """A descent before its first step."""
    return State(variables, cast("optax.ScaleByAdamState", _ADAM.init(variables)))


def to_point(model: Model, variables: Array, normalizers: Array) -> Array:
    """The factors that variables stand for; those of dims of one trip are 1."""
    return jnp.where(model.runs, variables * normalizers, 1)


def acting(factors: Array) -> Array:
    """Factors as the model sees them: those below 1 act as 1, without a gradient. At 1 the gradient passes."""
    still = jax.lax.stop_gradient(factors)
    at_least_one = 1 + jnp.where(still >= 1 - NEAR_ONE, factors - still, 0)
    return jnp.where(still > 1 + NEAR_ONE, factors, at_least_one)


def terms(frame: Frame, model: Model, point: Array, orders: Array) -> Terms:
    """Energy, latency and penalties by layer; see :func:`loss_and_gradient`."""
    every = every_factor(frame, model, point)
    nest = nest_of(frame, model, acting(every), orders)
    costs = layer_costs(nest, model.machine)
    below = jnp.sum(jnp.maximum(1 - every, 0) ** 2, axis=(0, 1))
    excess = jnp.sum(jnp.maximum(loads(nest, model.machine) - 1, 0) ** 2, axis=0)
    repeat = model.layers.repeat
    return Terms(costs.energy_pj * repeat, costs.cycles * repeat, below + excess)


def loss_and_gradient(frame: Frame, model: Model, point: Array, orders: Array) -> tuple[Array, Array]:
    """The loss ``[starts]``, and its gradient in the factors ``[free, starts, layers]``.

    .. math:: Loss = EDP + \\overline{EDP}\\, P, \\qquad
        P = \\sum_f \\max(0, 1 - f)^2 + \\sum_{v,i} \\max(0, need_{v,i} / C_i - 1)^2

    f runs over all factors, the first memory's quotients included, v over layers, i over axes and memories; the bar
    stops the gradient. The last sum is not DOSA's, whose hardware grows with its mappings. It is P_spatial and P_mem of
    FADiff's paper, squared excess of need over capacity, with lambda = EDP / C_i^2. With EDP = E * D (or E, or D):

    .. math:: dLoss = EDP \\left( \\frac{dE}{E} + \\frac{dD}{D} + dP \\right)

    Layers do not see each other, so one derivative in the direction of each free factor, taken for all layers at once,
    is the whole gradient. Compiling this takes a third of the time that a backward pass takes, and so does a step.
    """

    def at(moved: Array) -> Terms:
        return terms(frame, model, moved, orders)

    def along(direction: Array) -> tuple[Terms, Terms]:
        tangent = jnp.broadcast_to(direction[:, None, None], point.shape)
        return cast("tuple[Terms, Terms]", jax.jvp(at, (point,), (tangent,)))

    here, slopes = jax.vmap(along, out_axes=(None, 0))(jnp.eye(len(frame.free)))
    energy_pj, cycles, penalty = (jnp.sum(part, axis=-1) for part in here)
    cost = measure(model, energy_pj, cycles)
    relative = model.exponents[0] * slopes.energy_pj / energy_pj[:, None]
    relative += model.exponents[1] * slopes.cycles / cycles[:, None] + slopes.penalty
    return cost * (1 + penalty), cost[:, None] * relative


@partial(jax.jit, static_argnames=("frame",))
def descend(frame: Frame, model: Model, fixed: Fixed, state: State, count: int) -> State:
    """`count` steps of Adam."""

    def advance(_: Array, state: State) -> State:
        point = to_point(model, state.variables, fixed.normalizers)
        _, slope = loss_and_gradient(frame, model, point, fixed.orders)
        gradient = jnp.where(model.runs, slope * fixed.normalizers, 0) / fixed.scale[:, None]
        update, adam = _ADAM.update(gradient, state.adam)
        variables = state.variables - fixed.learning_rate * cast("Array", update)
        return State(variables, cast("optax.ScaleByAdamState", adam))

    return cast("State", jax.lax.fori_loop(0, count, advance, state))
