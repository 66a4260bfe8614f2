"""The machine as a value: a list of nodes, each a memory or an axis of lanes, from the outermost memory inwards.

.. code-block:: text

    DRAM {W,I,O} - scratchpad {W,I} - axis cols (K,G) - accumulator {O} - axis rows (C) - registers {W} - MACs

Below an axis everything exists once per lane. A tensor passes by memories that do not keep it. A machine that exists
is a valid one: the constructors raise :class:`MachineError` with one sentence.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod
from typing import Literal

from fadiff.errors import FadiffError
from fadiff.workload.layer import DIMS, TENSORS, Layer
from fadiff.workload.vector_ops import vector_operations

Overlap = Literal["full", "none"]
RATES = ("words_per_cycle", "read_words_per_cycle", "write_words_per_cycle")
"""What may limit the accesses of a memory: all of them together, or reads and writes each on their own."""
CLOCK_MHZ = (1e-3, 1e6)
"""The slowest and the fastest clock."""
VECTOR = "vector"
"""What the vector unit is called among the terms of a cost."""
RESERVED_NAMES = frozenset({"order", "compute", "mac"})
"""Names that stand for something else: in a mapping of a schedule file, and among the terms of a cost."""


class MachineError(FadiffError):
    """A machine that does not make sense, told in one sentence."""


@dataclass(frozen=True)
class Memory:
    """A memory. Sizes, rates and energies are those of one instance and of one word of `word_bits`.

    Its accesses per cycle are limited together (`words_per_cycle`), or reads and writes each on their own; where
    nothing is said they are not limited. Only the first memory of a machine has no `bytes`: it is unbounded.
    """

    name: str
    keeps: str
    read_pj: float
    write_pj: float
    bytes: int | None = None
    word_bits: int = 8
    words_per_cycle: float | None = None
    read_words_per_cycle: float | None = None
    write_words_per_cycle: float | None = None
    double_buffered: bool = False
    fuses: bool = False

    @property
    def usable_bytes(self) -> float:
        """What one instance may be filled with: half of it where it is double-buffered."""
        if self.bytes is None:
            return inf
        return self.bytes // 2 if self.double_buffered else self.bytes


@dataclass(frozen=True)
class Axis:
    """An array of `size` lanes, over which the dims in `dims` may unroll."""

    name: str
    size: int
    dims: str


Node = Memory | Axis


@dataclass(frozen=True)
class Vector:
    """A vector unit: `lanes` operations a cycle, and the energy of each, with its operands' registers.

    Outputs go through it on their way out of the innermost keeper of O, while the array works on the next ones.
    """

    lanes: int
    pj: float


@dataclass(frozen=True)
class Bits:
    """Widths of a value: weights, inputs, finished outputs, sums, and sums spilled to the first memory."""

    W: int = 8
    I: int = 8  # noqa: E741  (the tensor's name)
    O: int = 8  # noqa: E741  (the tensor's name)
    sums: int = 32
    spilled: int = 32


@dataclass(frozen=True)
class Structure:
    """What decides which flows a machine has: its kinds of nodes and who keeps what, without any number.

    Nodes go by their number in the list. Machines of one structure share compiled programs.
    """

    keeps: tuple[str, ...]
    """Tensors each node keeps; empty for an axis."""
    dims: tuple[str, ...]
    """Dims that may have a factor at each node: all at a memory, its own at an axis."""
    fuses: int | None
    """The memory that holds fused tensors."""

    @cached_property
    def memories(self) -> tuple[int, ...]:
        """The memories, outermost first."""
        return tuple(node for node, keeps in enumerate(self.keeps) if keeps)

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The axes, outermost first."""
        return tuple(node for node, keeps in enumerate(self.keeps) if not keeps)

    def keepers(self, tensor: str) -> tuple[int, ...]:
        """The memories that keep a tensor, outermost (always the first memory) first."""
        return self._keepers[tensor]

    @cached_property
    def _keepers(self) -> dict[str, tuple[int, ...]]:
        return {tensor: tuple(node for node in self.memories if tensor in self.keeps[node]) for tensor in "WIO"}

    def home(self, tensor: str) -> int | None:
        """The outermost keeper of a tensor below the first memory; None if there is none."""
        return next(iter(self.keepers(tensor)[1:]), None)

    @cached_property
    def hands_over(self) -> int | None:
        """The memory that fused outputs come from, finished: the outermost keeper of O further in than the one that
        fuses; None where no two layers can be fused."""
        return None if self.fuses is None else next((m for m in self.keepers("O") if m > self.fuses), None)

    def axes_between(self, outer: int, inner: int) -> tuple[int, ...]:
        """The axes further in than node `outer` and further out than node `inner`."""
        return tuple(axis for axis in self.axes if outer < axis < inner)


