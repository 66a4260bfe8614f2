"""The loss: log EDP of the differentiable model, plus lambda times the penalties."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from fadiff.cost.model import layer_costs, network_cost
from fadiff.schedule.arrays import MappingArrays, fuse
from fadiff.schedule.capacity import tiles
from fadiff.schedule.nest import Nest
from fadiff.search.gradient.penalties import PENALTIES, Scene, incompleteness
from fadiff.search.gradient.relaxation import Integers
from fadiff.search.gradient.smooth_nest import SmoothNest
from fadiff.search.objective import charged_pj
from fadiff.search.space import rank_table

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float, Int

    from fadiff.hardware import Structure
    from fadiff.schedule.arrays import Fusion, LayerArrays
    from fadiff.search.gradient.problem import ProblemArrays
    from fadiff.search.gradient.relaxation import Relaxed
    from fadiff.search.gradient.settings import Anneal, DescentSettings
    from fadiff.search.objective import Charges

    Options = Int[Array, "considered memories restarts layers"]
    """Numbers of the loop orders that each layer considers."""
    Orders = Int[Array, "memories restarts layers"]
    PerOption = Float[Array, "considered restarts layers"]

Known = dict[tuple[object, ...], Any]
"""Counts and extents of a nest, by what they are of."""
_KNOWN = ("count", "held", "last", "innermost", "slides")
_NESTING = cast("Array", np.array([0, 1, 0, 0, 2, 3, 0, 0], dtype=np.float32)[:, None, None])
"""Ranks of the shared loops by dim: G, N, P, Q from the outermost in."""


class Seen(NamedTuple):
    """What the model says about a relaxed schedule."""

    energy_pj: Float[Array, " restarts"]
    cycles: Float[Array, " restarts"]
    penalties: Float[Array, "penalties restarts"]
    """In the order of :data:`~fadiff.search.gradient.penalties.PENALTIES`, before weights."""


def _nested(
    problem: ProblemArrays, integers: Integers, sigma: Array, orders: Int[Array, "*considered memories restarts layers"]
) -> tuple[Structure, LayerArrays, MappingArrays, Fusion]:
    """What a nest is made of; before restarts may stand an axis of considered orders."""
    tables, chosen = [jnp.asarray(rank_table(choices)) for choices in problem.orders], jnp.moveaxis(orders, -3, 0)
    rank = tuple(t[:, mine] if t.shape[1] > 1 else t[..., None] for t, mine in zip(tables, chosen, strict=True))
    fusion = fuse(problem.edges, sigma, integers.shared, _NESTING, integers.tile)
    return problem.structure, problem.layers, MappingArrays(integers.factors, rank), fusion


def price_orders(
    problem: ProblemArrays, settings: DescentSettings, integers: Integers, sigma: Array, orders: Options, weight: Array
) -> tuple[PerOption, Known]:
    """The price of every layer in each of the considered orders, and what the exact nest counts in each.

    A layer adds to log EDP its shares of energy and latency, and to the loss its unfinished sums if it is fused:

    .. math:: price_o = E_o / \\bar E + D_o / \\bar D + \\lambda\\, P_{complete,o}
    """
    in_each = Integers(*(jnp.expand_dims(values, -3) for values in integers))
    nest = Nest(*_nested(problem, in_each, sigma, orders), alone=not problem.shares)
    costs = layer_costs(nest, problem.machine)
    tiles(nest, problem.machine)  # its counts are wanted too
    complete = [penalty.name for penalty in PENALTIES].index("complete")
    price = weight * settings.weights[complete] * incompleteness(nest)
    objective = settings.objective
    energy_pj = charged_pj(costs, objective.charges, jnp)
    priced = objective.leaking_pj(energy_pj, costs.cycles), costs.cycles
    for exponent, cost in zip(objective.exponents, priced, strict=True):
        repeated = cost * problem.layers.repeat
        price = price + exponent * repeated / jnp.sum(repeated[:1], axis=-1, keepdims=True)
    known = {key: values for key, values in nest.known.items() if key[0] in _KNOWN}
    return jnp.broadcast_to(price, (len(orders), *integers.tile.shape[1:])), known


def choose_orders(
    settings: DescentSettings, orders: Options, price: PerOption, known: Known, gumbel: PerOption, tau: Array
) -> tuple[Orders, Known]:
    """Take one of the considered orders of every layer, and what the exact nest counts in it.

    Loop orders are a third relaxed choice: one is drawn with :math:`p_o = softmax_o(-\\log price_o / \\tau)`.
    """
    score = -jnp.log(price + 1e-20)
    best = jnp.argmax(score / tau + gumbel if settings.orders == "drawn" else score, axis=0)

    def take(values: Array) -> Array:
        return reduce(lambda rest, i: jnp.where(best == i, values[i], rest), range(1, len(values)), values[0])

    return take(orders), {key: take(values) for key, values in known.items()}


def set_scene(
    problem: ProblemArrays, settings: DescentSettings, soft: Relaxed, integers: Integers, orders: Orders, known: Known
) -> Scene:
    """A relaxed schedule as a nest with gradients."""
    given, smooth = _nested(problem, integers, soft.sigma, orders), settings.gradient == "smooth"
    nest = SmoothNest(*given, alone=not problem.shares, known=dict(known), logs=soft.logs, smooth=smooth)
    return Scene(problem, nest, soft, settings.hinge == "squared")


def look(scene: Scene, charges: Charges = ()) -> Seen:
    """Price a relaxed schedule, with charges."""
    costs = layer_costs(scene.nest, scene.problem.machine)
    cost = network_cost(scene.problem.layers, costs._replace(energy_pj=charged_pj(costs, charges, jnp)))
    return Seen(*cost, penalties=jnp.stack([penalty.excess(scene) for penalty in PENALTIES]))


def loss(seen: Seen, settings: DescentSettings, now: Anneal) -> Float[Array, " restarts"]:
    """The augmented loss.

    .. math:: Loss = \\log EDP + \\lambda (P_{map} + P_{mem} + P_{align} + P_{whole} + P_{complete})

    The paper's is EDP itself (setting `log_objective`), with P_map = P_valid + P_spatial, and lambda constant.
    """
    a, b = settings.objective.exponents
    energy_uj = settings.objective.leaking_pj(seen.energy_pj, seen.cycles) * 1e-6
    objective = a * jnp.log(energy_uj) + b * jnp.log(seen.cycles)
    penalties = sum((weight * value for weight, value in zip(settings.weights, seen.penalties, strict=True)), 0.0)
    return (objective if settings.log_objective else jnp.exp(objective)) + now.weight * penalties


def apart(happens: Array, function: Any, *arguments: Any) -> Any:  # noqa: ANN401  (any function of arrays)
    """`function(*arguments)`, compiled apart from what surrounds it; `happens` is true, but the compiler cannot know.

    Otherwise the compiler would compute its results again wherever one of them is used, many times over.
    """
    function = jax.jit(function)  # traced once
    shapes: Any = jax.eval_shape(function, *arguments)

    def nothing(*_: Any) -> Any:  # noqa: ANN401
        return jax.tree.map(cast("Any", jnp.zeros_like), shapes)

    return cast("Any", jax.lax.cond(happens, function, nothing, *arguments))
