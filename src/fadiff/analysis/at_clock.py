"""What a schedule comes to at the clock of its machine, in the units of a data sheet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fadiff.analysis.units import significant
from fadiff.hardware.quantities import clock_text

if TYPE_CHECKING:
    from fadiff.cost.evaluate import Evaluation

OPERATIONS_PER_MAC = 2
"""A multiplication and an addition, as data sheets count."""


@dataclass(frozen=True)
class AtClock:
    """Time, power and throughput of one run of the network, repeats and its whole batch counted."""

    clock_mhz: float
    latency_ms: float
    inferences_per_second: float
    """Runs of the network in a second, one after the other."""
    energy_mj: float
    average_power_w: float
    tops: float
    """10^12 operations a second, two of them a MAC."""
    tops_per_w: float


def at_clock(evaluation: Evaluation) -> AtClock | None:
    """A schedule at the clock of its machine; None where the machine states none, or nothing takes time or energy."""
    mhz = evaluation.schedule.machine.clock_mhz
    if mhz is None or not evaluation.cycles or not evaluation.energy_pj:
        return None
    seconds = evaluation.cycles / (mhz * 1e6)
    operations = OPERATIONS_PER_MAC * evaluation.schedule.workload.macs
    return AtClock(
        clock_mhz=mhz,
        latency_ms=seconds * 1e3,
        inferences_per_second=1 / seconds,
        energy_mj=evaluation.energy_pj * 1e-9,
        average_power_w=evaluation.energy_pj * 1e-12 / seconds,
        tops=operations / seconds * 1e-12,
        tops_per_w=operations / evaluation.energy_pj,
    )


def clock_facts(told: AtClock | None) -> list[tuple[str, str]]:
    """The clock, and all of it in one line; nothing where there is no clock.

    >>> clock_facts(AtClock(800.0, 2.5, 400.0, 2.5, 1.0, 1.25, 1.25))
    [('at 800 MHz', '2.50 ms, 400 inferences/s, 2.50 mJ, 1.00 W, 1.25 TOPS, 1.25 TOPS/W')]
    """
    if told is None:
        return []
    numbers = (
        (told.latency_ms, "ms"),
        (told.inferences_per_second, "inferences/s"),
        (told.energy_mj, "mJ"),
        (told.average_power_w, "W"),
        (told.tops, "TOPS"),
        (told.tops_per_w, "TOPS/W"),
    )
    line = ", ".join(f"{significant(value)} {unit}" for value, unit in numbers)
    return [(f"at {clock_text(told.clock_mhz)}", line)]
