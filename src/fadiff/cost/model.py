"""The whole model in one call: arrays in, every layer's traffic, needs, cycles and energy out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fadiff.cost.capacity import needs
from fadiff.cost.namespace import namespace
from fadiff.cost.roofline import cycles, energy_pj
from fadiff.cost.traffic import layer_traffic

if TYPE_CHECKING:
    from jax import Array

    from fadiff.cost.arrays import Fusion, HardwareArrays, LayerArrays, MappingArrays, PackedSchedule
    from fadiff.cost.capacity import Needs
    from fadiff.cost.roofline import Cycles, EnergyPj
    from fadiff.cost.traffic import Tiles, Traffic


class LayerCosts(NamedTuple):
    """One execution of each layer. Shapes ``[..., layers]``."""

    traffic: Traffic
    tiles: Tiles
    cycles: Cycles
    energy: EnergyPj


class NetworkCost(NamedTuple):
    """Totals over layers, repeats counted. Shapes ``[...]``."""

    energy_pj: Array
    cycles: Array

    @property
    def edp_uj_cycles(self) -> Array:
        """EDP = (sum of energies in uJ) * (sum of latencies in cycles)."""
        return self.energy_pj * 1e-6 * self.cycles


def layer_costs(layers: LayerArrays, mapping: MappingArrays, fusion: Fusion, hardware: HardwareArrays) -> LayerCosts:
    """What each layer moves, takes and burns."""
    traffic, tiles = layer_traffic(layers, mapping, fusion, hardware.spill_words)
    return LayerCosts(traffic, tiles, cycles(layers, mapping, traffic, hardware), energy_pj(traffic, hardware))


def network_cost(layers: LayerArrays, costs: LayerCosts) -> NetworkCost:
    """Sums over layers, times their repeat counts."""
    xp = namespace(costs.energy.total)
    return NetworkCost(
        energy_pj=xp.sum(costs.energy.total * layers.repeat, axis=-1),
        cycles=xp.sum(costs.cycles.total * layers.repeat, axis=-1),
    )


def schedule_costs(
    layers: LayerArrays, packed: PackedSchedule, hardware: HardwareArrays
) -> tuple[LayerCosts, Needs, NetworkCost]:
    """Everything the model says about a schedule."""
    costs = layer_costs(layers, packed.mapping, packed.fusion, hardware)
    need = needs(layers, packed.mapping, packed.fusion, costs.tiles, packed.placement, hardware)
    return costs, need, network_cost(layers, costs)
