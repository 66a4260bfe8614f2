"""Constraints of a network on a machine as what a search reads: its space, ends of numbers, and groups that may be.

The search space follows from here: which nodes and orders there are to choose among, which mappings are out
(:func:`keeps`), how any mapping is brought near to what is asked (:func:`project`), and which layers may be a group.
What a schedule keeps in the end is judged by :meth:`fadiff.schedule.constraints.Constraints.broken`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, cached_property, partial
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np

from fadiff.schedule.arrays import unpack_mapping
from fadiff.schedule.constraint_kinds import FREE, Ranks
from fadiff.schedule.constraints import Constraints
from fadiff.schedule.nest import PLAIN_DIMS, product
from fadiff.search.space import LOOP_CLASSES, Space, divisors, map_space, settle
from fadiff.workload.layer import DIMS

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float, Int

    from fadiff.hardware import Machine
    from fadiff.schedule import Group, Mapping
    from fadiff.schedule.constraint_kinds import Constraint, Limit
    from fadiff.schedule.group_constraints import Together
    from fadiff.schedule.nest import Nest
    from fadiff.workload import Layer, Workload

    Factors = Float[np.ndarray, "nodes 8 rows"]

HELD_ONCE = "WO"
"""Tensors that may be asked to pass their home once."""


class Ends(NamedTuple):
    """What is asked of mappings, of a layer each: the last axis runs over layers, or rows."""

    least: Float[Any, "nodes 8 rows"]
    """Factors, the first memory's with the trips that a group shares."""
    most: Float[Any, "nodes 8 rows"]
    least_held: Float[Any, "nodes 8 rows"]
    """Extents in one instance of a memory."""
    most_held: Float[Any, "nodes 8 rows"]
    orders: Float[Any, "memories orders rows"]
    """1 for each order of the space that is allowed."""
    once: Float[Any, "tensors rows"]
    """1 where W, and where O, passes its home once."""

    def of(self, layers: Sequence[int], dtype: type = np.float64) -> Ends:
        """Those of some layers, one for each row."""
        return Ends(*(part[..., list(layers)].astype(dtype) for part in self))


class LayerAsked(NamedTuple):
    """What is asked of one layer's mapping, as a bound reads it."""

    ends: Ends
    """Of one row."""
    ranks: tuple[tuple[Ranks, ...], ...]
    """By memory."""
    once: str
    """Tensors that pass their home once."""


