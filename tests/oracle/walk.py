"""Values moved by one MAC layer, counted while its loop nest runs.

The walk goes through the nest iteration by iteration, lanes in lockstep, cut ends really cut. Whenever it enters a
memory it looks whether the tiles there are the ones wanted now; what has to be brought is counted where it is written
and where it is read. The multipliers are the innermost "memory": they want new tiles, of one value a lane, every step.
Which tile is there is a matter of state: there are no formulas of traffic here.

The contract does not always count what a perfect controller would do. These rules of its own are followed here:

- A controller knows loops, not data: a tile is brought again whenever the innermost loop over a dim of its tensor, or
  a loop outside it, goes on, even if a cut end left that loop a single trip.
- A window slides along the innermost loop above a memory only. What a sweep brings is one tall tile, with the rows
  that a cut kernel would skip.
- Lanes share a whole tile of I or nothing, and only tiles that are not cut; only lanes without a loop over the same
  image axis below them share along it.
- In a group of several layers everybody uses the memories further in than a tensor's home in between: nothing is left
  there in the next shared iteration.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise, product
from math import prod

from fadiff.schedule import Schedule
from fadiff.workload import DIMS
from oracle.nest import Enter, Lanes, Loop, Nest, Part, Parts, nest

RELEVANT = {"W": "GKCRS", "I": "GNCPQRS", "O": "GNKPQ"}
IMAGE_AXES = (("P", "R"), ("Q", "S"))


@dataclass
class Passage:
    """Values of one tensor that passed between a memory (or the multipliers) and the next keeper outwards."""

    outer: int
    """Values at the next keeper outwards: read there (W, I), or arriving there (O)."""
    inner: int
    """Values at the memory: written there (W, I), or leaving it (O)."""
    reloaded: int = 0
    """Unfinished sums that came back from the next keeper outwards."""
    finished: int = 0
    """Arrivals that are finished outputs."""


@dataclass
class Walk:
    """What the walk of one layer found. Memories go by their node number; the number of nodes is the multipliers."""

    keepers: dict[str, tuple[int, ...]]
    """The memories each tensor passes, outermost first, and the multipliers."""
    passages: dict[tuple[str, int], Passage]
    """By tensor and memory."""
    steps: int = 0
    macs: int = 0
    tiles: dict[tuple[str, int], int] = field(default_factory=dict)
    """Values that one instance of a memory holds, by tensor and memory."""
    kept: set[tuple[str, int]] = field(default_factory=set)
    """Tiles of which something was still there in the next shared iteration."""
    instances: Counter = field(default_factory=Counter)
    """The most instances of each memory in use at a time."""


def keepers(schedule: Schedule, name: str, tensor: str) -> tuple[int, ...]:
    """The memories that a tensor of a layer passes, outermost first: fused operands start in the memory that fuses."""
    machine, group = schedule.machine, schedule.group_of[name]
    fuses = machine.structure.fuses
    found = tuple(n for n in machine.structure.memories if tensor in machine.structure.keeps[n])
    weights_fused = any(o.port == "weight" and o.source in group.layers for o in schedule.workload[name].inputs)
    if tensor == "W" and weights_fused:
        assert fuses is not None
        return (fuses, *(n for n in found if n > fuses))
    return found


def walk(schedule: Schedule, name: str, *, skip: bool = True) -> Walk:
    """Walk a MAC layer as a part of its group.

    With `skip` iterations of a loop that are like the one before in everything are not walked again but counted.
    """
    return _Walker(schedule, name, skip).run()


@dataclass
class _Tile:
    """One tensor at one memory (or at the multipliers): when it changes, and what is there."""

    tensor: str
    node: int
    parent: int
    until: int
    """How many of the loops, from the outside, change the tile: the others find it there."""
    window: Loop | None
    """The loop along which a window slides."""
    at: tuple[int, ...] | None = None
    """The iteration of those loops that the tile there belongs to."""
    came: tuple[int, ...] = ()
    """The shared iteration in which it came."""
    seen: dict[tuple[int, ...], set] = field(default_factory=dict)
    """Sums that have arrived here since the tile came: by outputs, the instances that have them."""
    old: set = field(default_factory=set)
    """Instances whose sums came back from further out when the tile came."""


class _Walker:
    def __init__(self, schedule: Schedule, name: str, skip: bool):
        self.layer, self.skip = schedule.workload[name], skip
        self.nest: Nest = nest(schedule, name)
        self.axes, self.memories = schedule.machine.structure.axes, schedule.machine.structure.memories
        self.in_use = dict.fromkeys(self.axes, 1)
        multipliers = len(schedule.machine.nodes)
        alone = len(schedule.group_of[name].layers) == 1
        chains = {t: (*keepers(schedule, name, t), multipliers) for t in "WIO"}
        self.found = Walk(chains, {(t, n): Passage(0, 0) for t in chains for n in chains[t][1:]})
        self.there: dict[tuple[str, int], _Tile] = {}
        for tensor, chain in chains.items():
            for parent, node in pairwise(chain):
                # A fused operand lives where its chain starts; others at home, one further in than the first memory.
                at_home = node == chain[1] and chain[0] == 0
                self.there[tensor, node] = self._tile(tensor, node, parent, forgets=not (alone or at_home))
        self.first_memory: dict[tuple[int, ...], set] = {}
        self.arrived: defaultdict[int, set] = defaultdict(set)

    def _tile(self, tensor: str, node: int, parent: int, forgets: bool) -> _Tile:
        above = [loop for loop in self.nest.loops if loop.node < node]
        changing = [i for i, loop in enumerate(above, 1) if loop.dim in RELEVANT[tensor] or (forgets and loop.shared)]
        # The multipliers hold nothing: every step is new to them.
        until = len(above) if node == self.nest.levels[-1].node else max(changing, default=0)
        window = above[-1] if tensor == "I" and above and self._slides(above[-1], node, forgets) else None
        return _Tile(tensor, node, parent, until, window)

    def _slides(self, loop: Loop, node: int, forgets: bool) -> bool:
        """Whether the window of I in a memory slides along the innermost loop above it."""
        if (forgets and loop.shared) or node == self.nest.levels[-1].node:
            return False
        if any(self.nest.factors[axis][loop.dim] > 1 for axis in self.axes if loop.node < axis < node):
            return False
        for axis, (outputs, kernel) in enumerate(IMAGE_AXES):
            stride, dilation = self.layer.stride[axis], self.layer.dilation[axis]
            if loop.dim == outputs:
                return stride <= (self.nest.held(node, kernel) - 1) * dilation + 1
            if loop.dim == kernel:
                return dilation <= (self.nest.held(node, outputs) - 1) * stride + 1
        return False

    def run(self) -> Walk:
        self._visit(0, {d: (Part((), 0, size),) for d, size in self.layer.dims._asdict().items()}, (), 1)
        # Where a dim is cut over two axes some of these are idle: of 3 channels on 2 x 2 lanes one. The contract counts
        # lanes in use axis by axis, and so does this.
        for node in (*self.memories, self.nest.levels[-1].node):
            self.found.instances[node] = prod(lanes for axis, lanes in self.in_use.items() if axis < node)
        return self.found

    def _visit(self, level: int, parts: Parts, at: tuple[int, ...], weight: int) -> None:
        """Everything from a level of the nest inwards, in iteration `at` of the loops outside.

        weight: how many iterations alike this one stands for.
        """
        if level == len(self.nest.levels):
            return
        here = self.nest.levels[level]
        if isinstance(here, Enter):
            self._enter(here.node, parts, at, weight)
            self._visit(level + 1, parts, at, weight)
        elif isinstance(here, Lanes):
            dealt = here.deal(parts)
            most = (max(Counter(part.lanes[:-1] for part in dealt[d]).values()) for d in DIMS if here.lanes[d] > 1)
            self.in_use[here.node] = max(self.in_use[here.node], prod(most))
            self._visit(level + 1, dealt, at, weight)
        else:
            for number, now, alike in self._iterations(here, parts[here.dim]):
                self._visit(level + 1, parts | {here.dim: now}, (*at, number), weight * alike)

    def _iterations(self, loop: Loop, parts: tuple[Part, ...]) -> Iterator[tuple[int, tuple[Part, ...], int]]:
        """Iterations of a loop until every lane is done: number, parts, and for how many it stands."""
        found = ((i, loop.iteration(parts, i)) for i in range(loop.trips))
        running = [(i, now) for i, now in found if now]
        if not self.skip:
            yield from ((i, now, 1) for i, now in running)
            return
        # The first one brings what is not there yet; later ones are alike if the same lanes get as much.
        for _, group in groupby(running, lambda item: (item[0] == 0, tuple((p.lanes, p.size) for p in item[1]))):
            alike = list(group)
            yield (*alike[0], len(alike))

    def _lanes_above(self, node: int) -> int:
        return sum(axis < node for axis in self.axes)

    def _enter(self, node: int, parts: Parts, at: tuple[int, ...], weight: int) -> None:
        if node == self.nest.levels[-1].node:
            self.found.steps += weight
            self.found.macs += weight * prod(len(parts[d]) for d in DIMS)
        shared = at[: sum(loop.shared for loop in self.nest.loops)]
        for tensor in "WIO":
            tile = self.there.get((tensor, node))
            if tile is None:
                continue
            if tile.at == at[: tile.until]:
                if tile.came != shared:
                    self.found.kept.add((tensor, node))
                continue
            assert not any(at[tile.until :]), "a tile comes in the first iteration of the loops that leave it there"
            tile.at, tile.came = at[: tile.until], shared
            self.found.tiles[tensor, node] = max(self.found.tiles.get((tensor, node), 0), self._size(tensor, parts))
            if tensor == "O":
                self._sums_come_and_go(tile, parts, at, weight)
            else:
                self._bring(tile, parts, weight, slid=tile.window is not None and at[-1] > 0)

    def _size(self, tensor: str, parts: Parts) -> int:
        """Values in the fullest instance."""
        most = {d: max(part.size for part in parts[d]) for d in DIMS}
        if tensor == "I":
            for axis, (outputs, kernel) in enumerate(IMAGE_AXES):
                most[outputs] = (most[outputs] - 1) * self.layer.stride[axis]
                most[outputs] += (most[kernel] - 1) * self.layer.dilation[axis] + 1
                most[kernel] = 1
        return prod(most[d] for d in RELEVANT[tensor])

    # Weights and inputs come from the next keeper outwards.

    def _bring(self, tile: _Tile, parts: Parts, weight: int, slid: bool) -> None:
        """New tiles for all instances; instances that want the same one at the same time share one read.

        slid: whether the window that was there has gone on along its loop.
        """
        written = read = weight
        for d in DIMS:
            if tile.tensor == "I" and d in "PQRS":
                continue
            if d in RELEVANT[tile.tensor]:
                written *= sum(part.size for part in parts[d])
                read *= sum(part.size for part in parts[d])
            else:
                written *= len(parts[d])
                read *= len(_lanes(parts[d], self._lanes_above(tile.parent)))
        if tile.tensor == "I":
            for axis in (0, 1):
                lines = self._lines(tile, axis, parts, slid)
                written *= sum(fetched for _, fetched in lines)
                read *= sum(dict(lines).values())
        passage = self.found.passages[tile.tensor, tile.node]
        passage.inner += written
        passage.outer += read

    def _lines(self, tile: _Tile, axis: int, parts: Parts, slid: bool) -> list[tuple[tuple, int]]:
        """Rows (axis 0) or columns (1) brought for each pair of lanes: which tile they are of, and how many."""
        pair = IMAGE_AXES[axis]
        apart = self._axes_apart(tile, pair)
        found = []
        for lane in product(*(parts[d] for d in pair)):
            first, end = self._span(axis, *lane)
            if slid and tile.window.dim in pair:
                # Everything up to the end of the window one iteration ago is there.
                there = self._span(axis, *(self._ago(tile.window, d, x) for d, x in zip(pair, lane, strict=True)))[1]
                if tile.window.shared and there > first:
                    self.found.kept.add((tile.tensor, tile.node))
                first = there
            full = all(x.size == self.nest.held(tile.node, d) for d, x in zip(pair, lane, strict=True))
            lanes = tuple(x.lanes[:apart] if full else x.lanes for x in lane)
            found.append(((full, lanes, first, end), end - first))
        return found

    def _span(self, axis: int, p: Part, r: Part) -> tuple[int, int]:
        """The rows or columns of an image that some outputs and taps read, with everything in between."""
        stride, dilation = self.layer.stride[axis], self.layer.dilation[axis]
        return (
            p.start * stride + r.start * dilation,
            (p.stop - 1) * stride + (r.stop - 1) * dilation + 1,
        )

    def _ago(self, window: Loop, dim: str, part: Part) -> Part:
        """What a lane had of a dim one iteration of a loop ago."""
        return Part(part.lanes, part.start - window.step, part.start) if dim == window.dim else part

    def _axes_apart(self, tile: _Tile, pair: tuple[str, str]) -> int:
        """How many axes, from the outside, keep the tiles of their lanes apart: lanes of the others may share them."""
        last = max((loop.node for loop in self.nest.loops if loop.dim in pair and loop.node < tile.node), default=-1)
        return sum(axis < max(tile.parent, last) for axis in self.axes)

    # Sums go outwards, and come back if they left unfinished.

    def _sums_come_and_go(self, tile: _Tile, parts: Parts, at: tuple[int, ...], weight: int) -> None:
        """New outputs for all instances: their old sums come back now, their new ones will leave before the next.

        Sums of instances under one instance of the parent are added on the way: one sum of each output arrives.
        Of these instances one goes on with the old sum.
        """
        outputs = prod(sum(part.size for part in parts[d]) for d in RELEVANT["O"])
        mine = set(product(*(_lanes(parts[d], self._lanes_above(tile.node)) for d in "CRS")))
        width = self._lanes_above(tile.parent)
        above = {tuple(lanes[:width] for lanes in instance) for instance in mine}
        parent = self.there.get(("O", tile.parent))
        which = tuple(i for i, loop in zip(at, self.nest.loops, strict=False) if loop.dim in RELEVANT["O"])
        seen = parent.seen if parent else self.first_memory
        has_old = above & (seen.get(which, set()) | (parent.old if parent else set()))
        passage = self.found.passages["O", tile.node]
        passage.inner += weight * outputs * len(mine)
        passage.outer += weight * outputs * len(above)
        passage.reloaded += weight * outputs * len(has_old)
        if which not in self.arrived[tile.parent]:
            # Every output is finished once: the last time it arrives where all of its terms come together.
            self.arrived[tile.parent].add(which)
            if all(self.nest.factors[axis][d] == 1 for axis in self.axes[:width] for d in "CRS"):
                passage.finished += weight * outputs
        seen.setdefault(which, set()).update(above)
        first = {}
        for instance in sorted(mine):
            first.setdefault(tuple(lanes[:width] for lanes in instance), instance)
        tile.old, tile.seen = {first[instance] for instance in has_old}, {}


def _lanes(parts: tuple[Part, ...], axes: int) -> set[tuple[int, ...]]:
    """The lanes in use of the outermost axes."""
    return {part.lanes[:axes] for part in parts}
