r"""Words moved: a static table of flows beside one array of words, for any machine.

A flow is one kind of access to one memory: which tensor, read or written, and to or from where. The counts are those of
:class:`~fadiff.schedule.nest.Nest`; here they meet the widths of values, fusion, and the way of sums:

.. math::
    D_m = past(O, m, axes\ above\ m), \qquad U_p = past(O, m, axes\ above\ p) \qquad (p\ the\ parent\ keeper\ of\ m) \\
    reload_m = U_p - fresh_p, \qquad fresh_m = D_m - reload_m, \qquad fresh = |O|\ in\ the\ first\ memory

Of the arrivals at a memory |O| are finished (none, where an axis above it unrolls C, R or S), the others sums.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, cast

import numpy as np

from fadiff.hardware import MachineArrays
from fadiff.schedule.arrays import Fusion, LayerArrays, MappingArrays
from fadiff.schedule.nest import SHARED, Nest
from fadiff.workload.layer import DIMS

if TYPE_CHECKING:
    from jax import Array

    from fadiff.hardware import Structure

Action = Literal["read", "write"]
What = Literal["operand", "update", "finished", "unfinished", "reload", "fused", "addend"]
REDUCED = tuple(DIMS.index(d) for d in "CRS")


class Flow(NamedTuple):
    """One kind of access to a memory."""

    tensor: str
    """W, I or O; the operands of an add layer are O."""
    memory: int
    """The node that counts it."""
    action: Action
    other: int | None
    """The node at the other end; None for the MACs."""
    what: What


Rows = list[tuple[Flow, "Array"]]
"""Flows with their words, ``[..., layers]``, in words of the flow's memory."""


def layer_flows(nest: Nest, machine: MachineArrays) -> Rows:
    """Every flow of every layer. The table (all but the words) depends on the machine's structure alone."""
    rows: Rows = []
    number = {node: i for i, node in enumerate(nest.structure.memories)}

    def add(flow: Flow, values: Array, bits: Array) -> None:
        rows.append((flow, values * (bits / machine.word_bits[number[flow.memory]])))

    for tensor in "WI":
        _operand(nest, machine, tensor, add)
    _sums(nest, machine, add)
    _addends(nest, machine, add)
    return rows


@cache
def flow_table(structure: Structure) -> tuple[Flow, ...]:
    """The flows of a machine, in the order in which :func:`layer_flows` tells their words."""
    one = cast("Array", np.ones(1))
    dims, pair = cast("Array", np.ones((8, 1))), cast("Array", np.ones((2, 1)))
    factors = cast("Array", np.ones((len(structure.keeps), 8, 1)))
    nest = Nest(
        structure,
        LayerArrays(dims, pair, pair, *[one] * 7),
        MappingArrays(factors, factors),
        Fusion(dims, dims, dims, *[one] * 6),
    )
    numbers = MachineArrays(*(np.ones((len(structure.keeps), 1)) for _ in MachineArrays._fields))
    return tuple(flow for flow, _ in layer_flows(nest, numbers))


class _Add(Protocol):
    """How rows are told: a flow, its values, and the bits of each."""

    def __call__(self, flow: Flow, values: Array, bits: Array) -> None: ...


def _operand(nest: Nest, machine: MachineArrays, tensor: str, add: _Add) -> None:
    """W or I on its way from the first memory, or from the memory that fuses, through its keepers to the MACs."""
    structure, fusion, layers = nest.structure, nest.fusion, nest.layers
    keepers, fuses = structure.keepers(tensor), structure.fuses
    fused = fusion.fused_weight if tensor == "W" else fusion.fused_channels / layers.input_channels
    bits = machine.bits_w if tensor == "W" else machine.bits_i

    def read(parent: int, child: int | None, values: Array) -> None:
        """Values read at a keeper; the fused ones, of O bits, at the memory that fuses instead of it or further out."""
        flow = Flow(tensor, parent, "read", child, "operand")
        if fuses is None or parent > fuses:
            add(flow, values, bits)
        elif parent == fuses:
            add(flow, values, (1 - fused) * bits + fused * machine.bits_o)
        elif child is not None and child <= fuses:
            add(flow, values * (1 - fused), bits)
        else:
            add(flow, values * (1 - fused), bits)
            add(Flow(tensor, fuses, "read", child, "fused"), values * fused, machine.bits_o)

    for parent, child in pairwise(keepers):
        written, taken = (values * layers.is_mac for values in nest.moved(tensor, child, parent))
        read(parent, child, taken)
        stays_out = fuses is not None and child <= fuses
        add(Flow(tensor, child, "write", parent, "operand"), written * (1 - fused) if stays_out else written, bits)
    read(keepers[-1], None, nest.used(tensor, keepers[-1]) * layers.is_mac)


