"""A layer's place in its group: which of its tensors are fused, and which memories each of them passes."""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from fadiff.execute.operands import Part, input_parts
from fadiff.execute.tensors import Image, Tensors, data_lines
from fadiff.schedule import Schedule


@dataclass(frozen=True)
class Role:
    """What the group makes of a layer's tensors. Memories go by their node."""

    fuses: int
    """The memory that holds fused tensors; on a machine without one, the first memory, where nothing is fused."""
    alone: bool
    """Whether it is its group's only layer."""
    parts: list[Part]
    """The tensors on its input port."""
    fused: dict[str, Fraction]
    """Of W and I, the share that other layers of the group bring: all or nothing, but for a concatenation."""
    fused_output: bool
    """Whether a layer of its group reads its output."""
    drained: bool
    """Whether its output goes to the first memory: somebody outside reads it, or nobody at all."""
    chains: dict[str, tuple[int, ...]]
    """The memories that each tensor passes, from where it lies (W, I) or goes (O) inwards."""
    images: dict[int, dict[Image, Fraction]]
    """By memory, parts of the input with padding that lie there: which lines are data, for which share of channels."""


def layer_role(schedule: Schedule, tensors: Tensors, name: str) -> Role:
    """The role of a layer."""
    workload, structure = schedule.workload, schedule.machine.structure
    layer, group, fuses = workload[name], schedule.group_of[name].layers, structure.fuses or 0
    images: dict[int, dict[Image, Fraction]] = {0: {}, fuses: {}}
    fused, parts, first = {"W": Fraction(0), "I": Fraction(0)}, list[Part](), 0
    for place, (operand, channels) in enumerate(zip(layer.inputs, workload.input_channels(layer), strict=True)):
        inside = operand.source in group
        if operand.port == "weight":
            fused["W"] += inside
        elif operand.port == "input":
            lines = data_lines(workload, layer, place)
            look = partial(tensors.operand, layer, place)
            parts += input_parts(layer.dims, (first, first + channels), look, lines, inside)
            share, first = Fraction(channels, layer.dims.G * layer.dims.C), first + channels
            fused["I"] += share * inside
            (top, bottom), (left, right) = lines
            if top or left or bottom < layer.input_rows or right < layer.input_cols:
                there = images[fuses if inside else 0]
                there[lines] = there.get(lines, Fraction(0)) + share
    chains = {tensor: structure.keepers(tensor) for tensor in "WIO"}
    for tensor, share in fused.items():
        if share == 1:
            chains[tensor] = (fuses, *(node for node in chains[tensor] if node > fuses))
    readers = [edge.target in group for edge in workload.consumers[name]]
    drained = not readers or not all(readers)
    return Role(fuses, len(group) == 1, parts, fused, any(readers), drained, chains, images)
