"""A machine drawn as text: one line for each node, from the outermost memory to the multipliers."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from fadiff.analysis.units import capacity_text, significant
from fadiff.hardware import Axis, Machine, Memory

HEADINGS = ("", "instances", "", "capacity", "word", "words/cycle", "pJ/word")
TENSOR_NAMES = {"W": "weights", "I": "inputs", "O": "outputs"}
NUMERIC = (False, True, False, True, True, True, True)


class NodeLine(NamedTuple):
    """What to show of a node. Texts are empty where a node has nothing to say."""

    kind: Literal["memory", "axis", "macs"]
    name: str
    instances: int
    """How often the node is there; for an axis, how many such axes there are."""
    holds: str
    """The tensors that a memory keeps, or the lanes of an axis and the dims that it takes."""
    capacity: str
    """Of one instance."""
    word: str
    rate: str
    """Words a cycle of one instance."""
    energy: str
    """Energy of a word, or of a multiplication, in pJ."""
    filled: str
    """How the energy was found where the file leaves it out."""


def machine_lines(machine: Machine, filled: Mapping[str, str] | None = None) -> list[NodeLine]:
    """The nodes of a machine, outermost first, and its multipliers; `filled` as a `MachineFile` has it."""
    how = filled or {}
    lines = [
        _memory_line(node, machine.instances(i), how) if isinstance(node, Memory) else _axis_line(node, machine, i)
        for i, node in enumerate(machine.nodes)
    ]
    macs = NodeLine("macs", "MACs", machine.peak_macs, "", "", "", "", _number(machine.mac_pj), how.get("mac_pj", ""))
    return [*lines, macs]


def fusion_sentence(machine: Machine) -> str:
    """Where the tensors between fused layers stay on a machine."""
    memory = machine.fused_in()
    if memory is None:
        return f"No memory says fuses: layers run one by one, and every tensor goes through {machine.nodes[0].name}."
    beside = ", ".join(TENSOR_NAMES[tensor] for tensor in memory.keeps)
    return f"Tensors between fused layers stay in {memory.name} ({_capacity(memory)}), beside tiles of {beside}."


def area_text(by_node_mm2: Mapping[str, float]) -> str:
    """The area of a machine, and of its parts.

    >>> area_text({"scratchpad": 1.3448, "mac": 0.34079})
    '1.69 mm2 at 40 nm (scratchpad 1.34, MACs 0.341)'
    """
    parts = [f"{'MACs' if name == 'mac' else name} {significant(mm2)}" for name, mm2 in by_node_mm2.items()]
    return f"{significant(sum(by_node_mm2.values()))} mm2 at 40 nm ({', '.join(parts)})"


def draw_machine(machine: Machine, filled: Mapping[str, str] | None = None) -> str:
    """The machine as plain text; energies with a star were filled in, as said below the table."""
    lines = machine_lines(machine, filled)
    table = [HEADINGS, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEADINGS))]
    drawn = [
        "  ".join(
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, NUMERIC, strict=True)
        ).rstrip()
        for row in table
    ]
    notes = [f"* {note}" for note in filled_notes(lines)]
    return "\n".join([machine.name, *drawn, *notes, fusion_sentence(machine)])


def filled_notes(lines: Sequence[NodeLine]) -> list[str]:
    """How the energies that the file leaves out were found: whose, and from what."""
    by_reason: dict[str, list[str]] = {}
    for line in lines:
        if line.filled:
            by_reason.setdefault(line.filled, []).append(line.name)
    return [f"{', '.join(names)}: {reason}" for reason, names in by_reason.items()]


def _cells(line: NodeLine) -> tuple[str, ...]:
    energy = line.energy + (" *" if line.filled else "  " if line.energy else "")
    name = f"- {line.name}" if line.kind == "axis" else line.name
    instances = "" if line.kind == "axis" else f"{line.instances:,}"
    return (name, instances, line.holds, line.capacity, line.word, line.rate, energy)


def _axis_line(axis: Axis, machine: Machine, node: int) -> NodeLine:
    dims = f" over {', '.join(axis.dims)}" if axis.dims else ""
    lanes = f"{axis.size} lanes{dims}"
    return NodeLine("axis", axis.name, machine.instances(node), lanes, "", "", "", "", "")


def _memory_line(memory: Memory, instances: int, filled: Mapping[str, str]) -> NodeLine:
    reasons = [filled.get(f"{memory.name}.{key}", "") for key in ("read_pj", "write_pj")]
    return NodeLine(
        kind="memory",
        name=memory.name,
        instances=instances,
        holds=", ".join(memory.keeps) + (", fused" if memory.fuses else ""),
        capacity=_capacity(memory),
        word=f"{memory.word_bits} bit",
        rate=_rate(memory),
        energy=_energy(memory),
        filled=next((reason for reason in reasons if reason), ""),
    )


def _capacity(memory: Memory) -> str:
    if memory.bytes is None:
        return "unbounded"
    return ("half of " if memory.double_buffered else "") + capacity_text(memory.bytes)


def number_text(value: float, *, is_bytes: bool) -> str:
    """A number of a machine, in units where it is a capacity.

    >>> number_text(65536.0, is_bytes=True), number_text(12.5, is_bytes=False)
    ('64 KB', '12.5')
    """
    return capacity_text(int(value)) if is_bytes else _number(value)


def _rate(memory: Memory) -> str:
    if memory.words_per_cycle is not None:
        return _number(memory.words_per_cycle)
    rates = (memory.read_words_per_cycle, memory.write_words_per_cycle)
    if rates == (None, None):
        return "unlimited"
    read, write = ("unlimited" if rate is None else _number(rate) for rate in rates)
    return f"{read} r, {write} w"


def _energy(memory: Memory) -> str:
    if memory.read_pj == memory.write_pj:
        return _number(memory.read_pj)
    return f"{_number(memory.read_pj)} r, {_number(memory.write_pj)} w"


def _number(value: float) -> str:
    return f"{value:,.6g}"
