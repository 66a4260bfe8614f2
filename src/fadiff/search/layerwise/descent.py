"""DOSA's loss, and Adam on it: all layers of all starts at once, steps in one compiled loop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax

from fadiff.cost.model import layer_costs
from fadiff.search.layerwise.mapspace import Model, every_factor, loads, measure, nest_of

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

    variables: Float[Any, "free starts layers"]
    """Factors over their normalizers."""
    adam: optax.OptState


class Fixed(NamedTuple):
    """What does not change between two roundings."""

    normalizers: Float[Any, "free 1 1"]
    orders: Int[Any, "starts layers"]
    """Loop orders of the first memory."""
    scale: Float[Any, " starts"]
    """What each start costs."""
    learning_rate: float


def init(variables: Float[Any, "free starts layers"]) -> State:
    """A descent before its first step."""
    return State(variables, _ADAM.init(variables))


def acting(factors: Array) -> Array:
    """Factors as the model sees them: those below 1 act as 1, without a gradient. At 1 the gradient passes."""
    still = jax.lax.stop_gradient(factors)
    at_least_one = 1 + jnp.where(still >= 1 - NEAR_ONE, factors - still, 0)
    return jnp.where(still > 1 + NEAR_ONE, factors, at_least_one)


def loss_and_gradient(model: Model, point: Array, orders: Array) -> tuple[Array, Array]:
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

    def terms(point: Array) -> tuple[Array, Array, Array]:
        """What each layer adds to energy, latency and penalties."""
        every = every_factor(model, point)
        nest = nest_of(model, acting(every), orders)
        costs, repeat = layer_costs(nest, model.machine), model.layers.repeat
        below = jnp.sum(jnp.maximum(1 - every, 0) ** 2, axis=(0, 1))
        excess = jnp.sum(jnp.maximum(loads(nest, model.machine) - 1, 0) ** 2, axis=0)
        return costs.energy_pj * repeat, costs.cycles * repeat, below + excess

    directions = jnp.broadcast_to(jnp.eye(len(point))[..., None, None], (len(point), *point.shape))
    along = jax.vmap(partial(jax.jvp, terms, (point,)), out_axes=(None, 0))
    here, (d_energy, d_cycles, d_penalty) = along((directions,))
    energy_pj, cycles, penalty = (jnp.sum(part, axis=-1) for part in here)
    cost, (a, b, s) = measure(model, energy_pj, cycles), model.objective
    leaking = (energy_pj + s * cycles)[:, None]
    relative = a * (d_energy + s * d_cycles) / leaking + b * d_cycles / cycles[:, None] + d_penalty
    return cost * (1 + penalty), cost[:, None] * relative


@jax.jit
def descend(model: Model, fixed: Fixed, state: State, count: int) -> State:
    """`count` steps of Adam."""

    def advance(_: Array, state: State) -> State:
        _, slope = loss_and_gradient(model, state.variables * fixed.normalizers, fixed.orders)
        gradient = jnp.where(model.runs, slope * fixed.normalizers, 0) / fixed.scale[:, None]
        update, adam = _ADAM.update(gradient, state.adam)
        return State(state.variables - fixed.learning_rate * cast("Array", update), adam)

    return cast("State", jax.lax.fori_loop(0, count, advance, state))
