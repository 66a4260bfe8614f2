"""What is in the memories: fused tensors, tiles of the layers, and who holds how much."""

from collections.abc import Hashable, Mapping
from fractions import Fraction
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from fadiff.execute.legs import ARRIVING, FINISHED, Counts, Leg
from fadiff.execute.nest import RELEVANT, Block, C, G, N
from fadiff.execute.operands import COLS, ROWS, Operand, box_of
from fadiff.execute.result import Peak
from fadiff.execute.role import Role
from fadiff.execute.tensors import Span
from fadiff.execute.traffic import SharedWalk
from fadiff.hardware import Machine, Memory

Held = Mapping[tuple[int, str], int]
"""Bits in one instance of a memory, by node and what it is: a tile of a tensor, or a buffer."""
HOLDERS_NAMED = 6
"""Tenants that a peak names; the rest are left out."""


class Buffer:
    """Which part of a fused tensor is on chip.

    A *cell* is one row and column, ``[P', Q']``, with all its values in one iteration of the shared loops over G, N and
    X, which goes by a key. Only live cells take room.
    """

    def __init__(self, stored: tuple[int, int]) -> None:
        self.values = 0
        self._stored = stored
        self._live: dict[Hashable, NDArray[np.int64]] = {}
        """Values in each cell; 0 if it is not there."""

    def reserve(self, key: Hashable, rows: Span, cols: Span, values_per_cell: int) -> None:
        """Makes room for cells that are about to be stored."""
        live = self._live.setdefault(key, np.zeros(self._stored, np.int64))
        self.values += self.missing(key, rows, cols) * values_per_cell
        live[slice(*rows), slice(*cols)] = values_per_cell

    def release(self, key: Hashable, wanted: NDArray[np.bool_]) -> None:
        """Lets go of all cells that are not wanted any more."""
        live = self._live[key]
        self.values -= int(live[~wanted].sum())
        live[~wanted] = 0
        if not live.any():
            del self._live[key]

    def missing(self, key: Hashable, rows: Span, cols: Span) -> int:
        """Cells of a block that are not there."""
        return int(np.count_nonzero(self._live[key][slice(*rows), slice(*cols)] == 0))


class Residence:
    """The tiles of one MAC layer; `tiles` counts what all of them move, which tells in what state sums arrive."""

    def __init__(self, machine: Machine, role: Role, walk: SharedWalk, inputs: Operand, tiles: Counts) -> None:
        self._machine, self._role, self._walk, self._inputs, self.tiles = machine, role, walk, inputs, tiles
        self._nest = walk.traffic.nest
        self._legs = [leg for leg in walk.traffic.legs if leg.inner != self._nest.macs]
        # Keepers of O, but for the innermost, that only finished outputs reach hold what the epilogue leaves of them.
        outputs = [(leg, tiles[leg.slots]) for leg in self._legs if leg.tensor == "O"]
        self._finished = {leg.outer for leg, values in outputs if values[ARRIVING] == values[FINISHED]}

    def running(self, block: Block) -> Held:
        """While a piece runs: the tiles of its first turn, which are the largest."""
        return {(leg.inner, leg.tensor): self._bits(leg, block, block) for leg in self._legs}

    def kept(self, number: int) -> Held:
        """When a piece is done: tiles that the next one finds there, and what a window that slides on keeps."""
        found, walk = dict.fromkeys(((leg.inner, leg.tensor) for leg in self._legs), 0), self._walk
        if number + 1 < len(walk.pieces):
            (_, block), (_, following), due = walk.pieces[number], walk.pieces[number + 1], walk.due(number + 1)
            for leg in walk.depth:
                if leg not in due or due[leg] is not None:
                    found[leg.inner, leg.tensor] = self._bits(leg, block, following if leg in due else block)
        return found

    def _bits(self, leg: Leg, block: Block, following: Block) -> int:
        """A tile; of a window, the lines that the following block wants too."""
        bits, role, nest, layer = self._machine.bits, self._role, self._nest, self._nest.layer
        lens = nest.first_tile(leg.inner, block)
        values = prod(lens[d] for d in RELEVANT[leg.tensor])
        if leg.tensor == "W":
            return values * bits.W
        if leg.tensor == "I":
            channels = self._inputs.most_unfused(lens[G], lens[C]) if leg.outer == 0 else lens[G] * lens[C]
            now, then = (box_of("I", layer, b.starts, nest.first_tile(leg.inner, b)) for b in (block, following))
            lines = [min(now[i][1], then[i][1]) - max(now[i][0], then[i][0]) for i in (ROWS, COLS)]
            return lens[N] * channels * max(0, lines[0]) * max(0, lines[1]) * bits.I
        if role.fused_output and leg.inner <= role.fuses and (leg.inner == role.fuses or not role.drained):
            return 0  # what is fused is in its buffer, and nowhere further out
        if leg.inner in self._finished:
            return ceil(values * Fraction(layer.stored_words, layer.output_words) * bits.O)
        return values * bits.sums


class Occupancy:
    """What tenants hold in one instance of each memory, in bits, and the fullest moment while each layer ran.

    Exceeding a capacity does not stop the execution, so that one run finds all that is wrong.
    """

    def __init__(self, machine: Machine) -> None:
        self.peaks: dict[tuple[str, int], Peak] = {}
        self._memories = {i: node for i, node in enumerate(machine.nodes) if i and isinstance(node, Memory)}
        self._held: dict[int, dict[str, int]] = {node: {} for node in self._memories}
        self._layer = ""

    def begin(self, layer: str) -> None:
        """From here on, what is held belongs to this layer's step."""
        self._layer = layer
        for node in self._memories:
            self._note(node)

    def hold(self, layer: str, held: Held) -> None:
        """Sets what a layer holds; 0 gives all of it back."""
        for (node, what), bits in held.items():
            self._held[node][f"{layer} {what}"] = bits
            self._note(node)

    def _note(self, node: int) -> None:
        used, key, known = sum(self._held[node].values()), (self._layer, node), self.peaks.get((self._layer, node))
        if known is None or used > known.bits:
            largest = sorted(((who, bits) for who, bits in self._held[node].items() if bits), key=lambda held: -held[1])
            named, memory = tuple(largest[:HOLDERS_NAMED]), self._memories[node]
            self.peaks[key] = Peak(self._layer, memory.name, used, memory.usable_bytes, named)