class Restrictions:
    """What is asked of a workload on a machine, and the space that is left; where nothing is asked, the machine's."""

    def __init__(self, workload: Workload, machine: Machine, constraints: Constraints = Constraints()) -> None:
        self.workload = workload
        self.machine = machine
        self.constraints = constraints
        given, free = constraints.given, map_space(machine)
        self._limits = [tuple(one for c in given for one in c.limits(x, machine)) for x in workload.layers]
        self._ranks = [_ranks(constraints, layer, machine) for layer in workload.layers]
        self._once = ["".join(c.once(layer) for c in given) for layer in workload.layers]
        self._standing = [self._agreed(i) for i in range(len(workload.layers))]
        # A loop that may as well run elsewhere may not where other factors or extents are asked for.
        memories, dims = machine.structure.memories, machine.structure.dims
        limits = [one for mine in self._limits for one in mine]
        touched = {one.dim for one in limits if one.held or one.least > 1 or one.node in memories}
        nodes = {DIMS[d]: tuple(n for n, taken in enumerate(dims) if DIMS[d] in taken) for d in touched}
        asked = [{ranks[m] for ranks, _ in self._standing if ranks[m]} for m in range(len(memories))]
        orders = tuple((*known, *_new(known, ranks)) for known, ranks in zip(free.orders, asked, strict=True))
        self.space = Space(free.nodes | nodes, orders)
        edges = [told for constraint in given for told in constraint.edges(workload)]
        self.required = {(edge.source, edge.target) for edge, fused in edges if fused}
        self.barred = {(edge.source, edge.target) for edge, fused in edges if not fused}
        groups = [group for constraint in given if (group := constraint.group()) is not None]
        self.given: dict[str, Together] = {}
        self.disagreeing: tuple[Together, Together] | None = None
        """Two groups that are asked for of which there can be only one; None where there are none."""
        for group in groups:
            for name in group.layers:
                before = self.given.get(name, group)
                both = before.agreed(group)
                if both is None:
                    self.disagreeing = before, group
                self.given[name] = both or group

    @cached_property
    def ends(self) -> Ends | None:
        """The same within the space: no factor where it has none."""
        if self.asked is None:
            return None
        most = self.asked.most.copy()
        for d, dim in enumerate(DIMS):
            most[[n for n in range(len(most)) if n not in self.space.nodes[dim]], d] = 1
        for i, (_, still) in enumerate(self._standing):
            for node, d in still:
                most[node, d, i] = 1
        return self.asked._replace(most=most)

    @cached_property
    def asked(self) -> Ends | None:
        """By layer: what is asked of its mapping; None where nothing is, of any."""
        if not (any(self._limits) or any(map(any, self._ranks)) or any(self._once)):
            return None
        shape = len(self.machine.nodes), 8, len(self.workload.layers)
        least, least_held = np.ones((2, *shape))
        most, most_held = np.full((2, *shape), np.inf)
        for i, mine in enumerate(self._limits):
            for node, dim, low, high, held in mine:
                lower, upper = (least_held, most_held) if held else (least, most)
                lower[node, dim, i] = max(lower[node, dim, i], low)
                upper[node, dim, i] = min(upper[node, dim, i], high)
        allowed = np.zeros((len(self.space.orders), max(map(len, self.space.orders)), shape[-1]))
        for m, orders in enumerate(self.space.orders):
            for n, order in enumerate(orders):
                allowed[m, n] = [_keeps_ranks(order, ranks[m]) for ranks, _ in self._standing]
        once = [[tensor in mine for mine in self._once] for tensor in HELD_ONCE]
        return Ends(least, most, least_held, most_held, allowed, np.array(once, np.float64))

    def touches(self, number: int) -> bool:
        """Whether anything is asked of a layer: of its mapping, or of what is fused around it."""
        name = self.workload.layers[number].name
        asked = bool(self._limits[number] or any(self._ranks[number]) or self._once[number])
        return asked or name in self.given or any(name in link for link in self.required)

    def of_layer(self, number: int) -> object:
        """All that is asked of a layer's mapping: layers that are alike otherwise may differ in it."""
        return self._limits[number], self._ranks[number], self._once[number]

    def layer_asked(self, number: int) -> LayerAsked | None:
        """The same as numbers; None where nothing is asked of any mapping."""
        if self.asked is None:
            return None
        return LayerAsked(self.asked.of([number]), self._ranks[number], self._once[number])

    def of_group(self, names: Sequence[str]) -> object:
        """All that is asked of layers as a group, by their places in it."""
        place = {name: i for i, name in enumerate(names)}
        tied, apart = (
            tuple((place.get(a), place.get(b)) for a, b in sorted(edges) if a in place or b in place)
            for edges in (self.required, self.barred)
        )
        given = tuple(self.given[name] for name in names if name in self.given)
        return tuple(self.of_layer(self.workload.number[name]) for name in names), tied, apart, given

    def near(self, number: int, mapping: Mapping) -> Mapping:
        """A mapping of a layer on its own brought near to what is asked of it."""
        if self.ends is None:
            return mapping
        orders = [_nearest(*one) for one in zip(mapping.orders, self._standing[number][0], strict=True)]
        tile = np.array(self.workload.layers[number].dims, dtype=np.float64)[:, None]
        factors, order = np.array(mapping.factors, np.float64)[..., None], np.zeros((len(orders), 1), np.int32)
        factors, _ = project(factors, order, self.ends.of([number]), tile, np.ones_like(tile), self.machine)
        settled = settle(cast("Array", factors), cast("Array", tile))
        return unpack_mapping(np.asarray(settled)[..., 0], (1,) * 8, orders)

    def told_by_bound(self, constraint: Constraint) -> Literal["all", "part", "no"]:
        """How much of a constraint a lower bound takes into account: all, but of a group's nesting what its innermost
        loop says."""
        group = constraint.group()
        return "part" if group is not None and group.loops is not None else "all"

    # Orders that contradict each other.

    def clashes(self, number: int, memory: int) -> list[tuple[int, int]]:
        """Pairs of dims of a layer whose loops at a memory must each stand outside the other: only one of them runs."""
        ranks = self._ranks[number][memory]
        if len(ranks) < 2:
            return []
        return [
            (a, b)
            for a, b in combinations(range(8), 2)
            if _outside(DIMS[a], DIMS[b], ranks) and _outside(DIMS[b], DIMS[a], ranks)
        ]

    def limits(self, number: int) -> tuple[Limit, ...]:
        """Ends of numbers of a layer's mapping that are asked for."""
        return self._limits[number]

    def must_run(self, number: int, node: int) -> set[int]:
        """Dims of a layer that are asked to have a loop at a node."""
        return {one.dim for one in self._limits[number] if one.node == node and one.least > 1 and not one.held}

    def _agreed(self, number: int) -> tuple[tuple[tuple[Ranks, ...], ...], list[tuple[int, int]]]:
        """Of a layer, by memory, ranks that a search can keep all of, and the loops (node, dim) that it leaves out so
        that it can: of those that must stand both outside and inside of others, the fewest that it meets."""
        found: list[tuple[Ranks, ...]] = []
        still: list[tuple[int, int]] = []
        for m, node in enumerate(self.machine.structure.memories):
            quiet, must, size = set[int](), self.must_run(number, node), self.workload.layers[number].dims
            clashes = self.clashes(number, m)
            while left := [pair for pair in clashes if quiet.isdisjoint(pair)]:
                counts = Counter(d for pair in left for d in pair)
                quiet.add(max(counts, key=lambda d: (d not in must, size[d] == 1, counts[d])))
            still += [(node, d) for d in sorted(quiet)]
            # What does not run may stand anywhere: here outermost, in all of them.
            ranks = (
                tuple(-1 if d in quiet else place for d, place in enumerate(one)) for one in self._ranks[number][m]
            )
            found.append(tuple(dict.fromkeys(ranks)))
        return tuple(found), still

    # Groups.

    def may_become(self, names: Iterable[str]) -> bool:
        """Whether a set of layers, or a larger one, may be a group."""
        inside = frozenset(names)
        if any(a in inside and b in inside for a, b in self.barred):
            return False
        return all(inside <= frozenset(self.given[name].layers) for name in inside if name in self.given)

    def kept_apart(self, names: Sequence[str]) -> Constraint | None:
        """A constraint that layers as a group would break, whatever their trips and mappings."""
        if self.may_become(names):
            return None
        alone = (Restrictions(self.workload, self.machine, Constraints((one,))) for one in self.constraints.given)
        return next((one.constraints.given[0] for one in alone if not one.may_become(names)), None)

    def may_be(self, names: Iterable[str]) -> bool:
        """Whether a set of layers may be a group."""
        inside = frozenset(names)
        if not self.may_become(inside) or any((a in inside) != (b in inside) for a, b in self.required):
            return False
        return all(inside == frozenset(self.given[name].layers) for name in inside if name in self.given)

    def allows(self, group: Group) -> bool:
        """Whether a group may be one as it is, with its trips."""
        if not (self.barred or self.required or self.given):
            return True
        given = self.given.get(group.layers[0])
        return self.may_be(group.layers) and (given is None or given.allows(group))


