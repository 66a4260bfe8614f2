"""What energy, and each term of a layer's time, charges for what happens on a machine."""

from __future__ import annotations

from functools import cached_property
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.hardware import Axis, Memory
from fadiff.hardware.machine import VECTOR
from fadiff.search.solver.parts import COMPUTING, VECTORS, Shares, Term

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Float

    from fadiff.cost import Evaluation
    from fadiff.hardware import Machine
    from fadiff.search.solver.counts import Lanes
    from fadiff.workload import Layer

MOST_LANES = 256
"""Boxes of lanes of which charges are remembered."""


class Charged(NamedTuple):
    """What a pJ charges, and then a cycle of each term, with lanes between bounds."""

    read: Float[np.ndarray, "charges nodes"]
    """For a bit read at a memory (0 at axes)."""
    write: Float[np.ndarray, "charges nodes"]
    fixed: Float[np.ndarray, " charges"]
    """Whatever the mapping."""
    idle: float
    """Of the steps, by which more than the fewest are counted; 0 where nothing is known of them."""


class Charges:
    """The charges of one layer on a machine."""

    def __init__(self, layer: Layer, machine: Machine) -> None:
        self.layer = layer
        self.machine = machine
        self._known: dict[bytes, Charged] = {}

    @cached_property
    def terms(self) -> list[Term]:
        """Everything that may take the time."""
        found = [COMPUTING, VECTORS] if self.vector_cycles else [COMPUTING]
        for node, memory in enumerate(self.machine.nodes):
            if isinstance(memory, Memory):
                found += [(node, what) for what in _rates(memory)]
        return found

    @cached_property
    def vector_cycles(self) -> float:
        """What the vector unit needs on its own, whatever the mapping."""
        vector = self.machine.vector
        return 0.0 if vector is None else self.machine.vector_operations(self.layer) / vector.lanes

    def on_top(self, term: Term) -> bool:
        """Whether a term comes on top of the others."""
        return self.machine.overlap == "none" and term[0] == 0

    def time(self, terms: Shares) -> float:
        """How long it takes, by the cycles of each term."""
        beside = [value for term, value in terms.items() if not self.on_top(term)]
        on_top = [value for term, value in terms.items() if self.on_top(term)]
        return max(beside, default=0.0) + max(on_top, default=0.0)

    def of(self, lanes: Lanes) -> Charged:
        """What is charged, with lanes between bounds."""
        if lanes.key not in self._known:
            if len(self._known) >= MOST_LANES:
                self._known.clear()
            self._known[lanes.key] = self._found(lanes)
        return self._known[lanes.key]

    def _found(self, lanes: Lanes) -> Charged:
        layer, machine, size = self.layer, self.machine, np.array(self.layer.dims, dtype=np.float64)
        in_use = {
            i: min(node.size, prod(lanes.high[i])) for i, node in enumerate(machine.nodes) if isinstance(node, Axis)
        }
        fewest = float(np.ceil(size / np.minimum(size, lanes.high.prod(axis=0))).prod())
        steps = max(fewest, ceil(prod(layer.dims) / prod(in_use.values())))
        read, write = np.zeros((2, 1 + len(self.terms), len(machine.nodes)))
        for node, memory in enumerate(machine.nodes):
            if isinstance(memory, Memory):
                read[0, node], write[0, node] = memory.read_pj / memory.word_bits, memory.write_pj / memory.word_bits
                instances = prod(used for axis, used in in_use.items() if axis < node)
                for what, rate in _rates(memory).items():
                    row = 1 + self.terms.index((node, what))
                    cycles = 1 / (rate * instances) / memory.word_bits
                    read[row, node] = cycles if what in ("both", "read") else 0.0
                    write[row, node] = cycles if what in ("both", "write") else 0.0
        vector_pj = 0.0 if machine.vector is None else machine.vector.pj * machine.vector_operations(layer)
        fixed = {COMPUTING: float(steps), VECTORS: self.vector_cycles}
        return Charged(
            read,
            write,
            np.array([layer.macs * machine.mac_pj + vector_pj, *(fixed.get(term, 0.0) for term in self.terms)]),
            # Where lanes of different dims exclude each other, the fewest steps of each are no measure of all.
            steps if steps == fewest else 0.0,
        )

    def weighed(self, weights: tuple[float, float], shares: Mapping[Term, float]) -> Float[np.ndarray, " charges"]:
        """How much of each charge is paid, a share of the time being charged to every term."""
        return np.array([weights[0], *(weights[1] * shares.get(term, 0.0) for term in self.terms)])


def binding_term(near: Evaluation, number: int) -> Term:
    """What takes the time of a layer in a schedule."""
    machine, name = near.schedule.machine, near.binding[number]
    if machine.vector is not None and name == VECTOR:
        return VECTORS
    for node, memory in enumerate(machine.nodes):
        if memory.name == name and isinstance(memory, Memory):
            return (node, "both" if memory.words_per_cycle is not None else "read")
    return COMPUTING


def _rates(memory: Memory) -> dict[str, float]:
    """Words that a memory moves in a cycle, as far as they are limited."""
    rates = {
        "both": memory.words_per_cycle,
        "read": memory.read_words_per_cycle,
        "write": memory.write_words_per_cycle,
    }
    return {what: rate for what, rate in rates.items() if rate is not None}
