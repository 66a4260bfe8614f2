"""What a layer that only adds costs at least: it has no mapping, so its place decides everything."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from fadiff.cost.model import layer_costs
from fadiff.hardware import pack_machine
from fadiff.schedule.arrays import Fusion, LayerArrays, MappingArrays
from fadiff.schedule.nest import Nest

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.search.driver import Weights
    from fadiff.search.solver.place import Place
    from fadiff.workload import Layer


@dataclass
class AddBound:
    """The energy and time of an add layer in each of the places that it may have."""

    layer: Layer
    machine: Machine
    places: tuple[Place, ...]
    passes: int = 0

    def at(self, weights: Weights, enough: float = inf, passes: int = 0, deadline: float = inf) -> float:
        """The least of energy and cycles, weighed."""
        return min(weights[0] * energy_pj + weights[1] * cycles for energy_pj, cycles in self._costs)

    @cached_property
    def _costs(self) -> list[tuple[float, float]]:
        layer, nodes = self.layer, len(self.machine.nodes)
        # A place that reads on chip does so with one or more operands.
        found = [
            (addends, place.role.drained, place.role.copied, float(place.grouped))
            for place in self.places
            for addends in (range(1, len(layer.inputs) + 1) if place.read else (0,))
        ]
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
            is_mac=0 * one,
            repeat=one,
        )
        ones = [sizes / sizes]
        mapping = MappingArrays(_numbers(ones * nodes), _numbers(ones * len(self.machine.memories)))
        fusion = Fusion(ones[0], 0 * sizes, sizes, 0 * one, 0 * one, addends, drained, copied, grouped)
        costs = layer_costs(Nest(self.machine.structure, layers, mapping, fusion), pack_machine(self.machine))
        return list(zip(costs.energy_pj.tolist(), costs.cycles.tolist(), strict=True))


def _numbers(values: object) -> Any:  # noqa: ANN401  (an array of any library)
    return np.array(values, dtype=np.float64)
