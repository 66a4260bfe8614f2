"""What moves between which memories: the numbers of a picture of the machine's traffic.

Every access that the cost model counts is an end of a transfer. Its *outer* end, further from the MACs, says how much
moves; the energy is that of both ends. One access at an inner end may serve transfers of several origins or targets:
outputs that leave an accumulator for the first memory and for fused readers, say. They share its energy by what moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.next.analysis.breakdown import Content, content_of

if TYPE_CHECKING:
    from jaxtyping import Float

    from fadiff.next.cost.evaluate import Evaluation
    from fadiff.next.cost.flows import Flow


@dataclass(frozen=True)
class Transfer:
    """Bytes that a layer, or a network, moves from one memory to another, all repeats together."""

    layer: str
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
    """Every transfer of every layer, layers in the workload's order; empty ones are left out."""
    names = [layer.name for layer in evaluation.schedule.workload.layers]
    moved, energy = _moved(evaluation)
    return tuple(
        transfer
        for i, name in enumerate(names)
        for transfer in _transfers(evaluation, name, moved[:, i] * evaluation.repeat[i], energy[:, i])
    )


def total_transfers(evaluation: Evaluation) -> tuple[Transfer, ...]:
    """Transfers of the whole network; `layer` is the workload's name."""
    moved, energy = _moved(evaluation)
    return tuple(
        _transfers(evaluation, evaluation.schedule.workload.name, moved @ evaluation.repeat, energy.sum(axis=1))
    )


def _moved(evaluation: Evaluation) -> tuple[Float[np.ndarray, "flows layers"], Float[np.ndarray, "flows layers"]]:
    """Bytes at every outer end in one execution, and the energy of both ends of its transfer, repeats counted."""
    flows, machine = evaluation.flows, evaluation.schedule.machine
    word_bits = dict(zip(machine.structure.memories, (memory.word_bits for memory in machine.memories), strict=True))
    moved = evaluation.words * np.array([[word_bits[flow.memory] / 8] for flow in flows])
    spent = evaluation.energy_parts_pj[1:] * evaluation.repeat
    energy = np.where(np.array([[is_outer_end(flow)] for flow in flows]), spent, 0.0)
    for i, flow in enumerate(flows):
        if is_outer_end(flow):
            continue
        way = [k for k, other in enumerate(flows) if is_outer_end(other) and leg_of(other) == leg_of(flow)]
        alike = np.array([[_kind(flows[k]) == _kind(flow)] for k in way])
        share = moved[way] * alike
        for otherwise in (moved[way], np.ones_like(share)):
            share = np.where(share.sum(axis=0) > 0, share, otherwise)
        energy[way] += share / share.sum(axis=0) * spent[i]
    return moved, energy


def _kind(flow: Flow) -> str:
    return {"fused": "finished"}.get(flow.what, flow.what) if flow.tensor == "O" else "operand"


def _transfers(evaluation: Evaluation, name: str, moved: np.ndarray, energy: np.ndarray) -> list[Transfer]:
    nodes = evaluation.schedule.machine.nodes
    found: list[Transfer] = []
    for flow, size, spent in zip(evaluation.flows, moved.tolist(), energy.tolist(), strict=True):
        if is_outer_end(flow) and (size or spent):
            ends = nodes[flow.memory].name, None if flow.other is None else nodes[flow.other].name
            source, target = ends if flow.action == "read" else ends[::-1]
            found.append(Transfer(name, source, target, content_of(flow), size, spent))
    return found
