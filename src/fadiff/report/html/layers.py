"""One layer as the page knows it: what it computes, how it is mapped, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fadiff.report.labels import shape
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from fadiff.analysis.breakdown import Breakdown, LayerCost
    from fadiff.schedule import Mapping, Schedule
    from fadiff.workload import Dims, Layer


def layer_values(schedule: Schedule, costs: Breakdown) -> list[dict[str, Any]]:
    """All layers, in the workload's order. Costs and words are of one execution."""
    return [
        {
            "name": layer.name,
            "kind": layer.kind,
            "group": cost.group,
            "repeat": layer.repeat,
            "shape": shape(layer),
            "dims": _above_one(layer.dims),
            "epilogue": list(layer.epilogue),
            "inputs": [{"from": operand.source, "port": operand.port} for operand in layer.inputs],
            "stored": [layer.dims.N, layer.channels, *layer.stored],
            "stored_bytes": stored_bytes(schedule, layer),
            "macs": layer.macs,
            "mapping": _mapping(schedule.mappings[layer.name]) if layer.is_mac else None,
            "cycles": cost.cycles,
            "cycles_by_term": cost.cycles_by_term,
            "bound_by": cost.bound_by,
            "cost_share": cost.cost_share,
            "utilization": cost.utilization,
            "pe_use": cost.pe_use,
            "idle": [(reason.share, reason.sentence) for reason in cost.idle],
            "energy_pj": cost.energy_pj,
            "mac_energy_pj": cost.mac_energy_pj,
            "vector_energy_pj": cost.vector_energy_pj,
            "accesses": [
                (number, words, energy)
                for number, (words, energy) in enumerate(zip(cost.words, cost.access_energy_pj, strict=True))
                if words
            ],
            "bytes": cost.bytes,
        }
        for layer, cost in zip(schedule.workload.layers, costs.layers, strict=True)
    ]


def stored_bytes(schedule: Schedule, layer: Layer) -> float:
    """The size of a layer's output."""
    return layer.stored_words * schedule.machine.bits.O / 8


def _mapping(mapping: Mapping) -> dict[str, Any]:
    return {"factors": [_above_one(factors) for factors in mapping.factors], "orders": list(mapping.orders)}


def _above_one(dims: Dims) -> dict[str, int]:
    return {dim: size for dim, size in zip(DIMS, dims, strict=True) if size > 1}


def spoken(schedule: Schedule, costs: Breakdown) -> dict[str, str]:
    """What a screen reader says of each layer in the graph."""
    layers = zip(schedule.workload.layers, costs.layers, strict=True)
    return {layer.name: _told(schedule, layer, cost) for layer, cost in layers}


def _told(schedule: Schedule, layer: Layer, cost: LayerCost) -> str:
    group = schedule.group_of[layer.name]
    where = f"group {cost.group + 1} of {len(schedule.groups)}" if len(group.layers) > 1 else "on its own"
    what = shape(layer) if layer.is_mac else f"sum of {len(layer.inputs)}"
    return f"{layer.name}: {what}, {where}, bound by {cost.bound_by}"
