"""What moves between which memories: the numbers of a picture of the machine's traffic.

Every access that the cost model counts is an end of a transfer. Its *outer* end, further from the MACs, says how much
moves; the energy is that of both ends. One access at an inner end may serve transfers of several origins or targets:
outputs that leave an accumulator for the first memory and for fused readers, say. They share its energy by what moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.analysis.breakdown import Content, content_of

if TYPE_CHECKING:
    from fadiff.cost.evaluate import Evaluation
    from fadiff.cost.flows import Flow


@dataclass(frozen=True)
class Transfer:
    """Bytes that a network moves from one memory to another."""

    source: str | None
    """None: the MACs."""
    target: str | None
    content: Content
    bytes: float
    """As counted at the end further from the MACs."""
    energy_pj: float
    """Of the accesses at both ends. All transfers and all MACs together are the schedule's energy."""


MACS = 2**31
"""The MACs as a node: further in than any other."""


class Leg(NamedTuple):
    """One way of a tensor: between a memory, or the MACs, and what is next further out."""

    tensor: str
    inner: int
    """The inner end's node, or `MACS`."""
    inward: bool
    addend: bool


def leg_of(flow: Flow) -> Leg:
    """The way that a flow is an end of."""
    inner = max(flow.memory, MACS if flow.other is None else flow.other)
    inward = (flow.action == "read") == is_outer_end(flow)
    return Leg(flow.tensor, inner, inward, flow.what == "addend")


def is_outer_end(flow: Flow) -> bool:
    """Whether a flow is counted at the end further from the MACs."""
    return flow.other is None or flow.memory < flow.other


def transfers(evaluation: Evaluation) -> tuple[Transfer, ...]:
    """The transfers of a network, repeats counted; empty ones are left out."""
    flows, machine = evaluation.flows, evaluation.schedule.machine
    word_bytes = {machine.number[memory.name]: memory.word_bits / 8 for memory in machine.memories}
    moved = evaluation.words * np.array([[word_bytes[flow.memory]] for flow in flows])
    spent = evaluation.energy_parts_pj[1:]
    energy = np.where(np.array([[is_outer_end(flow)] for flow in flows]), spent, 0.0)
    for i, flow in enumerate(flows):
        if is_outer_end(flow):
            continue
        way = [k for k, other in enumerate(flows) if is_outer_end(other) and leg_of(other) == leg_of(flow)]
        share = moved[way] * np.array([[_kind(flows[k]) == _kind(flow)] for k in way])
        for otherwise in (moved[way], np.ones_like(share)):
            share = np.where(share.sum(axis=0) > 0, share, otherwise)
        energy[way] += share / share.sum(axis=0) * spent[i]
    found: list[Transfer] = []
    totals = zip(flows, (moved @ evaluation.repeat).tolist(), (energy @ evaluation.repeat).tolist(), strict=True)
    for flow, size, used in totals:
        if is_outer_end(flow) and (size or used):
            ends = machine.nodes[flow.memory].name, None if flow.other is None else machine.nodes[flow.other].name
            source, target = ends if flow.action == "read" else ends[::-1]
            found.append(Transfer(source, target, content_of(flow), size, used))
    return tuple(found)


def _kind(flow: Flow) -> str:
    return {"fused": "finished"}.get(flow.what, flow.what) if flow.tensor == "O" else "operand"
