"""The whole model in one call: arrays in, every layer's flows, cycles, energy and needs out."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from fadiff.cost.flows import layer_flows
from fadiff.schedule.namespace import namespace
from fadiff.schedule.nest import SHARED, Nest, product

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float

    from fadiff.hardware import MachineArrays
    from fadiff.schedule.arrays import LayerArrays


class LayerCosts(NamedTuple):
    """One execution of each layer."""

    words: tuple[Float[Array, "*batch layers"], ...]
    """Words of each flow of :func:`~fadiff.cost.flows.flow_table`."""
    steps: Float[Array, "*batch layers"]
    """Cycles of computing."""
    memory_cycles: tuple[Float[Array, "*batch layers"], ...]
    """Cycles that each memory would need on its own, outermost first."""
    vector_cycles: Float[Array, "*batch layers"]
    """Cycles that the vector unit would need on its own."""
    cycles: Float[Array, "*batch layers"]
    energy_pj: Float[Array, "*batch layers"]


def layer_costs(nest: Nest, machine: MachineArrays) -> LayerCosts:
    """What each layer moves, takes and burns.

    .. math::
        cycles &= \\max(steps, operations / lanes,
                  \\max_m words_m / (words\\_per\\_cycle_m \\cdot instances\\ in\\ use_m)) \\\\
        energy &= MACs \\cdot mac\\_pj + operations \\cdot vector\\_pj
                  + \\sum_m read_m\\, read\\_pj_m + written_m\\, write\\_pj_m

    Where reads and writes have rates of their own, the slower of both. Where transfers of the first memory do not
    overlap with work, its term comes on top of the largest of the others. Operations are those of the vector unit.
    """
    xp, structure, layers = nest.xp, nest.structure, nest.layers
    rows = layer_flows(nest, machine)
    steps = nest.steps() * layers.is_mac
    vector = xp.zeros_like(steps) + layers.vector_operations / machine.vector_lanes
    energy = product([layers.size[d] for d in range(8)]) * layers.is_mac * machine.mac_pj
    energy = energy + layers.vector_operations * machine.vector_pj
    terms: list[Array] = []
    for i, memory in enumerate(structure.memories):
        here = [(flow.action, words) for flow, words in rows if flow.memory == memory]
        zero = xp.zeros_like(steps)
        read = reduce(lambda a, b: a + b, [words for action, words in here if action == "read"], zero)
        written = reduce(lambda a, b: a + b, [words for action, words in here if action == "write"], zero)
        energy = energy + read * machine.read_pj[i] + written * machine.write_pj[i]
        slowest = reduce(
            xp.maximum,
            [
                (read + written) / machine.words_per_cycle[i],
                read / machine.read_words_per_cycle[i],
                written / machine.write_words_per_cycle[i],
            ],
        )
        terms.append(slowest / _instances_in_use(nest, machine, memory))
    on_chip = reduce(xp.maximum, terms[1:], xp.maximum(steps, vector))
    cycles = xp.where(machine.serial > 0, on_chip + terms[0], xp.maximum(on_chip, terms[0]))
    return LayerCosts(tuple(words for _, words in rows), steps, tuple(terms), vector, cycles, energy)


def _instances_in_use(nest: Nest, machine: MachineArrays, memory: int) -> Array:
    """Instances of a memory that a layer uses at a time: lanes in use on the axes above; an add layer uses all."""
    above = nest.structure.axes_between(SHARED, memory)
    if not above:
        return nest.xp.ones_like(nest.layers.is_mac)
    every = product([machine.lanes[nest.structure.axes.index(axis)] for axis in above])
    return nest.xp.where(nest.layers.is_mac > 0, nest.spread(range(8), above), every)


class NetworkCost(NamedTuple):
    """Totals over layers, repeats counted."""

    energy_pj: Float[Array, "*batch"]
    cycles: Float[Array, "*batch"]

    @property
    def edp_uj_cycles(self) -> Array:
        """EDP = (sum of energies in uJ) * (sum of latencies in cycles)."""
        return self.energy_pj * 1e-6 * self.cycles


def network_cost(layers: LayerArrays, costs: LayerCosts) -> NetworkCost:
    """Sums over layers, times their repeat counts."""
    xp = namespace(costs.energy_pj, costs.cycles)
    return NetworkCost(
        energy_pj=xp.sum(costs.energy_pj * layers.repeat, axis=-1),
        cycles=xp.sum(costs.cycles * layers.repeat, axis=-1),
    )
