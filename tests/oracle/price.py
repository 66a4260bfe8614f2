"""What a walk's values come to: accesses in each memory's own words, energy and cycles."""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import prod

from fadiff.hardware import Machine
from fadiff.schedule import Schedule
from fadiff.workload import Layer
from oracle.walk import Passage, Walk, walk

Moves = Counter[tuple[str, str, str, str]]
"""Values by (tensor, memory, "read" or "write", kind).

Kinds: `operand`, a weight or an input; `sum`, not finished or in the innermost keeper of O; `finished`, as the epilogue
stored it, fused tensors and addends included.
"""


@dataclass
class Bill:
    """One execution of one layer."""

    moves: Moves
    words: dict[tuple[str, str], Fraction]
    """Accesses of every memory in words of its own width, by (memory, "read" or "write")."""
    macs: int
    steps: int
    instances: dict[str, int]
    """Instances of every memory in use."""
    tiles: dict[tuple[str, str], int]
    """Values that one instance of a memory holds, by (tensor, memory)."""
    kept: set[tuple[str, str]]
    """Tiles of which something was still there in the next shared iteration, by (tensor, memory)."""
    energy_pj: float
    cycles: float


def cost(schedule: Schedule) -> tuple[float, float]:
    """pJ and cycles of a whole schedule."""
    bills = [(layer.repeat, bill(schedule, layer.name)) for layer in schedule.workload.layers]
    return sum(n * b.energy_pj for n, b in bills), sum(n * b.cycles for n, b in bills)


def bill(schedule: Schedule, name: str, *, skip: bool = True) -> Bill:
    """Everything about one layer, as a part of its group."""
    layer, machine = schedule.workload[name], schedule.machine
    ledger = _Ledger(schedule, layer)
    found = walk(schedule, name, skip=skip) if layer.is_mac else ledger.addends()
    if layer.is_mac:
        ledger.operand("W", found)
        ledger.operand("I", found)
    ledger.outputs(found)
    words = {(memory.name, way): Fraction(0) for memory in machine.memories for way in ("read", "write")}
    for (tensor, memory, way, kind), values in ledger.moves.items():
        node = machine.number[memory]
        words[memory, way] += values * Fraction(_bits(machine, node, tensor, kind), machine.nodes[node].word_bits)
    instances = {memory.name: found.instances[machine.number[memory.name]] for memory in machine.memories}
    tiles = {(t, machine.nodes[n].name): size for (t, n), size in found.tiles.items() if n < len(machine.nodes)}
    kept = {(t, machine.nodes[n].name) for t, n in found.kept}
    energy = found.macs * machine.mac_pj + sum(
        float(words[m.name, "read"]) * m.read_pj + float(words[m.name, "write"]) * m.write_pj for m in machine.memories
    )
    cycles = _cycles(machine, words, found.steps, instances)
    return Bill(+ledger.moves, words, found.macs, found.steps, instances, tiles, kept, energy, cycles)


def _bits(machine: Machine, node: int, tensor: str, kind: str) -> int:
    """Width of a value where it is."""
    if kind == "sum":
        return machine.bits.spilled if node == 0 else machine.bits.sums
    return machine.bits.O if kind == "finished" else getattr(machine.bits, tensor)


def _cycles(machine: Machine, words: dict[tuple[str, str], Fraction], steps: int, instances: dict[str, int]) -> float:
    times = []
    for memory in machine.memories:
        read, write = words[memory.name, "read"], words[memory.name, "write"]
        flows = (
            (read + write, memory.words_per_cycle),
            (read, memory.read_words_per_cycle),
            (write, memory.write_words_per_cycle),
        )
        times.append(max(float(n) / (rate * instances[memory.name]) if rate is not None else 0.0 for n, rate in flows))
    first, *others = times
    on_chip = max(steps, *others)
    return on_chip + first if machine.overlap == "none" else max(on_chip, first)


