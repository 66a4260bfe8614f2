"""Words between levels, by tensor: the numbers of a Sankey diagram or a treemap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fadiff.report.breakdown import LayerCost, breakdown

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.hardware import Hardware


@dataclass(frozen=True)
class Flow:
    """Words that one layer moves from one level to another, all repeats together."""

    layer: str
    source: str
    """L3, L2, L1, L0 or PE."""
    target: str
    tensor: str
    """weight, input, output, intermediate (a fused tensor on its way into L2), addend, or partial sum."""
    words: int
    """As counted at the end farther from the PEs (at L1, 32-bit words)."""
    energy_pj: float
    """Energy of the accesses at both ends. All flows and all MACs together are the schedule's energy."""


def flows(evaluation: Evaluation) -> tuple[Flow, ...]:
    """Every flow of every layer, layers in the workload's order; flows of no words are left out."""
    machine = evaluation.schedule.hardware
    workload = evaluation.schedule.workload
    return tuple(
        flow
        for layer in breakdown(evaluation).layers
        for flow in _layer_flows(layer, machine, is_mac=workload[layer.name].is_mac)
        if flow.words
    )


def total_flows(evaluation: Evaluation) -> tuple[Flow, ...]:
    """Flows of the whole network by source, target and tensor; `layer` is the workload's name."""
    words: dict[tuple[str, str, str], int] = {}
    energy: dict[tuple[str, str, str], float] = {}
    for flow in flows(evaluation):
        key = (flow.source, flow.target, flow.tensor)
        words[key] = words.get(key, 0) + flow.words
        energy[key] = energy.get(key, 0.0) + flow.energy_pj
    name = evaluation.schedule.workload.name
    return tuple(Flow(name, *key, words[key], energy[key]) for key in words)


def _layer_flows(layer: LayerCost, machine: Hardware, *, is_mac: bool) -> Iterator[Flow]:
    """A layer's flows; each access that the model counts is an end of exactly one of them."""
    w, pj = layer.words, machine.pj

    def flow(source: str, target: str, tensor: str, words: int, energy: float) -> Flow:
        return Flow(layer.name, source, target, tensor, words * layer.repeat, energy * layer.repeat)

    # Finished outputs leave L1 once for each of their targets; what else leaves it are partial sums.
    spilled = w["l1_reload"]
    outlets = (w["l3_output"] > 0) + (w["l2_output_copy"] > 0)
    read = (w["l1_drain"] - spilled) // max(1, outlets)
    if is_mac:
        yield flow("L3", "L2", "weight", w["l3_weight"], w["l3_weight"] * pj.l3 + w["l2_weight_fill"] * pj.l2)
        yield flow("L3", "L2", "input", w["l3_input"], w["l3_input"] * pj.l3 + w["l2_input_fill"] * pj.l2)
        yield flow("L2", "L0", "weight", w["l2_weight_read"], w["l2_weight_read"] * pj.l2 + w["l0_weight_fill"] * pj.l0)
        yield flow("L0", "PE", "weight", layer.macs, layer.macs * pj.l0)
        yield flow("L2", "PE", "input", w["l2_input_read"], w["l2_input_read"] * pj.l2)
        # Of the 2u - |O| accesses of updates u are written, the others read.
        written = (w["l1_update"] + read) // 2
        yield flow("PE", "L1", "partial sum", written, written * pj.l1)
        yield flow("L1", "PE", "partial sum", w["l1_update"] - written, (w["l1_update"] - written) * pj.l1)
        half = w["l3_spill"] // 2
        yield flow("L1", "L3", "partial sum", half, half * pj.l3 + spilled * pj.l1)
        yield flow("L3", "L1", "partial sum", half, half * pj.l3 + spilled * pj.l1)
    else:
        from_l2 = w["l2_addend_read"]
        from_l3 = w["l1_addend"] - from_l2
        yield flow("L3", "L1", "addend", from_l3, from_l3 * (pj.l3 + pj.l1))
        yield flow("L2", "L1", "addend", from_l2, from_l2 * (pj.l2 + pj.l1))
    if w["l3_output"]:
        yield flow("L1", "L3", "output", w["l3_output"], w["l3_output"] * pj.l3 + read * pj.l1)
    if w["l2_output_copy"]:
        yield flow("L1", "L2", "intermediate", w["l2_output_copy"], w["l2_output_copy"] * pj.l2 + read * pj.l1)