def keeps(ends: Ends, nest: Nest, order: Array) -> Array:
    """Whether mappings ``[nodes, 8, ..., rows]`` in orders ``[memories, ..., rows]`` are what is asked for."""
    factors, xp = nest.mapping.factors, nest.xp

    def wide(part: Array) -> Array:
        """``[a, rows]`` or ``[a, b, rows]`` beside mappings."""
        return part.reshape(*part.shape[:-1], *([1] * (factors.ndim - 3)), part.shape[-1])

    whole = xp.concatenate([factors[:1] * wide(nest.fusion.shared), factors[1:]])
    held = xp.minimum(xp.flip(xp.cumprod(xp.flip(factors, 0), axis=0), 0), wide(nest.fusion.tile))
    inside = (whole >= wide(ends.least)) & (whole <= wide(ends.most))
    inside = inside & (held >= wide(ends.least_held)) & (held <= wide(ends.most_held))
    number = xp.arange(ends.orders.shape[1]).reshape(-1, *([1] * (order.ndim - 1)))
    allowed = ((order[:, None] == number) & (wide(ends.orders) > 0)).any(axis=1)
    found = inside.all(axis=(0, 1)) & allowed.all(axis=0)
    for i, tensor in enumerate(HELD_ONCE):
        if (home := nest.structure.home(tensor)) is not None:
            words = product([nest.size[d] for d in PLAIN_DIMS[tensor]])
            # It passes at least once; half of that is safe from rounding in 32 bits.
            found = found & ((ends.once[i] < 1) | (nest.past(tensor, home, ()) < 1.5 * words))
    return found