class _Ledger:
    """Collects the moves of one layer."""

    def __init__(self, schedule: Schedule, layer: Layer):
        self.schedule, self.layer, self.moves = schedule, layer, Moves()
        self.multipliers, self.fuses = len(schedule.machine.nodes), schedule.machine.structure.fuses
        self.group = schedule.group_of[layer.name].layers
        readers = [c.name for c in schedule.workload.layers if any(o.source == layer.name for o in c.inputs)]
        self.fused = any(name in self.group for name in readers)
        self.drained = not readers or any(name not in self.group for name in readers)

    def _count(self, tensor: str, node: int, way: str, kind: str, values: int | Fraction) -> None:
        if node != self.multipliers:
            self.moves[tensor, self.schedule.machine.nodes[node].name, way, kind] += values

    def operand(self, tensor: str, found: Walk) -> None:
        """W or I; the fused share of it is in the memory that fuses already, in the width it was stored in."""
        share, chain = self._fused_share(tensor), found.keepers[tensor]
        for parent, node in pairwise(chain):
            passage = found.passages[tensor, node]
            fetched = 1 - share if node == self.fuses else 1
            stored = share if parent == self.fuses else 0
            self._count(tensor, parent, "read", "finished", stored * passage.outer)
            self._count(tensor, parent, "read", "operand", (fetched - stored) * passage.outer)
            self._count(tensor, node, "write", "operand", fetched * passage.inner)

    def _fused_share(self, tensor: str) -> Fraction:
        """The part of an operand that layers of the group bring: all or nothing, but for a concatenation."""
        operands = [o for o in self.layer.inputs if o.port == {"W": "weight", "I": "input"}[tensor]]
        sources = [self.schedule.workload[o.source] for o in operands if o.source in self.group]
        if len(operands) <= 1:
            return Fraction(len(sources))
        channels = sum(s.dims.G * s.dims.K * (prod(s.stored) if "flatten" in s.epilogue else 1) for s in sources)
        return Fraction(channels, self.layer.dims.G * self.layer.dims.C)

    def outputs(self, found: Walk) -> None:
        """Sums on their way from the multipliers out; finished they are counted as what the epilogue stores."""
        stored, chain = Fraction(self.layer.stored_words, self.layer.output_words), found.keepers["O"]
        ready = 0  # finished values among those that leave
        for parent, node in reversed(list(pairwise(chain))):
            into_fused = self.fused and parent <= self.fuses < node
            if self.fused and node <= self.fuses and not self.drained:
                break
            passage = found.passages["O", node]
            assert not into_fused or passage.outer == passage.finished == self.layer.output_words, "not complete"
            # Where the memory that fuses keeps O it is the parent. Where not, values leave once for it, and once more
            # on their usual way if somebody outside wants them.
            beside = into_fused and parent != self.fuses
            usual = self.drained or not beside
            self._count("O", node, "read", "sum", (beside + usual) * (passage.inner - ready))
            self._count("O", node, "read", "finished", (beside + usual) * ready * stored)
            ready = passage.finished if parent != chain[-2] else 0
            if beside:
                self._count("O", self.fuses, "write", "finished", self.layer.stored_words)
            if usual:
                self._count("O", parent, "write", "finished", ready * stored)
                self._count("O", parent, "write", "sum", passage.outer - ready)
                self._count("O", parent, "read", "sum", passage.reloaded)
                self._count("O", node, "write", "sum", passage.reloaded)

    def addends(self) -> Walk:
        """An add layer's operands come in through the keepers of O; the walk of the result, which leaves as usual.

        The innermost keeper takes the operands as the sums that arrive there.
        """
        structure, size = self.schedule.machine.structure, self.layer.output_words
        chain = (*structure.keepers("O"), self.multipliers)
        for operand in self.layer.inputs:
            source = self.fuses if operand.source in self.group else 0
            self._count("O", source, "read", "finished", size)
            for node in chain[1:-2]:
                if node > source:
                    self._count("O", node, "write", "finished", size)
                    self._count("O", node, "read", "finished", size)
        passages = {("O", node): Passage(outer=size, inner=size, finished=size) for node in chain[1:-1]}
        passages["O", self.multipliers] = Passage(outer=len(self.layer.inputs) * size, inner=0)
        instances = Counter({n: self.schedule.machine.instances(n) for n in structure.memories})
        return Walk({"O": chain}, passages, instances=instances)
