"""What a layer that only adds costs at least: it has no mapping, so its place decides everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from fadiff.cost.model import layer_costs
from fadiff.hardware import Memory, pack_machine
from fadiff.schedule.arrays import Fusion, LayerArrays, MappingArrays
from fadiff.schedule.nest import Nest
from fadiff.search.solver.grid import Cells

if TYPE_CHECKING:
    from jaxtyping import Float

    from fadiff.hardware import Machine
    from fadiff.search.objective import Weights
    from fadiff.search.solver.parts import Rows, Wanted
    from fadiff.search.solver.place import Place
    from fadiff.workload import Layer


@dataclass
class AddBound:
    """The energy and time of an add layer in each of the places that it may have."""

    layer: Layer
    machine: Machine
    places: tuple[Place, ...]
    passes: int = 0
    """Nothing has to be walked through."""
    _known: dict[tuple[int, ...], float] = field(default_factory=dict[tuple[int, ...], float])

    @cached_property
    def numbers(self) -> dict[Place, int]:
        """The numbers of its places."""
        return {place: number for number, place in enumerate(self.places)}

    def at(self, weights: Weights) -> float:
        """The least of energy and cycles, weighed."""
        return float(self._weighed(weights).min())

    def least(self, weights: Weights, wanted: Rows) -> Float[np.ndarray, " wanted"]:
        """The same in places, with tiles of interest; inf where buffers do not fit."""
        fuses = self.machine.structure.fuses
        room = inf
        if fuses is not None:
            memory = self.machine.nodes[fuses]
            assert isinstance(memory, Memory)
            room = memory.usable_bytes
        held = [self._held(tuple(row)) for row in wanted.astype(int).tolist()]
        return np.where(np.array(held) > room, inf, self._weighed(weights)[wanted[:, 0].astype(int)])

    def _held(self, row: tuple[int, ...]) -> float:
        """Bytes of buffers while it runs, at least."""
        if row not in self._known:
            tile = [Cells((low,), (high,)) for low, high in zip(row[1:9], row[9:], strict=True)]
            self._known[row] = self.places[row[0]].least_bytes(tile, self.layer.dims, self.machine.bits.O)
        return self._known[row]

    def lowest(self, weights: Weights, wanted: Wanted) -> None:
        """Nothing is left to look at."""
        return

    def _weighed(self, weights: Weights) -> Float[np.ndarray, " places"]:
        energy_pj, cycles = self._costs
        cost, ends = weights[0] * energy_pj + weights[1] * cycles, np.cumsum([len(self._ways(p)) for p in self.places])
        return np.array([part.min() for part in np.split(cost, ends[:-1])])

    @cached_property
    def _costs(self) -> tuple[Float[np.ndarray, " ways"], Float[np.ndarray, " ways"]]:
        """Energy and cycles in each way of each place."""
        layer, nodes = self.layer, len(self.machine.nodes)
        found = [way for place in self.places for way in self._ways(place)]
        addends, drained, copied, grouped = (_numbers(column) for column in zip(*found, strict=True))
        one = _numbers([1.0] * len(found))
        pair, sizes = _numbers([one, one]), _numbers([one * size for size in layer.dims])
        layers = LayerArrays(
            size=sizes,
            stride=pair,
            dilation=pair,
            output=one * layer.output_words,
            stored=one * layer.stored_words,
            input_channels=one,
            addends=one * len(layer.inputs),
            vector_operations=one * self.machine.vector_operations(layer),
            is_mac=0 * one,
            repeat=one,
        )
        ones = [sizes / sizes]
        mapping = MappingArrays(_numbers(ones * nodes), _numbers(ones * len(self.machine.memories)))
        fusion = Fusion(ones[0], 0 * sizes, sizes, 0 * one, 0 * one, addends, drained, copied, grouped)
        costs = layer_costs(Nest(self.machine.structure, layers, mapping, fusion), pack_machine(self.machine))
        return np.asarray(costs.energy_pj), np.asarray(costs.cycles)

    def _ways(self, place: Place) -> list[tuple[int, float, float, float]]:
        """Addends, drained, copied and grouped: one way in most places, all in one that is loose."""
        if not place.loose:
            return [(place.fused_addends, place.role.drained, place.role.copied, float(place.grouped))]
        leaves = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
        return [
            (n, *way, float(grouped)) for n in range(len(self.layer.inputs) + 1) for way in leaves for grouped in (0, 1)
        ]


def _numbers(values: object) -> Any:  # noqa: ANN401  (an array of any library)
    return np.array(values, dtype=np.float64)
