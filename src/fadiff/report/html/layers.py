"""One layer as the page knows it: what it computes, how it is mapped, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fadiff.report.html.labels import shape
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.hardware import Hardware
    from fadiff.report.breakdown import Breakdown, LayerCost
    from fadiff.schedule import Mapping, Schedule
    from fadiff.workload import Dims, Layer

TENSOR_OF = {
    "l0_weight_fill": "weight", "l1_update": "sums", "l1_drain": "output", "l1_reload": "sums", "l1_addend": "input",
    "l2_weight_fill": "weight", "l2_weight_read": "weight", "l2_input_fill": "input", "l2_input_read": "input",
    "l2_output_copy": "output", "l2_addend_read": "input",
    "l3_weight": "weight", "l3_input": "input", "l3_output": "output", "l3_spill": "sums",
}  # fmt: skip
"""The tensor that each count of the cost model is about; `sums` are unfinished outputs."""

BOUND_NAMES = {"compute": "compute", "L1": "L1", "L2": "L2", "L3": "DRAM"}


def layer_values(evaluation: Evaluation, costs: Breakdown) -> list[dict[str, Any]]:
    """All layers, in the workload's order. Costs and words are of one execution."""
    schedule = evaluation.schedule
    return [
        {
            "name": layer.name,
            "kind": layer.kind,
            "group": cost.group,
            "repeat": layer.repeat,
            "shape": shape(layer),
            "dims": _above_one(layer.dims),
            "stride": list(layer.stride),
            "dilation": list(layer.dilation),
            "epilogue": list(layer.epilogue),
            "inputs": [{"from": operand.source, "port": operand.port} for operand in layer.inputs],
            "stored": [layer.dims.N, layer.channels, *layer.stored],
            "stored_words": layer.stored_words,
            "macs": layer.macs,
            "mapping": _mapping(schedule.mappings[layer.name]) if layer.is_mac else None,
            "tiles": _tiles(evaluation, i) if layer.is_mac else None,
            "cycles": cost.cycles,
            "cycles_by_term": cost.cycles_by_term,
            "bound_by": cost.bound_by,
            "utilization": cost.utilization,
            "energy_pj": cost.energy_pj,
            "energy_parts": energy_parts(cost, schedule.hardware),
            "words": {field: count for field, count in cost.words.items() if count},
            "l2_bytes": cost.l2_bytes,
            "l1_bytes": cost.l1_bytes,
            "told": _told(schedule, layer, cost),
        }
        for i, (layer, cost) in enumerate(zip(schedule.workload.layers, costs.layers, strict=True))
    ]


def energy_parts(cost: LayerCost, hardware: Hardware) -> list[tuple[str, str, float]]:
    """(level, tensor, pJ) of one execution, levels from the MACs outwards; they sum to the layer's energy."""
    pj = hardware.pj._asdict()
    parts: dict[tuple[str, str], float] = {
        ("mac", "mac"): cost.macs * pj["mac"],
        ("l0", "weight"): cost.macs * pj["l0"],
    }
    for field, count in cost.words.items():
        key = (field[:2], TENSOR_OF[field])
        parts[key] = parts.get(key, 0.0) + count * pj[field[:2]]
    order = ("mac", "l0", "l1", "l2", "l3")
    ranked = sorted(parts.items(), key=lambda part: order.index(part[0][0]))
    return [(level, tensor, energy) for (level, tensor), energy in ranked if energy]


def _tiles(evaluation: Evaluation, i: int) -> dict[str, int]:
    tiles = evaluation.layers.tiles
    return {
        "weight2_words": round(float(np.asarray(tiles.weight2)[i])),
        "input2_words": round(float(np.asarray(tiles.input2)[i])),
        "output1_bytes": 4 * round(float(np.asarray(tiles.output1)[i])),
        "weight_refills": round(float(np.asarray(tiles.weight_refills3)[i])),
        "input_refills": round(float(np.asarray(tiles.input_refills3)[i])),
    }


def _mapping(mapping: Mapping) -> dict[str, Any]:
    levels = {f"L{level}": _above_one(mapping.factors(level)) for level in (3, 2, 1, 0)}
    orders = {f"L{level}": mapping.order(level) for level in (3, 2, 1)}
    return {"spatial": _above_one(mapping.spatial), **levels, "order": orders}


def _above_one(dims: Dims) -> dict[str, int]:
    return {dim: size for dim, size in zip(DIMS, dims, strict=True) if size > 1}


def _told(schedule: Schedule, layer: Layer, cost: LayerCost) -> str:
    """What a screen reader says of a layer in the graph."""
    group = schedule.group_of[layer.name]
    where = f"group {cost.group + 1} of {len(schedule.groups)}" if len(group.layers) > 1 else "on its own"
    what = shape(layer) if layer.is_mac else f"sum of {len(layer.inputs)}"
    return f"{layer.name}: {what}, {where}, bound by {BOUND_NAMES[cost.bound_by]}"
