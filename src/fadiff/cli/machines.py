"""`fadiff hardware`: what there is to schedule for."""

from typing import Annotated

import typer

from fadiff.analysis.units import plural, significant
from fadiff.cli.networks import Json
from fadiff.cli.spaces import show_space, space_json
from fadiff.cli.tables import console, cut, facts, print_json, table
from fadiff.hardware import (
    Machine,
    MachineFile,
    Space,
    area_by_node_mm2,
    builtin_machines,
    leakage_mw,
    load_machine,
    machine_to_json,
    read_hardware,
    read_machine,
)
from fadiff.hardware.quantities import clock_text
from fadiff.report.machine_drawing import area_text, filled_notes, fusion_sentence, machine_lines


def hardware(
    name_or_file: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME_OR_FILE",
            help="A built-in accelerator, or a file of a machine or of a space of machines, to show in full.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the built-in accelerators, or show one in full.

    One is shown as the list that it is, from DRAM to the multipliers. What
    --json prints of it is a complete hardware file: change it, and give it to
    fadiff optimize. Of a space of machines the free numbers are shown, and the
    smallest and the largest machine.

    Examples:
      fadiff hardware
      fadiff hardware eyeriss
      fadiff hardware gemmini-large --json > mine.json
    """
    if name_or_file is not None:
        told = read_hardware(name_or_file)
        if isinstance(told, Space):
            print_json(space_json(told)) if json else show_space(told)
        elif json:
            print_json(machine_to_json(told.machine))
        else:
            _show(told)
        return
    if json:
        print_json({"hardware": [machine_to_json(load_machine(name)) for name in builtin_machines()]})
        return
    listed = table("Built-in accelerators", ("name", "what it is", "MACs", "memories", "fuses in"), wide=2)
    for name in builtin_machines():
        file = read_machine(name)
        machine = file.machine
        fuses = machine.fused_in()
        where = "" if fuses is None else fuses.name
        listed.add_row(name, file.description, f"{machine.peak_macs:,}", str(len(machine.memories)), where)
    out = console()
    out.print(listed)
    out.print("In full: fadiff hardware gemmini-large")


def _show(told: MachineFile) -> None:
    machine = told.machine
    nodes = table(
        machine.name, ("node", "keeps, or takes", "how many", "capacity", "word", "words/cycle", "pJ/word"), wide=2
    )
    lines = machine_lines(machine, told.filled)
    for line in lines:
        star = "*" if line.filled else ""
        nodes.add_row(
            line.name, line.holds, f"{line.instances:,}", line.capacity, line.word, line.rate, line.energy + star
        )
    out = console()
    out.print(nodes)
    if told.filled:
        out.print(cut(f"* not in the file, filled in. {'. '.join(filled_notes(lines))}."))
    out.print(cut(fusion_sentence(machine)))
    widths = ", ".join(f"{what} {bits}" for what, bits in vars(machine.bits).items())
    overlap = "hide behind work" if machine.overlap == "full" else "add to the work"
    pairs = [
        ("area", area_text(area_by_node_mm2(machine))),
        ("leakage", f"{significant(leakage_mw(machine))} mW of its SRAMs, in no energy"),
        ("clock", "" if machine.clock_mhz is None else clock_text(machine.clock_mhz)),
        ("bits", widths),
        ("overlap", f"{machine.overlap}: transfers of {machine.memories[0].name} {overlap}"),
        ("vector operators", _vector_text(machine)),
        ("online softmax", "yes" if machine.online_softmax else "no"),
        ("what it is", told.description),
        ("source", told.source),
        *(("note", note) for note in told.notes),
    ]
    out.print(facts((name, value) for name, value in pairs if value))


def _vector_text(machine: Machine) -> str:
    if machine.vector is None:
        return "free: the machine states no vector unit"
    return f"{plural(machine.vector.lanes, 'lane')}, {machine.vector.pj:g} pJ an operation"
