"""Equal blocks in a row as one block that repeats.

A run is a stretch of layers that are the same `count` times over, but for their names: each block reads its own layers,
those of the block before it, and layers before the run, which are the same for all blocks. Nobody reads a block from
afar but the last one. Such a run becomes its first block, whose layers repeat `count` times as often. What a block
reads of the one before, and what others read of the last one, goes through DRAM from then on: MACs, weights and the
cost of schedules without fusion stay what they were, and fusion within a block is possible as before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from fadiff.workload.graph import Workload
from fadiff.workload.layer import Input, Layer

AT_THE_BORDER = "equal blocks are folded into one, and what goes into it or comes out is not fused"
"""Why a tensor that could be fused no longer can."""
NEXT_TRIED = 8
"""Layers like the first one of a block that are tried as the first one of the next block."""


class _Source(NamedTuple):
    """Where an operand of a block comes from: the block itself or the one before, by place in it, or a layer outside.

    Whether it may be fused counts only where it stays what it is: what comes from the block before goes through DRAM.
    """

    of: Literal["own", "before", "outer"]
    place: int
    fusible: bool


@dataclass(frozen=True, slots=True)
class Run:
    """`count` equal blocks of `period` layers each, from layer number `start` on."""

    start: int
    period: int
    count: int

    @property
    def stop(self) -> int:
        """The number of the first layer behind it."""
        return self.start + self.period * self.count

    @property
    def kept(self) -> range:
        """Layers of the first block, which stand for all."""
        return range(self.start, self.start + self.period)


def find_runs(workload: Workload, least: int) -> list[Run]:
    """Runs of `least` blocks or more, from the first layer to the last."""
    finder = _Finder(workload)
    found: list[Run] = []
    start = 0
    while start < len(workload.layers):
        run = finder.best_from(start, least)
        if run is not None:
            found.append(run)
        start = start + 1 if run is None else run.stop
    return found


def folded(workload: Workload, runs: Sequence[Run]) -> Workload:
    """The network with the first block of each run in the place of all."""
    layers = workload.layers
    kept = {layer.name: number for number, layer in enumerate(layers)}
    times = dict.fromkeys(kept.values(), 1)
    for run in runs:
        for number in range(run.start, run.stop):
            kept[layers[number].name] = run.start + (number - run.start) % run.period
        times |= dict.fromkeys(run.kept, run.count)

    written = _written(workload, runs)

    def read(operand: Input, target: int) -> Input:
        if operand.source is None:
            return operand
        source = kept[operand.source]
        alike = layers[source].repeat * times[source] == layers[target].repeat * times[target]
        together = alike and source not in written and (times[source] == 1 or layers[source].name == operand.source)
        if operand.fusible and not together:
            operand = replace(operand, fusible=False, reason=AT_THE_BORDER)
        return replace(operand, source=layers[source].name)

    return replace(
        workload,
        layers=tuple(
            replace(
                layers[number],
                repeat=layers[number].repeat * times[number],
                inputs=tuple(read(operand, number) for operand in layers[number].inputs),
            )
            for number in dict.fromkeys(kept.values())
        ),
    )


def _written(workload: Workload, runs: Sequence[Run]) -> set[int]:
    """Layers of first blocks that the next block reads, and nobody behind the run: fused, they would not be written."""
    found: set[int] = set()
    for run in runs:
        last_block = run.stop - run.period
        behind = {
            source - last_block for source, target in _readers(workload) if source >= last_block and target >= run.stop
        }
        found |= {layer for layer in handed_over(workload, run) if layer - run.start not in behind}
    return found


def handed_over(workload: Workload, run: Run) -> set[int]:
    """Layers of the first block that the next one reads."""
    return {source for source, target in _readers(workload) if source in run.kept and target >= run.kept.stop}


def _readers(workload: Workload) -> list[tuple[int, int]]:
    number = {layer.name: i for i, layer in enumerate(workload.layers)}
    return [(number[edge.source], number[edge.target]) for edge in workload.edges]


class _Finder:
    """Searches one network for runs."""

    def __init__(self, workload: Workload) -> None:
        self._layers = workload.layers
        self._number = {layer.name: number for number, layer in enumerate(workload.layers)}
        places: dict[Layer, list[int]] = {}
        for number, layer in enumerate(workload.layers):
            places.setdefault(_look(layer), []).append(number)
        self._looks = [0] * len(self._layers)
        """Layers that look the same have the same number."""
        self._next: list[list[int]] = [[] for _ in self._layers]
        for look, alike in enumerate(places.values()):
            for i, number in enumerate(alike):
                self._looks[number] = look
                self._next[number] = alike[i + 1 : i + 1 + NEXT_TRIED]

    def best_from(self, start: int, least: int) -> Run | None:
        """The run from a layer on that saves most layers; of equal ones that of the smallest blocks."""
        runs = [run for other in self._next[start] if (run := self._turned(start, other - start, least)) is not None]
        return max(runs, key=lambda run: (run.period * (run.count - 1), -run.period), default=None)

    def _turned(self, start: int, period: int, least: int) -> Run | None:
        """The run of a period that begins at a layer or less than a block after it.

        Blocks may be cut anywhere; where the fewest tensors go from one to the next, most can be fused within a block.
        """
        if self._run(start, period).count < least:
            return None
        runs = (self._run(first, period) for first in range(start, start + period))
        return min((run for run in runs if run.count >= least), key=lambda run: (self._crossing(run), -run.count))

    def _run(self, start: int, period: int) -> Run:
        """The longest run of a period from a layer on: blocks that are alike, up to the first that others read."""
        blocks = 1
        while self._continues(start, period, blocks):
            blocks += 1
        stop = start + blocks * period
        for number in range(start, stop):
            if any(reader >= stop for reader in self._readers[number]):
                return Run(start, period, 1 + (number - start) // period)
        return Run(start, period, blocks)

    @cached_property
    def _readers(self) -> list[list[int]]:
        readers: list[list[int]] = [[] for _ in self._layers]
        for target, layer in enumerate(self._layers):
            for operand in layer.inputs:
                if operand.source is not None:
                    readers[self._number[operand.source]].append(target)
        return readers

    def _continues(self, start: int, period: int, block: int) -> bool:
        """Whether a block looks like the first one, and reads what the second one reads."""
        first = start + block * period
        if self._looks[first : first + period] != self._looks[start : start + period]:
            return False
        mine = self._sources(first, first - period, period)
        if block > 1:
            return mine == self._sources(start + period, start, period)
        return all(
            own == other or (own.of == "outer" and other.of == "before")
            for own, other in zip(self._sources(start, start, period), mine, strict=True)
        )

    def _sources(self, first: int, before: int, period: int) -> list[_Source]:
        """Where each operand of a block comes from; the block before it begins at layer `before`."""
        found: list[_Source] = []
        for number in range(first, first + period):
            for operand in self._layers[number].inputs:
                source = -1 if operand.source is None else self._number[operand.source]
                if first <= source < first + period:
                    found.append(_Source("own", source - first, operand.fusible))
                elif before <= source < first:
                    found.append(_Source("before", source - before, fusible=False))
                else:
                    found.append(_Source("outer", source, operand.fusible))
        return found

    def _crossing(self, run: Run) -> int:
        """Tensors that a block hands to the next."""
        sources = self._sources(run.start + run.period, run.start, run.period)
        return len({source.place for source in sources if source.of == "before"})


def _look(layer: Layer) -> Layer:
    """All of a layer but its name and where its operands come from."""
    return replace(layer, name="layer", inputs=tuple(Input(None, operand.port) for operand in layer.inputs))
