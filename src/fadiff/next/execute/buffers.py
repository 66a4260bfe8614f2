"""Fused tensors on chip, and who holds how much of every memory."""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from fadiff.next.execute.data import Span
from fadiff.next.execute.result import Overflow, Peak
from fadiff.next.hardware import Machine, Memory

HOLDERS_NAMED = 6
"""Tenants an overflow report names; the rest are left out."""


class Buffer:
    """Which part of a fused tensor is on chip.

    A *cell* is one row and column, ``[P', Q']``, with all its values in one iteration of the shared loops over G, N and
    X, which goes by a key. Only live cells take room.
    """

    def __init__(self, stored: tuple[int, int]) -> None:
        self.values = 0
        self._stored = stored
        self._live: dict[Hashable, tuple[NDArray[np.bool_], int]] = {}

    def reserve(self, key: Hashable, rows: Span, cols: Span, values_per_cell: int) -> None:
        """Makes room for cells that are about to be stored."""
        if rows[0] < rows[1] and cols[0] < cols[1]:
            live, _ = self._live.setdefault(key, (np.zeros(self._stored, np.bool_), values_per_cell))
            block = live[slice(*rows), slice(*cols)]
            self.values += (block.size - int(np.count_nonzero(block))) * values_per_cell
            block[...] = True

    def release(self, key: Hashable, wanted: NDArray[np.bool_]) -> None:
        """Lets go of all cells that are not wanted any more."""
        if key in self._live:
            live, values_per_cell = self._live[key]
            self.values -= int(np.count_nonzero(live & ~wanted)) * values_per_cell
            live &= wanted
            if not live.any():
                del self._live[key]

    def missing(self, key: Hashable, rows: Span, cols: Span) -> int:
        """Cells of a block that are not there."""
        size = (rows[1] - rows[0]) * (cols[1] - cols[0])
        if key not in self._live:
            return size
        return size - int(np.count_nonzero(self._live[key][0][slice(*rows), slice(*cols)]))


class Occupancy:
    """What tenants hold in one instance of each memory, by name, in bits.

    Exceeding a capacity does not stop the execution, so that one run finds all that is wrong: the worst moment of each
    step is kept.
    """

    def __init__(self, machine: Machine, group: str) -> None:
        self._memories = {i: node for i, node in enumerate(machine.nodes) if i and isinstance(node, Memory)}
        self._group, self._layer = group, ""
        self._held: dict[int, dict[str, int]] = {node: {} for node in self._memories}
        self._peaks: dict[tuple[str, int], int] = {}
        self._overflows: dict[tuple[str, int], Overflow] = {}

    def begin(self, layer: str) -> None:
        """From here on, peaks and overflows belong to this layer."""
        self._layer = layer
        for node in self._memories:
            self._note(node)

    def hold(self, node: int, tenant: str, bits: int) -> None:
        """Sets what a tenant holds; 0 gives all of it back."""
        if bits:
            self._held[node][tenant] = bits
        else:
            self._held[node].pop(tenant, None)
        self._note(node)

    def _note(self, node: int) -> None:
        used, step = sum(self._held[node].values()), (self._layer, node)
        if used <= self._peaks.get(step, -1):
            return
        self._peaks[step] = used
        memory = self._memories[node]
        if used > 8 * memory.usable_bytes:
            largest = sorted(self._held[node].items(), key=lambda held: -held[1])[:HOLDERS_NAMED]
            self._overflows[step] = Overflow(
                self._group, self._layer, memory.name, used, memory.usable_bytes, tuple(largest)
            )

    @property
    def peaks(self) -> list[Peak]:
        """The fullest moment of each memory while each layer ran."""
        return [Peak(layer, self._memories[node].name, bits) for (layer, node), bits in self._peaks.items() if layer]

    @property
    def overflows(self) -> list[Overflow]:
        """Moments at which something did not fit."""
        return list(self._overflows.values())
