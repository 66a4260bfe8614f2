"""The loss: log EDP of the differentiable model, plus lambda times the penalties."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from fadiff.cost.arrays import MappingArrays, fuse
from fadiff.cost.capacity import kept_and_passing
from fadiff.cost.model import layer_costs
from fadiff.search.gradient.candidates import SHARED, T3
from fadiff.search.gradient.penalties import (
    Penalties,
    align_penalty,
    edge_trips,
    incompleteness,
    l1_bytes,
    mem_penalty,
    soft_l2_bytes,
    spatial_penalty,
    valid_penalty,
    whole_penalty,
)
from fadiff.search.gradient.smooth import RANK, smooth_costs

if TYPE_CHECKING:
    from jax import Array

    from fadiff.search.gradient.options import Anneal, DescentOptions
    from fadiff.search.gradient.problem import ProblemArrays
    from fadiff.search.gradient.relaxation import Params, Relaxed


class Outcome(NamedTuple):
    """What the model says about a relaxed schedule. Shapes ``[restarts]`` unless said."""

    energy_pj: Array
    cycles: Array
    penalties: Penalties
    order3: Array
    """``[restarts, layers]`` the best L3 order of each layer, a number into ``ORDERS3``."""
    l2_bytes: Array
    """``[restarts, layers]``"""
    l1_bytes: Array
    """``[restarts, layers]``"""

    @property
    def log_edp(self) -> Array:
        """log of EDP in uJ * cycles."""
        return jnp.log(self.energy_pj * 1e-6) + jnp.log(self.cycles)


def outcome(
    problem: ProblemArrays, options: DescentOptions, params: Params, relaxed: Relaxed, anneal: Anneal
) -> Outcome:
    """Price a relaxed schedule in all six L3 orders at once, and take each layer's best.

    The order is a third relaxed choice. A layer adds to log EDP its shares of energy and latency, and to the loss its
    spills if it is fused; of this sum over six orders the softmin at temperature tau is taken:

    .. math:: w_o = softmax_o(-\\log(E_o / \\bar E + D_o / \\bar D + \\lambda\\, P_{complete,o}) / \\tau), \\qquad
        E = \\sum_o w_o E_o

    Weights carry no gradient: at a minimum their change is worth nothing.
    """
    layers, factors = problem.layers, relaxed.factors
    ones = jnp.ones((2, 1, 1))
    fusion = fuse(problem.edges, relaxed.sigma, relaxed.trips, jnp.arange(5)[:, None, None], ones)
    temporal = jnp.concatenate([factors[1:T3], (factors[T3] * factors[SHARED])[None]])
    mapping = MappingArrays(factors[0][:, None], temporal[:, :, None], jnp.asarray(RANK))
    if options.gradient == "smooth":
        costs = smooth_costs(layers, factors, mapping, fusion, problem.hardware)
    else:
        costs = layer_costs(layers, mapping, fusion, problem.hardware)

    energy, cycles = costs.energy.total * layers.repeat, costs.cycles.total * layers.repeat
    incomplete = options.p_complete * incompleteness(layers, fusion, costs.tiles.spills)
    shares = energy / jnp.sum(jnp.mean(energy, axis=0), axis=-1)[:, None]
    shares = shares + cycles / jnp.sum(jnp.mean(cycles, axis=0), axis=-1)[:, None]
    price = jax.lax.stop_gradient(shares + anneal.weight * incomplete)
    best = price <= jnp.min(price, axis=0) * (1 + 1e-6)
    if options.orders == "soft":
        weights = jax.nn.softmax(-jnp.log(price + 1e-20) / anneal.tau, axis=0)
    else:
        weights = best / jnp.sum(best, axis=0)

    def mean(values: Array) -> Array:
        return jnp.sum(weights * values, axis=0)

    kept, passing = kept_and_passing(layers, fusion, costs.tiles)
    l2_need = soft_l2_bytes(mean(kept), mean(passing), relaxed, fusion, problem)
    l1_need = l1_bytes(relaxed, costs.tiles, problem)[0]
    trips = edge_trips(relaxed, problem)
    penalties = Penalties(
        valid=valid_penalty(relaxed, params, options),
        spatial=spatial_penalty(relaxed, problem, options),
        mem=mem_penalty(l2_need, l1_need, problem, options),
        align=align_penalty(relaxed.sigma, trips),
        whole=whole_penalty(relaxed.sigma, trips, problem),
        complete=jnp.sum(mean(incompleteness(layers, fusion, costs.tiles.spills)), axis=-1),
    )
    return Outcome(
        energy_pj=jnp.sum(mean(energy), axis=-1),
        cycles=jnp.sum(mean(cycles), axis=-1),
        penalties=penalties,
        order3=jnp.argmax(best, axis=0),
        l2_bytes=l2_need,
        l1_bytes=l1_need,
    )


def total_penalty(penalties: Penalties, options: DescentOptions) -> Array:
    """The weighted sum of all penalties, ``[restarts]``."""
    return (
        options.p_valid * penalties.valid
        + options.p_spatial * penalties.spatial
        + options.p_mem * penalties.mem
        + options.p_align * penalties.align
        + options.p_whole * penalties.whole
        + options.p_complete * penalties.complete
    )


def objective(result: Outcome, options: DescentOptions) -> Array:
    """EDP, energy (uJ) or latency (cycles), or its logarithm, ``[restarts]``."""
    value = {
        "edp": result.log_edp,
        "energy": jnp.log(result.energy_pj * 1e-6),
        "latency": jnp.log(result.cycles),
    }[options.objective]
    return value if options.log_objective else jnp.exp(value)


def loss(result: Outcome, options: DescentOptions, anneal: Anneal) -> Array:
    """The augmented loss, ``[restarts]``.

    .. math:: Loss = \\log EDP + \\lambda (P_{map} + P_{mem} + P_{align} + P_{whole} + P_{complete})

    The paper's is EDP itself (option `log_objective`), with P_map = P_valid + P_spatial, and lambda constant.
    """
    return objective(result, options) + anneal.weight * total_penalty(result.penalties, options)
