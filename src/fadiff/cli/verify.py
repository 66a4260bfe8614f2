"""`fadiff verify`: does a schedule hold up when it runs?"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fadiff.agreement import Agreement, WordCount, compare
from fadiff.analysis.units import size_text
from fadiff.cli.coverage import Strict, coverage_json, refuse_gaps
from fadiff.cli.evaluate import File
from fadiff.cli.networks import Json
from fadiff.cli.tables import console, cut, facts, print_json, table
from fadiff.cost import evaluate, load_schedule
from fadiff.schedule import Schedule

DOES_NOT_HOLD = 1
SHOWN_DIFFERENCES = 20
"""Counts that disagree are listed up to here; --layers lists all."""


def verify(
    file: File,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random inputs and weights.")] = 0,
    json: Json = False,
    layers: Annotated[bool, typer.Option("--layers", help="Show every count of every layer.")] = False,
    strict: Strict = False,
) -> None:
    """Prove a schedule: run it word by word and compare with the cost model.

    Three things are checked. Outputs: every layer computes what a direct
    computation does. Buffers: no memory ever holds more than it can. Words:
    at each memory and for each tensor as many move as predicted, word for
    word. What the model counts otherwise is computed and told: padding, which
    is made and not read, and layers that lead their group in other pieces.
    Operations of a vector unit are not counted: layers alone decide on them.

    Exit code 0: all three hold. 1: one does not. 2: the file is not usable.

    Examples:
      fadiff verify resnet18.schedule.json
      fadiff verify resnet18.schedule.json --seed 7 --layers
    """
    schedule = load_schedule(file)
    if strict:
        refuse_gaps(file, schedule.workload)
    agreement = _run(schedule, seed)
    if json:
        print_json(_agreement_json(schedule, seed, agreement))
    else:
        _show(console(), schedule, agreement, layers=layers)
    if not agreement.holds:
        raise typer.Exit(DOES_NOT_HOLD)


def _show(out: Console, schedule: Schedule, agreement: Agreement, *, layers: bool) -> None:
    out.print(_verdicts(schedule, agreement))
    if layers:
        out.print(_counts_table("Words of each layer, one execution", agreement.words))
        return
    out.print(_sums_table(agreement))
    wrong = [count for count in agreement.words if not count.agrees]
    if wrong:
        out.print(_counts_table(f"Counts that differ ({len(wrong)} in all)", wrong[:SHOWN_DIFFERENCES]))


def _verdicts(schedule: Schedule, agreement: Agreement) -> Table:
    layers = len(schedule.workload.layers)
    right = sum(count.agrees for count in agreement.words)
    words = f"{right:,} of {len(agreement.words):,} counts as predicted, word for word"
    for what, told in (("padding", "after padding"), ("lead", "after leads")):
        explained = sum(bool(getattr(count, what)) for count in agreement.words if count.agrees)
        words += f", {explained:,} of them {told}" if explained else ""
    peaks = ", ".join(
        f"{memory} at most {size_text(held)} of {size_text(capacity)}"
        for memory, (held, capacity) in _peaks(agreement).items()
    )
    wrong = [str(problem) for problem in agreement.mismatches]
    return facts(
        (
            ("schedule", "holds up" if agreement.holds else "DOES NOT HOLD UP"),
            (
                "outputs",
                f"equal to a direct computation in {'its layer' if layers == 1 else f'all {layers} layers'}"
                if agreement.outputs_equal
                else f"WRONG in {len(wrong)} of {layers} layers",
            ),
            *(("", problem) for problem in wrong),
            ("buffers", f"hold: {peaks}" if agreement.buffers_hold else f"OVERFLOW: {peaks}"),
            *(("", str(overflow)) for overflow in agreement.overflows),
            ("words", f"agree: {words}" if agreement.words_agree else f"DISAGREE: {words}"),
            *_vector_facts(schedule),
            ("executed in", f"{agreement.seconds:.1f} s"),
            *schedule.workload.coverage.facts,
        )
    )


def _vector_facts(schedule: Schedule) -> list[tuple[str, str]]:
    """What is not checked of a machine with a vector unit."""
    if schedule.machine.vector is None:
        return []
    operations = sum(schedule.machine.vector_operations(layer) for layer in schedule.workload.layers)
    return [("vector unit", f"not checked: its {operations:,} operations follow from the layers alone")]


HEADERS = ("predicted", "executed", "padding", "lead")


def _sums_table(agreement: Agreement) -> Table:
    """Counts summed over layers, where any word moves."""
    made = table("Words of all layers, one execution each", ("count", *HEADERS))
    by_label: dict[str, list[WordCount]] = {}
    for count in agreement.words:
        by_label.setdefault(_label(count), []).append(count)
    for label, counts in by_label.items():
        _add_counts(made, (label,), counts)
    return made


def _counts_table(title: str, counts: Sequence[WordCount]) -> Table:
    """Counts one by one, where any word moves; a layer is named on its first line."""
    made = table(title, ("layer", "count", *HEADERS), wide=2)
    for layer, of_layer in groupby(counts, key=lambda count: count.layer):
        name = layer
        for count in of_layer:
            if _add_counts(made, (name, _label(count)), [count]):
                name = ""
    return made


def _add_counts(made: Table, labels: tuple[str, ...], counts: Sequence[WordCount]) -> bool:
    """Add a row with the sums of some counts, unless no word moves."""
    sums = [sum(getattr(count, what) for count in counts) for what in HEADERS]
    if not any(sums[:2]):
        return False
    explained = (f"{value:+,.0f}" if value else "" for value in sums[2:])
    made.add_row(*labels, f"{sums[0]:,.0f}", f"{sums[1]:,.0f}", *explained)
    return True


def _label(count: WordCount) -> str:
    return f"{count.memory} {count.tensor} {count.way}".strip()


def _peaks(agreement: Agreement) -> dict[str, tuple[float, float]]:
    """By memory: the most bytes of an instance that were ever in use, and those that there are."""
    peaks: dict[str, tuple[float, float]] = {}
    for peak in agreement.peaks:
        most = max(peak.bits / 8, peaks.get(peak.memory, (0.0, 0.0))[0])
        peaks[peak.memory] = (most, peak.capacity_bytes)
    return peaks


def _agreement_json(schedule: Schedule, seed: int, agreement: Agreement) -> dict[str, Any]:
    return {
        "workload": schedule.workload.name,
        "hardware": schedule.machine.name,
        "seed": seed,
        "holds": agreement.holds,
        "outputs_equal": agreement.outputs_equal,
        "buffers_hold": agreement.buffers_hold,
        "words_agree": agreement.words_agree,
        **({} if schedule.machine.vector is None else {"vector_unit_checked": False}),
        "peak_bytes": {memory: held for memory, (held, _) in _peaks(agreement).items()},
        "capacity_bytes": {memory: capacity for memory, (_, capacity) in _peaks(agreement).items()},
        "mismatches": [mismatch._asdict() for mismatch in agreement.mismatches],
        "overflows": [overflow._asdict() for overflow in agreement.overflows],
        "words": [{**asdict(count), "agrees": count.agrees} for count in agreement.words],
        **coverage_json(schedule.workload),
        "seconds": agreement.seconds,
    }


def _run(schedule: Schedule, seed: int) -> Agreement:
    """Execute, with a progress bar where someone watches, and compare."""
    from fadiff.execute import execute

    terminal = console(err=True)
    columns = (BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        task = progress.add_task("")

        def show(layer: str, macs_done: int, macs: int) -> None:
            # Layer names are no markup; the bar is for MACs, which take nearly all of the time.
            progress.update(task, description=escape(cut(layer)), completed=macs_done, total=macs)

        execution = execute(schedule, seed=seed, progress=show)
    return compare(evaluate(schedule), execution)
