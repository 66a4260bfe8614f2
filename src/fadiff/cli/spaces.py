"""A space of machines on a terminal, and as JSON."""

from dataclasses import asdict
from typing import Any

from fadiff.analysis.units import plural
from fadiff.cli.tables import console, cut, facts, table
from fadiff.hardware import FreeNumber, Space, area_by_node_mm2, machine_area, machine_to_json
from fadiff.report.machine_drawing import area_text, fusion_sentence, machine_lines, number_text


def show_space(space: Space) -> None:
    """Print what is free, the nodes from the smallest to the largest machine, and their areas."""
    title = f"{space.name}: {plural(len(space.numbers), 'free number')}"
    free = table(title, ("number", "values", "from", "to"), wide=2)
    for number in space.numbers:
        free.add_row(number.name, buildable_text(number), *(value_text(number, end) for end in number.ends))
    smallest, largest = space.at(space.smallest), space.at(space.largest)
    columns = ("node", "keeps, or takes", "how many", "capacity", "words/cycle", "pJ/word")
    nodes = table("Nodes, in the smallest and in the largest machine", columns, wide=2)
    for small, large in zip(machine_lines(smallest), machine_lines(largest), strict=True):
        cells = zip(
            (small.holds, f"{small.instances:,}", small.capacity, small.rate, small.energy),
            (large.holds, f"{large.instances:,}", large.capacity, large.rate, large.energy),
            strict=True,
        )
        nodes.add_row(small.name, *(one if one == other else f"{one}\n{other}" for one, other in cells))
    out = console()
    out.print(free)
    out.print(nodes)
    out.print(cut(fusion_sentence(largest)))
    parts = (("smallest", smallest), ("largest", largest))
    out.print(facts((f"{name} area", area_text(area_by_node_mm2(machine))) for name, machine in parts))


def space_json(space: Space) -> dict[str, Any]:
    """A space as plain JSON values."""
    ends = (("smallest", space.smallest), ("largest", space.largest))
    return {
        "name": space.name,
        "numbers": [asdict(number) for number in space.numbers],
        **{
            name: {"area_mm2": machine_area(space.at(values)).total, "hardware": machine_to_json(space.at(values))}
            for name, values in ends
        },
    }


def buildable_text(number: FreeNumber) -> str:
    """Which values of a free number can be built."""
    if number.powers_of is not None:
        return f"powers of {number.powers_of}"
    if number.step is not None:
        return f"steps of {value_text(number, number.step)}"
    return "any"


def value_text(number: FreeNumber, value: float) -> str:
    """A value of a free number with its unit."""
    unit = f" {number.unit}" if number.unit not in ("", "bytes") else ""
    return number_text(value, is_bytes=number.unit == "bytes") + unit
