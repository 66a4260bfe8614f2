"""A layer's place in its group: which of its tensors are fused, and which memories each of them passes."""

from dataclasses import dataclass
from fractions import Fraction

from fadiff.next.execute.data import pads, reads_whole
from fadiff.next.execute.legs import Image
from fadiff.next.execute.nest import Leg
from fadiff.next.schedule import Schedule
from fadiff.workload import Input, Layer


@dataclass(frozen=True)
class Role:
    """What the group makes of a layer's tensors. Memories go by their node, `fuses` is the one for fused tensors."""

    fuses: int | None
    alone: bool
    """Whether it is its group's only layer."""
    fused_input: Fraction
    """The share of its input channels that other layers of the group bring."""
    fused_weight: bool
    fused_output: bool
    """Whether a layer of its group reads its output."""
    drained: bool
    """Whether its output goes to the first memory: somebody outside reads it, or nobody at all."""
    chains: dict[str, tuple[int, ...]]
    """The memories that each tensor passes, from where it lies (W, I) or goes (O) inwards."""
    images: dict[int, dict[Image, Fraction]]
    """By memory: which rows and columns of the input that lies there are data, for which share of the channels.

    Only what has padding is listed.
    """

    def forgets(self, leg: Leg) -> bool:
        """Whether other layers use the inner end between two iterations: all but the home of what comes from the first
        memory."""
        return not self.alone and not (leg.outer == 0 and leg.inner in self.chains[leg.tensor][1:2])


def layer_role(schedule: Schedule, name: str) -> Role:
    """The role of a layer."""
    workload, structure = schedule.workload, schedule.machine.structure
    layer, group, fuses = workload[name], schedule.group_of[name].layers, schedule.machine.structure.fuses
    shares = {0: dict[Image, Fraction](), fuses or 0: dict[Image, Fraction]()}
    fused_input = Fraction(0)
    for operand, channels in zip(layer.inputs, workload.input_channels(layer), strict=True):
        if operand.port == "input":
            share = Fraction(channels, layer.dims.G * layer.dims.C)
            inside = operand.source in group
            fused_input += share * inside
            image = _image(layer, operand, None if operand.source is None else workload[operand.source])
            if image is not None:
                there = shares[fuses or 0 if inside else 0]
                there[image] = there.get(image, Fraction(0)) + share
    fused_weight = any(operand.port == "weight" and operand.source in group for operand in layer.inputs)
    chains = {tensor: structure.keepers(tensor) for tensor in "WIO"}
    if fuses is not None:
        for tensor, fused in (("W", fused_weight), ("I", fused_input == 1)):
            if fused:
                chains[tensor] = (fuses, *(node for node in chains[tensor] if node > fuses))
    readers = [edge.target in group for edge in workload.consumers[name]]
    return Role(
        fuses=fuses,
        alone=len(group) == 1,
        fused_input=fused_input,
        fused_weight=fused_weight,
        fused_output=any(readers),
        drained=not all(readers) or not readers,
        chains=chains,
        images=shares,
    )


def _image(layer: Layer, operand: Input, source: Layer | None) -> Image | None:
    """Rows and columns of an operand that are data, if there are others."""
    if source is None or operand.is_foreign:
        return None
    stored = (1, 1) if reads_whole(source, layer) else source.stored
    top, left = pads(layer, operand, stored)
    rows, cols = (top, top + stored[0]), (left, left + stored[1])
    inside = top == left == 0 and rows[1] >= layer.input_rows and cols[1] >= layer.input_cols
    return None if inside else (rows, cols)
