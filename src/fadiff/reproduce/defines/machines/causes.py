"""Why a schedule of ours takes another energy than DeFiNES' schedule of the same kind, memory by memory."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from fadiff.hardware import load_machine

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.reproduce.defines.machines.reference import Row

VERY_SMALL = 1e-3
"""Share of all energy below which a memory is not named."""


class Cause(StrEnum):
    """Why a memory takes more energy in one model than in the other."""

    HELD_OUTSIDE = "held further out"
    WEIGHTS_AGAIN = "weights again for every tile"
    UNFUSED_THERE = "intermediates in DRAM there"
    UNFUSED_HERE = "intermediates in DRAM here"
    HALOS_THERE = "halos again there"
    HALOS_HERE = "halos again here"
    WEIGHTS_THERE = "weights from DRAM again there"
    WEIGHTS_HERE = "weights from DRAM again here"
    MAPPING = "other mappings"


EXPLANATIONS = {
    Cause.HELD_OUTSIDE: (
        "here a fused tensor lives in the outermost memory of activations and is copied in from there; DeFiNES keeps a "
        "tile that fits further in and passes the outer memory by"
    ),
    Cause.WEIGHTS_AGAIN: (
        "here the layers of a group take turns in the inner memories, so that each fetches its weights again for every "
        "tile; DeFiNES keeps those of the whole stack as far in as they fit"
    ),
    Cause.UNFUSED_THERE: (
        "DeFiNES fuses only layers whose weights all have room in one memory on chip, and a tile that does not fit "
        "goes through DRAM"
    ),
    Cause.UNFUSED_HERE: "more tensors are written to DRAM here",
    Cause.HALOS_THERE: (
        "DeFiNES fetches from DRAM again what neighbouring tiles of an input share; here the window slides"
    ),
    Cause.HALOS_HERE: "here tiles in two dims fetch from DRAM again what rows of tiles share of an input",
    Cause.WEIGHTS_THERE: "DeFiNES keeps all weights of a stack on chip or none",
    Cause.WEIGHTS_HERE: "weights that have no room on chip are fetched again for every tile here",
    Cause.MAPPING: "what is left, where each search maps layers in its own way",
}


class Part(NamedTuple):
    """A share of the difference between two energies that has one cause."""

    cause: Cause
    share: float
    """(ours - theirs) / all of theirs."""
    memories: tuple[str, ...]


class Pair(NamedTuple):
    """A schedule of ours and the one of DeFiNES that it is held against."""

    ours: Row
    theirs: Row
    kept_bytes: float = 0.0
    """Intermediates that DeFiNES keeps on chip: what it writes to DRAM less than with single layers."""

    @property
    def more(self) -> float:
        """By which share ours takes more energy."""
        return self.ours.energy_pj / self.theirs.energy_pj - 1

    def parts(self) -> list[Part]:
        """The difference by cause, the largest first; shares of all causes add up to `more`."""
        machine = load_machine(self.ours.machine)
        ours, theirs = self.ours.energy_by_node_pj(), self.theirs.energy_by_node_pj()
        found: dict[Cause, dict[str, float]] = {}
        for node in {**ours, **theirs}:
            share = (ours.get(node, 0.0) - theirs.get(node, 0.0)) / self.theirs.energy_pj
            found.setdefault(self._cause(machine, node, share), {})[node] = share
        parts = [Part(cause, sum(nodes.values()), _largest(nodes)) for cause, nodes in found.items()]
        return sorted(parts, key=lambda part: -abs(part.share))

    def _cause(self, machine: Machine, node: str, share: float) -> Cause:
        """Why a node takes more energy (or less) here.

        What DeFiNES spends at the home of a tensor tells how much of it goes through there: less than all kept
        intermediates, written and read once, and they pass it by; less than all weights twice, and they come once.
        """
        if node == machine.memories[0].name:
            return self._dram_cause(machine)
        keeps = next((memory.keeps for memory in machine.memories if memory.name == node), "")
        if share <= 0 or not self.ours.groups or not keeps or machine.instances(machine.number[node]) > 1:
            return Cause.MAPPING
        if keeps == "W":
            return Cause.WEIGHTS_AGAIN if self._spares(machine, "W", 2 * self.theirs.weight_bytes) else Cause.MAPPING
        return Cause.HELD_OUTSIDE if self._spares(machine, "I", self.kept_bytes) else Cause.MAPPING

    def _spares(self, machine: Machine, tensor: str, all_bytes: float) -> bool:
        """Whether DeFiNES spends less at the home of a tensor than writing and reading so many bytes would take."""
        home = next(memory for memory in machine.memories[1:] if tensor in memory.keeps)
        needed_pj = all_bytes * 8 / home.word_bits * (home.read_pj + home.write_pj)
        return self.theirs.energy_by_node_pj().get(home.name, 0.0) < needed_pj

    def _dram_cause(self, machine: Machine) -> Cause:
        """The largest of the differences in what is read and written."""
        dram, ours, theirs = machine.memories[0], self.ours, self.theirs
        written = ours.output_bytes - theirs.output_bytes
        differences = [
            # What is written is read again by the next layer.
            (written * (dram.write_pj + dram.read_pj), Cause.UNFUSED_HERE, Cause.UNFUSED_THERE),
            ((ours.input_bytes - theirs.input_bytes - written) * dram.read_pj, Cause.HALOS_HERE, Cause.HALOS_THERE),
            ((ours.weight_bytes - theirs.weight_bytes) * dram.read_pj, Cause.WEIGHTS_HERE, Cause.WEIGHTS_THERE),
        ]
        energy, here, there = max(differences, key=lambda difference: abs(difference[0]))
        return here if energy > 0 else there


def _largest(nodes: dict[str, float]) -> tuple[str, ...]:
    """Nodes with a share that counts, the largest first."""
    return tuple(name for name in sorted(nodes, key=lambda name: -abs(nodes[name])) if abs(nodes[name]) > VERY_SMALL)