def project(
    factors: Factors,
    order: Int[np.ndarray, "memories rows"],
    ends: Ends,
    tile: Float[Any, "8 rows"],
    shared: Float[Any, "8 rows"],
    machine: Machine,
    *,
    exact: bool = False,
) -> tuple[Factors, Int[np.ndarray, "memories rows"]]:
    """Mappings near to some that are within their ends and in an allowed order, where there are such.

    The first memory's factors are private. From the outside in it is found what the extent above every node must reach,
    as factors further out are at most so large, and what it may reach at most, so that they have something left to cut.
    From the inside out every factor is then the one nearest to what it was; with `exact` one that divides what is left.
    """
    tile, shared = np.asarray(tile, np.float64), np.asarray(shared, np.float64)
    least, most = ends.least.astype(np.float64), ends.most.astype(np.float64)
    least[0], most[0] = np.ceil(least[0] / shared), np.maximum(1, np.floor(most[0] / shared))
    wanted = _within_lanes(factors, least, machine)
    reach: list[Any] = [np.maximum(1, tile)]
    limit: list[Any] = [tile]
    for node in range(1, len(factors)):
        low, high = least[node - 1], most[node - 1]
        above = np.ceil(reach[-1] / high)
        # Where it covers the tile, a factor is ceil(tile / below): at least `low` of them where below < tile/(low-1).
        cut = np.where((limit[-1] >= tile) & (low > 1), np.ceil(tile / np.maximum(low - 1, 1)) - 1, 0)
        least_here = np.maximum(above, np.minimum(ends.least_held[node], tile))
        reach.append(_divisor(tile, least_here, least_here) if exact else least_here)
        left = np.maximum(1, np.maximum(cut, np.floor(limit[-1] / low)))
        limit.append(np.minimum(np.where(low > 1, left, limit[-1]), np.maximum(1, ends.most_held[node])))
    below: Any = np.ones_like(tile)
    found: list[Any] = []
    for node in reversed(range(len(factors))):
        covers = limit[node] >= tile
        room = covers * np.ceil(tile / below) + ~covers * np.floor(limit[node] / below)
        fewest = np.maximum(np.ceil(reach[node] / below), least[node])
        here = np.clip(wanted[node], fewest, np.maximum(fewest, np.minimum(room, most[node])))
        found.append(_divisor(np.ceil(tile / below), here, fewest) if exact else here)
        below = below * found[-1]
    first = ends.orders.argmax(axis=1).astype(np.int32)
    allowed = np.take_along_axis(ends.orders, order[:, None], axis=1)[:, 0] > 0
    return np.stack(found[::-1]), np.where(allowed, order, first)


@partial(np.vectorize, otypes=[np.float64])
@cache
def _divisor(size: float, wanted: float, least: float) -> float:
    """The largest divisor of a size up to what is wanted, but at least `least`; the size where there is none."""
    found = [divisor for divisor in divisors(int(size)) if divisor >= least]
    return max((divisor for divisor in found if divisor <= wanted), default=min(found, default=size))


def _within_lanes(factors: Factors, least: Factors, machine: Machine) -> Factors:
    """Factors that leave every axis the lanes which other dims must have."""
    found = np.array(factors, dtype=np.float64)
    for node, axis in zip(machine.structure.axes, machine.axes, strict=True):
        spare = axis.size / least[node].prod(axis=0)
        for d in range(8):
            most = np.maximum(1, np.floor(spare))
            found[node, d] = np.clip(found[node, d], least[node, d], least[node, d] * most)
            spare = spare * least[node, d] / found[node, d]
    return found


def _ranks(constraints: Constraints, layer: Layer, machine: Machine) -> tuple[tuple[Ranks, ...], ...]:
    """By memory: the ranks of a layer's loops that are asked for."""
    found: list[dict[Ranks, None]] = [{} for _ in machine.memories]
    for constraint in constraints.given:
        for memory, rank in constraint.ranks(layer, machine):
            if rank != FREE:
                found[memory][rank] = None
    return tuple(map(tuple, found))


def _new(known: Sequence[str], asked: Iterable[tuple[Ranks, ...]]) -> list[str]:
    """Orders that keep to ranks, and are not known: of every order that may differ the one nearest to it."""
    every = ["G" + "".join(order) for order in permutations(LOOP_CLASSES)]
    every += [order.replace("NPQ", "NQP") for order in every]
    found = dict.fromkeys(_nearest(order, ranks) for ranks in sorted(asked) for order in every)
    return [order for order in found if order not in known]


def _nearest(order: str, ranks: tuple[Ranks, ...]) -> str:
    """The loops of an order, each as far outside as ranks that agree allow."""
    left, found = list(order), ""
    while left:
        found += (first := next(dim for dim in left if not any(_outside(other, dim, ranks) for other in left)))
        left.remove(first)
    return found


def _outside(one: str, other: str, ranks: tuple[Ranks, ...]) -> bool:
    """Whether one loop must stand outside another."""
    return any(rank[DIMS.index(one)] < rank[DIMS.index(other)] for rank in ranks)


def _keeps_ranks(order: str, ranks: tuple[Ranks, ...]) -> bool:
    return all(not _outside(inner, outer, ranks) for i, outer in enumerate(order) for inner in order[i + 1 :])
