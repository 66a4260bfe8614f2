"""`fadiff report`: a schedule as one HTML page."""

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fadiff.analysis.compare import compare_schedules
from fadiff.analysis.units import size_text
from fadiff.cli.coverage import Strict, refuse_gaps
from fadiff.cli.errors import check_outputs
from fadiff.cli.evaluate import File
from fadiff.cli.tables import console
from fadiff.cli.traces import read_trace_of
from fadiff.cost import evaluate, load_schedule
from fadiff.files import write_text
from fadiff.schedule.naming import short_named

if TYPE_CHECKING:
    from fadiff.analysis.compare import Comparison
    from fadiff.analysis.search_trace import SearchTrace
    from fadiff.cost import Evaluation


def report(
    file: File,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write it; if not said, the schedule's name.html here.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            "-c",
            metavar="FILE",
            help="Another schedule of the network, to compare with.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="The trace of the search that found it.", show_default=False),
    ] = None,
    strict: Strict = False,
) -> None:
    """Explain a schedule on one HTML page that needs nothing else.

    The network as a graph, where energy and time go, what fills L2 when, the
    loop nests, why tensors are not fused, and what another machine would
    change. Works offline, in light and dark, and prints.

    Examples:
      fadiff report resnet18.schedule.json -o resnet18.html
      fadiff report new.json --compare old.json --trace new.trace.json -o new.html
    """
    read = load_schedule(file)
    if strict:
        refuse_gaps(file, read.workload)
    target = Path(file.name).with_suffix(".html") if output is None else output
    check_outputs((target,), (file, compare, trace))
    schedule = evaluate(short_named(read))
    other = None if compare is None else evaluate(short_named(load_schedule(compare)))
    searched = None if trace is None else read_trace_of(schedule, trace)
    comparison = None if other is None else compare_schedules(other, schedule)
    size = write_report(target, schedule, trace=searched, comparison=comparison)
    console().print(f"Written to {target} ({size_text(size)}): open it in a browser.")


def write_report(
    path: Path, evaluation: "Evaluation", *, trace: "SearchTrace | None" = None, comparison: "Comparison | None" = None
) -> int:
    """Write the page of a schedule; its size in bytes."""
    from fadiff.analysis.opponents import opponents
    from fadiff.analysis.what_if import what_if
    from fadiff.analysis.why_not import why_not
    from fadiff.report.html import Extras, Rival, report_html

    terminal = console(err=True)
    with terminal.status("Looking for rivals and reasons") if terminal.is_terminal else nullcontext():
        others = opponents(evaluation.schedule)
        rivals = (
            Rival("best unfused", "the best schedule found without fusion", others.unfused),
            Rival("greedy", "the greedy heuristic", others.greedy),
        )
        reasons = [asdict(entry) for entry in why_not(evaluation)]
        page = report_html(evaluation, Extras(rivals, trace, comparison, reasons, asdict(what_if(evaluation))))
    write_text(path, page)
    return len(page.encode())
