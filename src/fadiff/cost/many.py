"""One schedule on many machines, priced in one call.

What a schedule moves does not depend on the numbers of a machine. So the model runs once, and the numbers of all
machines meet its counts as arrays with an axis of machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fadiff.cost.model import layer_costs, network_cost
from fadiff.errors import FadiffError
from fadiff.hardware import MachineArrays, pack_machine
from fadiff.schedule.arrays import pack_layers, pack_schedule
from fadiff.schedule.capacity import needs
from fadiff.schedule.nest import Nest

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from fadiff.hardware import Machine
    from fadiff.schedule import Schedule


@dataclass(frozen=True)
class Prices:
    """What a schedule costs on each of some machines, in their order."""

    energy_pj: Float[np.ndarray, " machines"]
    cycles: Float[np.ndarray, " machines"]
    fits: Bool[np.ndarray, " machines"]
    """Whether its memories hold it and its arrays have the lanes: then what is legal elsewhere is legal there."""

    @property
    def edp_uj_cycles(self) -> Float[np.ndarray, " machines"]:
        """EDP = (sum of energies in uJ) * (sum of latencies in cycles)."""
        return self.energy_pj * 1e-6 * self.cycles


def evaluate_on(schedule: Schedule, machines: Sequence[Machine]) -> Prices:
    """Price a schedule on machines like its own, with other sizes, rates, energies, lanes and widths of values.

    The same numbers as ``evaluate`` of the schedule with each machine in turn, and what ``violations`` say of it, in a
    thousandth of the time.

    >>> from dataclasses import replace
    >>> from fadiff import greedy, load_machine, load_model
    >>> machine = load_machine("gemmini-small")
    >>> schedule = greedy(load_model("mobilenet_v1"), machine)
    >>> slower = [replace(machine, nodes=(replace(machine.nodes[0], words_per_cycle=16 / n), *machine.nodes[1:]))
    ...           for n in range(1, 1001)]
    >>> prices = evaluate_on(schedule, slower)
    >>> prices.cycles.shape, bool(prices.fits.all()), bool((prices.cycles[1:] >= prices.cycles[:-1]).all())
    ((1000,), True, True)
    """
    own = schedule.machine
    for machine in machines:
        if what := _difference(own, machine):
            raise FadiffError(
                f"{machine.name} is not like {own.name}, for which the schedule is: {what}: give machines of one kind"
            )
    if not machines:
        return Prices(np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool))
    packed, layers = pack_schedule(schedule), pack_layers(schedule)
    nest = Nest(own.structure, layers, packed.mapping, packed.fusion)
    numbers = _stacked([pack_machine(machine) for machine in machines])
    network = network_cost(layers, layer_costs(nest, numbers))
    held = needs(nest, packed.placement, numbers).total.values()
    fits = np.ones(len(machines), dtype=bool)
    for total, usable in zip(held, numbers.usable_bytes[1:], strict=True):
        fits &= (np.asarray(total) <= usable).all(axis=-1)
    for axis, lanes in zip(own.structure.axes, numbers.lanes, strict=True):
        fits &= (np.asarray(nest.spread(range(8), (axis,))) <= lanes).all(axis=-1)
    return Prices(np.asarray(network.energy_pj), np.asarray(network.cycles), fits)


def _difference(one: Machine, other: Machine) -> str:
    """What makes schedules of one machine none of another."""
    if one.structure != other.structure:
        return "its nodes are others, or keep other tensors, or take other dims"
    if (one.vector is None) != (other.vector is None):
        return "only one of them has a vector unit"
    return "only one of them computes a softmax in pieces" if one.online_softmax != other.online_softmax else ""


def _stacked(numbers: Sequence[MachineArrays]) -> MachineArrays:
    """Numbers of machines with axes of machines, and of layers, at the end: ``[..., machines, 1]``."""
    return MachineArrays(*(np.stack(values, axis=-1)[..., None] for values in zip(*numbers, strict=True)))
