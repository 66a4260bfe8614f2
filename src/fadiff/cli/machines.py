"""`fadiff hardware`: what there is to schedule for."""

from typing import Annotated

import typer

from fadiff.cli.networks import Json
from fadiff.cli.tables import console, facts, kilobytes, print_json, significant, table
from fadiff.hardware import Hardware, builtin_hardware, hardware_to_json, load_hardware


def hardware(
    name_or_file: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME_OR_FILE",
            help="A built-in accelerator or a hardware file (.yaml, .yml, .json), to show in full.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the built-in accelerators, or show one in full.

    What --json prints of one accelerator is a complete hardware file: change
    it, and give it to fadiff optimize.

    Examples:
      fadiff hardware
      fadiff hardware gemmini-large
      fadiff hardware gemmini-large --json > mine.json
    """
    if name_or_file is not None:
        machine = load_hardware(name_or_file)
        if json:
            print_json(hardware_to_json(machine))
        else:
            _show(machine)
        return
    machines = [load_hardware(name) for name in builtin_hardware()]
    if json:
        print_json({"hardware": [hardware_to_json(machine) for machine in machines]})
        return
    listed = table("Built-in accelerators", ("name", "PEs", "L1", "L2", "pJ L1", "pJ L2", "pJ L3"))
    for machine in machines:
        pj = machine.pj
        energies = (significant(value) for value in (pj.l1, pj.l2, pj.l3))
        listed.add_row(
            machine.name, _array(machine), kilobytes(machine.l1_bytes), kilobytes(machine.l2_bytes), *energies
        )
    out = console()
    out.print(listed)
    out.print("In full: fadiff hardware gemmini-large")


def _array(machine: Hardware) -> str:
    return f"{machine.rows}x{machine.cols}"


def _show(machine: Hardware) -> None:
    rates, pj = machine.words_per_cycle, machine.pj
    levels = table(machine.name, ("level", "keeps", "capacity", "words/cycle", "pJ/word"), wide=2)
    levels.add_row("L3 DRAM", "weights, inputs, outputs", "unbounded", f"{rates.l3:g}", f"{pj.l3:g}")
    levels.add_row(
        "L2 scratchpad",
        "weights, inputs, fused tensors (8 bit)",
        kilobytes(machine.l2_bytes),
        f"{rates.l2:g}",
        f"{pj.l2:g}",
    )
    levels.add_row(
        "L1 accumulator",
        "partial sums (32 bit)",
        kilobytes(machine.l1_bytes),
        f"{rates.l1_per_column:g} a column",
        f"{pj.l1:g}",
    )
    levels.add_row("L0 registers", "one weight per PE", f"{machine.rows * machine.cols:,} words", "", f"{pj.l0:g}")
    out = console()
    out.print(levels)
    out.print(
        facts(
            (
                ("array", f"{_array(machine)} PEs, {pj.mac:g} pJ a multiply-accumulate"),
                ("rows take", ", ".join(machine.spatial_rows) or "nothing"),
                ("columns take", ", ".join(machine.spatial_cols) or "nothing"),
                ("spilled sum", f"{machine.spill_words} words of L3, out and back"),
                ("double-buffered", "yes: half of L1 and L2 is usable" if machine.double_buffered else "no"),
                ("online softmax", "yes" if machine.online_softmax else "no"),
                (
                    "overlap",
                    "full: DRAM transfers hide behind work"
                    if machine.overlap == "full"
                    else "none: DRAM transfers add to the work",
                ),
            )
        )
    )
