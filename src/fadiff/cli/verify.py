"""`fadiff verify`: does a schedule hold up when it runs?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fadiff.cli.evaluate import File
from fadiff.cli.networks import Json
from fadiff.cli.summary import header
from fadiff.cli.tables import console, facts, kilobytes, print_json, table
from fadiff.cost import evaluate, load_schedule
from fadiff.hardware import Hardware
from fadiff.report.agreement import Agreement, WordCount, compare
from fadiff.schedule import Schedule

DOES_NOT_HOLD = 1
REASONS = {
    "padding": "less through padding",
    "lead": "less in layers that lead",
    "warm-up": "more through warm-up",
    "differs": "that differ",
}
SHOWN_DIFFERENCES = 20
"""Counts that disagree are listed up to here; --layers lists all."""


def verify(
    file: File,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random inputs and weights.")] = 0,
    json: Json = False,
    layers: Annotated[bool, typer.Option("--layers", help="Show every count of every layer.")] = False,
) -> None:
    """Prove a schedule: run it word by word and compare with the cost model.

    Three things are checked. Outputs: every layer computes what a direct
    computation does. Buffers: no memory ever holds more than it can. Words:
    at each level and for each tensor as many move as predicted; fewer where
    an input is padded, since padding is generated, and more where a fused
    group runs extra iterations to warm up, which are counted apart.

    Exit code 0: all three hold. 1: one does not. 2: the file is not usable.

    Examples:
      fadiff verify resnet18.schedule.json
      fadiff verify resnet18.schedule.json --seed 7 --layers
    """
    schedule = load_schedule(file)
    agreement = _run(schedule, seed)
    if json:
        print_json(_agreement_json(schedule, seed, agreement))
    else:
        _show(console(), schedule, agreement, layers=layers)
    if not agreement.holds:
        raise typer.Exit(DOES_NOT_HOLD)


def _show(out: Console, schedule: Schedule, agreement: Agreement, *, layers: bool) -> None:
    out.print(_verdicts(schedule.hardware, agreement))
    if layers:
        out.print(_counts_table("Words of each layer, one execution", agreement.words))
        return
    out.print(_sums_table(agreement))
    wrong = [count for count in agreement.words if count.verdict == "differs"]
    if wrong:
        out.print(_counts_table(f"Counts that differ ({len(wrong)} in all)", wrong[:SHOWN_DIFFERENCES]))


def _verdicts(hardware: Hardware, agreement: Agreement) -> Table:
    layers = len({count.layer for count in agreement.words})
    verdicts = Counter(count.verdict for count in agreement.words)
    words = f"{verdicts['equal']:,} of {len(agreement.words):,} counts as predicted"
    for verdict, told in REASONS.items():
        words += f", {verdicts[verdict]:,} {told}" if verdicts[verdict] else ""
    l2, l1 = _peaks(agreement)
    peaks = (
        f"at most {kilobytes(l2)} of {kilobytes(hardware.usable_l2_bytes)} L2 "
        f"and {kilobytes(l1)} of {kilobytes(hardware.usable_l1_bytes)} L1"
    )
    return facts(
        (
            ("schedule", "holds up" if agreement.holds else "DOES NOT HOLD UP"),
            (
                "outputs",
                f"equal to a direct computation in {'its layer' if layers == 1 else f'all {layers} layers'}"
                if agreement.outputs_equal
                else f"WRONG in {len(agreement.mismatches)} of {layers} layers",
            ),
            *(("", str(mismatch)) for mismatch in agreement.mismatches),
            ("buffers", f"hold: {peaks}" if agreement.buffers_hold else f"OVERFLOW: {peaks}"),
            *(("", str(overflow)) for overflow in agreement.overflows),
            ("words", f"agree: {words}" if agreement.words_agree else f"DISAGREE: {words}"),
            ("executed in", f"{agreement.seconds:.1f} s"),
        )
    )


def _sums_table(agreement: Agreement) -> Table:
    """Counts summed over layers, where any word moves."""
    made = table(
        "Words of all layers, one execution each",
        ("count", "predicted", "executed", "difference"),
    )
    by_field: dict[str, list[WordCount]] = {}
    for count in sorted(agreement.words, key=_level_order):
        by_field.setdefault(count.field, []).append(count)
    for field, counts in by_field.items():
        _add_counts(made, (_label(field),), counts)
    return made


def _counts_table(title: str, counts: Sequence[WordCount]) -> Table:
    """Counts one by one, where any word moves; a layer is named on its first line."""
    made = table(title, ("layer", "count", "predicted", "executed", "difference"), wide=2)
    for layer, of_layer in groupby(counts, key=lambda count: count.layer):
        name = layer
        for count in sorted(of_layer, key=_level_order):
            if _add_counts(made, (name, _label(count.field)), [count]):
                name = ""
    return made


def _add_counts(made: Table, labels: tuple[str, ...], counts: Sequence[WordCount]) -> bool:
    """Add a row with the sums of some counts, unless no word moves; differences stand with their reasons."""
    predicted, executed = sum(count.predicted for count in counts), sum(count.executed for count in counts)
    if not predicted and not executed:
        return False
    differences: Counter[str] = Counter()
    for count in counts:
        differences[count.verdict] += count.executed - count.predicted
    told = ", ".join(f"{difference:+,} {reason}" for reason, difference in sorted(differences.items()) if difference)
    made.add_row(*labels, f"{predicted:,}", f"{executed:,}", told)
    return True


def _label(field: str) -> str:
    return "MACs" if field == "macs" else header(field).replace("\n", " ")


def _level_order(count: WordCount) -> int:
    """MACs first, then levels from DRAM inwards; within a level the order of the cost model."""
    return -9 if count.field == "macs" else -int(count.field[1])


def _peaks(agreement: Agreement) -> tuple[int, int]:
    """The most bytes of L2 and L1 that were ever in use."""
    l2 = max((peak.l2_bytes for peak in agreement.peaks), default=0)
    return l2, max((peak.l1_bytes for peak in agreement.peaks), default=0)


def _agreement_json(schedule: Schedule, seed: int, agreement: Agreement) -> dict[str, Any]:
    l2, l1 = _peaks(agreement)
    return {
        "workload": schedule.workload.name,
        "hardware": schedule.hardware.name,
        "seed": seed,
        "holds": agreement.holds,
        "outputs_equal": agreement.outputs_equal,
        "buffers_hold": agreement.buffers_hold,
        "words_agree": agreement.words_agree,
        "peak_l2_bytes": l2,
        "l2_capacity_bytes": schedule.hardware.usable_l2_bytes,
        "peak_l1_bytes": l1,
        "l1_capacity_bytes": schedule.hardware.usable_l1_bytes,
        "mismatches": [mismatch._asdict() for mismatch in agreement.mismatches],
        "overflows": [overflow._asdict() for overflow in agreement.overflows],
        "words": [asdict(count) for count in agreement.words],
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
            progress.update(task, description=escape(layer), completed=macs_done, total=macs)

        execution = execute(schedule, seed=seed, progress=show)
    return compare(evaluate(schedule), execution)
