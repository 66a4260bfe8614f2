"""The exact cost of one schedule, with the whole breakdown."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from fadiff.cost.arrays import pack_hardware, pack_layers, pack_schedule
from fadiff.cost.model import LayerCosts, schedule_costs
from fadiff.cost.roofline import TERMS
from fadiff.schedule import Schedule
from fadiff.schedule.file import StatedCost

if TYPE_CHECKING:
    from jax import Array

    from fadiff.cost.capacity import Needs

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """What the model says about a schedule. Arrays have one entry per layer, in the workload's order.

    Counts are of one execution of a layer; totals count repeats.
    """

    schedule: Schedule
    layers: LayerCosts
    needs: "Needs"
    energy_pj: float
    cycles: float

    @property
    def edp_uj_cycles(self) -> float:
        """EDP = (sum of energies in uJ) * (sum of latencies in cycles)."""
        return self.energy_pj * 1e-6 * self.cycles

    @cached_property
    def repeat(self) -> FloatArray:
        """How often each layer runs."""
        return np.array([layer.repeat for layer in self.schedule.workload.layers], dtype=np.float64)

    @cached_property
    def binding(self) -> tuple[str, ...]:
        """The roofline term that binds each layer: compute, L1, L2 or L3 (ties: the first of them)."""
        times = self.layers.cycles
        stacked = np.stack([_numpy(times.compute), _numpy(times.l1), _numpy(times.l2), _numpy(times.l3)])
        numbers: list[int] = stacked.argmax(axis=0).tolist()
        return tuple(TERMS[i] for i in numbers)

    @property
    def l3_words(self) -> float:
        """DRAM traffic of the network, repeats counted."""
        return float(np.sum(_numpy(self.layers.traffic.l3) * self.repeat))

    @property
    def utilization(self) -> float:
        """Share of the PEs' MAC slots that do work."""
        peak = self.schedule.hardware.rows * self.schedule.hardware.cols
        return self.schedule.workload.macs / (self.cycles * peak) if self.cycles else 0.0

    def energy_parts_pj(self) -> dict[str, float]:
        """Energy of the network by part; the parts sum to `energy_pj`."""
        parts = self.layers.energy._asdict()
        return {name: float(np.sum(_numpy(parts[name]) * self.repeat)) for name in ("mac", "l0", "l1", "l2", "l3")}

    def stated(self) -> StatedCost:
        """The cost as a schedule file states it."""
        return StatedCost(energy_pj=self.energy_pj, cycles=self.cycles, edp_uj_cycles=self.edp_uj_cycles)


def evaluate(schedule: Schedule) -> Evaluation:
    """Price a schedule exactly: 64-bit numbers, integer counts. Illegal schedules are priced too."""
    costs, need, network = schedule_costs(
        pack_layers(schedule.workload), pack_schedule(schedule), pack_hardware(schedule.hardware)
    )
    return Evaluation(schedule, costs, need, float(network.energy_pj), float(network.cycles))


def _numpy(values: "Array") -> FloatArray:
    return cast(FloatArray, values)
