r"""Room that the layers of a group share: rows of the program in which neighbours agree.

While any layer of a group runs, the memories hold every buffer of the group that has a halo and the weights that its
layers keep. So of any layers S, a *crowd*, what those of one group hold fits beside what waits for any one of them. Let
a layer of S *end* it where no other of S reads it on chip. In every group that has layers of S, the last of them ends
it. With :math:`t_{vm}` the room that layer v takes in mode m, and :math:`l_{vm}` what is left to all while it runs,

.. math:: \sum_{v \in S, m} t_{vm} x_{vm} \le \sum_{v \in S, m\ ends} l_{vm} x_{vm}

in each box of trips. It is told of all layers, and of crowds that take more than that.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csc_array  # pyright: ignore[reportUnknownVariableType]

from fadiff.hardware import Memory
from fadiff.schedule.nest import RELEVANT_DIMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtyping import Float

    from fadiff.hardware import Machine
    from fadiff.search.solver.parts import Tile
    from fadiff.search.solver.place import Fused, Place
    from fadiff.workload import Layer

Crowd = frozenset[str]
"""Layers by name."""
MUCH = 0.01
"""A crowd is told of where it takes so much of a memory more than its room."""
LITTLE = 1e-6
"""Less of a layer in a mode does not count."""
APART = 0.3
"""A layer does not join a crowd where it would add so much more room, in memories, than it takes."""


class Rooms:
    """What modes of a box take of the room that groups share, and what they leave to all while they run."""

    def __init__(self, machine: Machine, modes: Sequence[tuple[Layer, Fused, Tile, Place]]) -> None:
        """Of each mode the layer, its fused links, its tile and its place."""
        self._names = [layer.name for layer, *_ in modes]
        self._readers = [{target for source, target in fused if source == layer.name} for layer, fused, *_ in modes]
        """By mode: the layers that read its own on chip."""
        structure, bits = machine.structure, machine.bits
        home, fuses = structure.home("W"), structure.fuses
        memories = [] if fuses is None else list(dict.fromkeys(m for m in (fuses, home) if m is not None))
        self._taken, self._left = np.zeros((2, len(memories), len(modes)))
        """By memory and mode, in memories."""
        for row, memory in enumerate(memories):
            room = usable_bytes(machine, memory)
            for i, (layer, _, tile, place) in enumerate(modes):
                taken, passing = 0.0, 0.0
                if memory == home and place.keeps:
                    taken += prod(tile[d].low[0] for d in RELEVANT_DIMS["W"]) * bits.W / 8 / machine.instances(memory)
                if memory == fuses:
                    taken += place.retained_bytes(tile, layer.dims, bits.O)
                    passing += place.passing_bytes(tile, layer.dims, bits.O)
                self._taken[row, i], self._left[row, i] = taken / room, max(0.0, 1 - passing / room)

    @classmethod
    def joined(cls, parts: Sequence[Rooms]) -> Rooms:
        """Of the modes of several, one after the other."""
        found = cls.__new__(cls)
        found._names = [name for part in parts for name in part._names]
        found._readers = [readers for part in parts for readers in part._readers]
        found._taken, found._left = (
            np.hstack(both) for both in zip(*((p._taken, p._left) for p in parts), strict=True)
        )
        return found

    def rows(self, crowds: Iterable[tuple[Crowd, Sequence[int]]]) -> Any:  # noqa: ANN401  (a sparse array)
        """Of each memory, and of crowds whose layers are in some modes: what a crowd takes less what is left to it, by
        mode: at most 0."""
        found, count = [(np.empty(0), np.empty(0, dtype=int), np.empty(0, dtype=int))], 0
        for crowd, inside in crowds:
            ends = np.array([crowd.isdisjoint(self._readers[i]) for i in inside], dtype=bool)
            taken = self._taken[:, inside]
            more = (taken - self._left[:, inside] * ends)[taken.any(axis=1)]
            row, at = np.nonzero(more)
            found.append((more[row, at], count + row, np.array(inside, dtype=int)[at]))
            count += len(more)
        values, rows, columns = (np.concatenate(part) for part in zip(*found, strict=True))
        return csc_array((values, (rows, columns)), shape=(count, len(self._names)))

    def crowded(self, share: Float[np.ndarray, " modes"], order: Sequence[str]) -> list[Crowd]:
        """Crowds that take more room than there is, by how much of its layer is in each mode; layers come in an order
        of the flow of data. They are sought from each layer as the last one, against that flow."""
        there: dict[str, list[int]] = {}
        for i in np.flatnonzero(share > LITTLE).tolist():
            there.setdefault(self._names[i], []).append(i)
        names, found = [name for name in order if name in there], list[Crowd]()
        for row in range(len(self._taken)):
            worst = [self._worst(names[: i + 1], there, share, row) for i in range(len(names))]
            met = set[str]()
            # Those of different groups have no layer in common.
            for _, crowd in sorted((one for one in worst if one[1]), key=lambda one: -one[0]):
                if met.isdisjoint(crowd):
                    met |= crowd
                    found.append(crowd)
        return found

    def _worst(
        self, names: Sequence[str], there: Mapping[str, list[int]], share: Float[np.ndarray, " modes"], row: int
    ) -> tuple[float, Crowd]:
        """How much more than there is a crowd takes that ends with the last of some layers, and the crowd; none where
        it is not much."""
        crowd, over, best = set[str](), 0.0, (MUCH, Crowd())
        for name in reversed(names):
            feeds = [not crowd.isdisjoint(self._readers[i]) for i in there[name]]
            if crowd and not any(feeds):
                continue
            more = 0.0
            for i, fed in zip(there[name], feeds, strict=True):
                more += share[i].item() * (self._taken[row, i] - (0.0 if fed else self._left[row, i])).item()
            if crowd and more < -APART:
                continue
            crowd.add(name)
            over += more
            if over > best[0]:
                best = over, Crowd(crowd)
        return best


def usable_bytes(machine: Machine, node: int) -> float:
    """Bytes of a memory that may be filled."""
    memory = machine.nodes[node]
    assert isinstance(memory, Memory)
    return float(memory.usable_bytes)