@dataclass(frozen=True)
class Machine:
    """An accelerator: its nodes, the widths of its values, and how it runs.

    With `overlap` none, transfers of the first memory do not hide behind work. With `online_softmax` a softmax may be
    computed in pieces. A clock changes no cost: it tells cycles as seconds. Without a vector unit the operators of
    epilogues, and the additions of add layers, are free.
    """

    name: str
    nodes: tuple[Node, ...]
    mac_pj: float
    bits: Bits = Bits()
    overlap: Overlap = "full"
    online_softmax: bool = False
    clock_mhz: float | None = None
    vector: Vector | None = None

    def __post_init__(self) -> None:
        problem = next(_problems(self), None)
        if problem is not None:
            raise MachineError(f"hardware {self.name!r}: {problem}")

    @cached_property
    def structure(self) -> Structure:
        """The machine without its numbers."""
        return Structure(
            keeps=tuple(node.keeps if isinstance(node, Memory) else "" for node in self.nodes),
            dims=tuple("".join(DIMS) if isinstance(node, Memory) else node.dims for node in self.nodes),
            fuses=next((i for i, node in enumerate(self.nodes) if isinstance(node, Memory) and node.fuses), None),
        )

    @cached_property
    def kind(self) -> tuple[object, ...]:
        """The machine without sizes, rates and energies: on machines of one kind a mapping moves and holds the same."""
        nodes = tuple(node if isinstance(node, Axis) else (node.name, node.keeps, node.fuses) for node in self.nodes)
        return nodes, self.bits, self.online_softmax, self.vector is None

    @cached_property
    def memories(self) -> tuple[Memory, ...]:
        """The memories, outermost first."""
        return tuple(node for node in self.nodes if isinstance(node, Memory))

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The axes, outermost first."""
        return tuple(node for node in self.nodes if isinstance(node, Axis))

    @cached_property
    def number(self) -> dict[str, int]:
        """Each node's place in the list, by name."""
        return {node.name: i for i, node in enumerate(self.nodes)}

    @property
    def peak_macs(self) -> int:
        """Multipliers: the lanes of all axes."""
        return prod(axis.size for axis in self.axes)

    def instances(self, node: int) -> int:
        """How often a node is there: the product of the axes above it."""
        return prod(above.size for above in self.nodes[:node] if isinstance(above, Axis))

    def vector_operations(self, layer: Layer) -> int:
        """Operations that one run of a layer takes on the vector unit; 0 where there is none to charge for them."""
        return 0 if self.vector is None else vector_operations(layer)

    def fused_in(self) -> Memory | None:
        """The memory that holds fused tensors; None on a machine that runs layer by layer."""
        return next((memory for memory in self.memories if memory.fuses), None)


def check_room(machine: Machine) -> None:
    """Raise where a memory cannot hold a single value of each tensor it keeps, so that no layer at all would fit."""
    innermost = machine.nodes[machine.structure.keepers("O")[-1]]
    for memory in machine.memories[1:]:
        of_o = machine.bits.sums if memory is innermost else machine.bits.O
        widths = {"W": machine.bits.W, "I": machine.bits.I, "O": of_o}
        bits = sum(widths[tensor] for tensor in memory.keeps)
        if bits > 8 * memory.usable_bytes:
            has = f"{memory.name} has {'half of ' if memory.double_buffered else ''}{memory.bytes} bytes"
            raise MachineError(
                f"hardware {machine.name!r}: {has}, and one value of each tensor it keeps "
                f"({', '.join(memory.keeps)}) takes {bits} bits: give it more bytes"
            )