def _sums(nest: Nest, machine: MachineArrays, add: _Add) -> None:
    """O from the MACs through its keepers to the first memory, and into the memory that fuses."""
    xp, structure, fusion, layers = nest.xp, nest.structure, nest.fusion, nest.layers
    keepers, fuses = structure.keepers("O"), structure.fuses
    output, stored, is_mac = layers.output, layers.stored, layers.is_mac
    innermost = keepers[-1]

    # Sums leave each keeper D at a time and arrive further out, added over lanes, U at a time; an add layer's at once.
    leaving, arriving = dict[int, "Array"](), {innermost: nest.used("O", innermost)}
    whole = {m: nest.spread(REDUCED, structure.axes_between(SHARED, m)) == 1 for m in keepers}
    fresh, reload = {keepers[0]: output}, dict[int, "Array"]()
    for p, m in pairwise(keepers):
        leaving[m], arriving[p] = nest.moved("O", m, p)
        reload[m] = arriving[p] - fresh[p]
        fresh[m] = leaving[m] - reload[m]

    updates = arriving[innermost] * is_mac
    add(Flow("O", innermost, "write", None, "update"), updates, machine.bits_sums)
    add(Flow("O", innermost, "read", None, "update"), updates - fresh[innermost] * is_mac, machine.bits_sums)
    # Finished outputs of a fused tensor go to the memory that fuses, from the first keeper further in than it; to
    # keepers further out only if somebody outside the group reads them.
    for p, m in reversed(list(pairwise(keepers))):
        arrives = leaves = xp.ones_like(fusion.drained)
        if fuses is not None and p < fuses:
            arrives = leaves = fusion.drained
            if m > fuses:
                leaves = fusion.drained + fusion.copied
                add(Flow("O", fuses, "write", m, "fused"), stored * fusion.copied, machine.bits_o)
        # Sums that only lanes further out complete leave a memory all unfinished.
        told = xp.where(whole[m], output, leaving[m])
        if m == innermost:
            add(Flow("O", m, "read", p, "finished"), told * leaves, machine.bits_sums)
        else:
            bits = xp.where(whole[m], stored * machine.bits_o, leaving[m] * machine.bits_sums)
            add(Flow("O", m, "read", p, "finished"), bits * leaves, xp.ones_like(machine.bits_o))
        add(Flow("O", m, "read", p, "unfinished"), leaving[m] - told, machine.bits_sums)
        sums_bits = machine.bits_spilled if p == keepers[0] else machine.bits_sums
        done = xp.where(whole[p], output, 0)
        add(Flow("O", p, "write", m, "finished"), done * (stored / output) * arrives, machine.bits_o)
        add(Flow("O", p, "write", m, "unfinished"), arriving[p] - done, sums_bits)
        add(Flow("O", p, "read", m, "reload"), reload[m], sums_bits)
        add(Flow("O", m, "write", p, "reload"), reload[m], machine.bits_sums)


def _addends(nest: Nest, machine: MachineArrays, add: _Add) -> None:
    """Operands of add layers: from the first memory, or from the one that fuses, through the keepers of O."""
    structure, layers = nest.structure, nest.layers
    keepers, fuses = structure.keepers("O"), structure.fuses
    fused = layers.output * nest.fusion.fused_addends
    unfused = layers.output * layers.addends - fused
    add(Flow("O", keepers[0], "read", keepers[1], "addend"), unfused, machine.bits_o)
    inside = [m for m in keepers if fuses is not None and m > fuses]
    if inside and fuses is not None and fuses not in keepers:
        add(Flow("O", fuses, "read", inside[0], "addend"), fused, machine.bits_o)
    for outer, m, inner in zip(keepers, keepers[1:], keepers[2:], strict=False):
        passing = unfused + fused if m in inside else unfused
        add(Flow("O", m, "write", outer, "addend"), passing, machine.bits_o)
        add(Flow("O", m, "read", inner, "addend"), passing + fused if m == fuses else passing, machine.bits_o)
    add(Flow("O", keepers[-1], "write", keepers[-2], "addend"), unfused + fused, machine.bits_sums)