def _problems(machine: Machine) -> Iterator[str]:
    """What is wrong with a machine."""
    if not machine.nodes or not isinstance(machine.nodes[0], Memory):
        yield "its first node is the outermost memory, such as DRAM: put it first"
        return
    names = [node.name for node in machine.nodes]
    for name in names:
        if not name or not name.isprintable() or name in RESERVED_NAMES:
            told = ", ".join(sorted(RESERVED_NAMES))
            yield f"a node is named {name!r}: give it a name of printable characters, none of {told}"
        if names.count(name) > 1:
            yield f"two nodes are named {name!r}: node names must be unique"
    for node in machine.nodes:
        yield from _memory_problems(node) if isinstance(node, Memory) else _axis_problems(node)
    first, *others = machine.memories
    if set(first.keeps) != set(TENSORS):
        yield f"{first.name}, the first memory, keeps {first.keeps!r}: it must keep W, I and O"
    if first.bytes is not None:
        yield f"{first.name}, the first memory, has bytes: it is unbounded, leave them out"
    for memory in others:
        if memory.bytes is None:
            yield f"{memory.name} has no bytes: only the first memory is unbounded"
    if not any("O" in memory.keeps for memory in others):
        yield "no memory below the first keeps O: sums need one on chip"
    yield from _fusion_problems(machine)
    for what, bits in vars(machine.bits).items():
        if bits < (0 if what == "spilled" else 1):
            yield f"bits.{what} is {bits}: it must be positive"
    if not 0 <= machine.mac_pj < inf:
        yield f"mac_pj is {machine.mac_pj}: it must be finite and not negative"
    if machine.overlap not in ("full", "none"):
        yield f"overlap is {machine.overlap!r}: say full or none"
    if machine.clock_mhz is not None and not CLOCK_MHZ[0] <= machine.clock_mhz <= CLOCK_MHZ[1]:
        yield f"its clock is {machine.clock_mhz:g} MHz: it must be between 1 kHz and 1 THz"
    if machine.vector is not None:
        yield from _vector_problems(machine.vector, names)


def _memory_problems(memory: Memory) -> Iterator[str]:
    if not memory.keeps:
        yield f"{memory.name} keeps nothing, so nobody can reach it: say which of W, I, O it keeps, or take it out"
    if len(set(memory.keeps)) != len(memory.keeps) or not set(memory.keeps) <= set(TENSORS):
        yield f"{memory.name} keeps {memory.keeps!r}: name each of W, I, O at most once"
    if memory.words_per_cycle is not None and (memory.read_words_per_cycle or memory.write_words_per_cycle) is not None:
        yield f"{memory.name} has words_per_cycle and rates for reads or writes: keep one of the two"
    for what in ("bytes", "word_bits", *RATES):
        value: float | None = getattr(memory, what)
        if value is not None and not 0 < value < inf:
            yield f"{memory.name}: {what} is {value}: it must be positive and finite"
    for what, energy in (("read_pj", memory.read_pj), ("write_pj", memory.write_pj)):
        if not 0 <= energy < inf:
            yield f"{memory.name}: {what} is {energy}: it must be finite and not negative"


def _axis_problems(axis: Axis) -> Iterator[str]:
    if axis.size < 1:
        yield f"axis {axis.name} has {axis.size} lanes: it needs at least one"
    if len(set(axis.dims)) != len(axis.dims) or not set(axis.dims) <= set(DIMS):
        yield f"axis {axis.name} takes dims {axis.dims!r}: name each of {', '.join(DIMS)} at most once"


def _vector_problems(vector: Vector, names: list[str]) -> Iterator[str]:
    if not 0 < vector.lanes < inf:
        yield f"vector.lanes is {vector.lanes}: it must be positive and finite"
    if not 0 <= vector.pj < inf:
        yield f"vector.pj is {vector.pj}: it must be finite and not negative"
    if VECTOR in names:
        yield f"a node is named {VECTOR!r}, as the vector unit is: give it another name"


def _fusion_problems(machine: Machine) -> Iterator[str]:
    """A memory that fuses is the outermost keeper of I below the first memory, with no axis above it."""
    fusing = [memory.name for memory in machine.memories if memory.fuses]
    if len(fusing) > 1:
        yield f"{' and '.join(fusing)} both say fuses: one memory may hold fused tensors"
    for name in fusing[:1]:
        above = [node.name for node in machine.nodes[: machine.number[name]] if isinstance(node, Axis)]
        if above:
            yield f"{name} says fuses but axis {above[0]} is above it: only a memory that is there once can"
        first, *others = machine.memories
        outer = next((memory.name for memory in others if "I" in memory.keeps), None)
        if outer != name:
            wanted = f"{outer} keeps I further out" if outer and name != first.name else "it does not keep I"
            yield f"{name} says fuses but {wanted}: only the outermost keeper of I below {first.name} can"
