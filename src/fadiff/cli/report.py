"""`fadiff report`: a schedule as one HTML page."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fadiff.cli.errors import check_output, read_schedule
from fadiff.cli.evaluate import File
from fadiff.cli.tables import console, kilobytes
from fadiff.cost import evaluate
from fadiff.errors import FadiffError
from fadiff.files import write_text
from fadiff.report.compare import compare_schedules
from fadiff.report.search_trace import read_trace

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.report.compare import Comparison
    from fadiff.report.search_trace import SearchTrace


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
) -> None:
    """Explain a schedule on one HTML page that needs nothing else.

    The network as a graph, where energy and time go, what fills L2 when, the
    loop nests, why tensors are not fused, and what another machine would
    change. Works offline, in light and dark, and prints.

    Examples:
      fadiff report resnet18.schedule.json -o resnet18.html
      fadiff report new.json --compare old.json --trace new.trace.json -o new.html
    """
    target = Path(file.name).with_suffix(".html") if output is None else output
    check_output(target)
    for path in (file, compare, trace):
        if path is not None and target.exists() and path.exists() and target.samefile(path):
            raise FadiffError(f"{target}: the report would replace the file that it reads: choose another place")
    schedule = evaluate(read_schedule(file))
    comparison = None if compare is None else compare_schedules(evaluate(read_schedule(compare)), schedule)
    searched = None if trace is None else _trace_of(schedule, trace)
    size = write_report(target, schedule, trace=searched, comparison=comparison)
    console().print(f"Written to {target} ({kilobytes(size)}): open it in a browser.")


def write_report(
    path: Path, evaluation: "Evaluation", *, trace: "SearchTrace | None" = None, comparison: "Comparison | None" = None
) -> int:
    """Write the page of a schedule; its size in bytes."""
    from fadiff.report.html import report_html
    from fadiff.report.opponents import opponents

    terminal = console(err=True)
    with terminal.status("Looking for rivals and reasons") if terminal.is_terminal else nullcontext():
        page = report_html(evaluation, opponents(evaluation.schedule), trace=trace, comparison=comparison)
    write_text(path, page)
    return len(page.encode())


def _trace_of(evaluation: "Evaluation", path: Path) -> "SearchTrace":
    """The trace in a file, if it ends where the schedule is."""
    trace = read_trace(path)
    last, mine = trace.best_edp_uj_cycles[-1], evaluation.edp_uj_cycles
    if abs(last - mine) > 1e-6 * mine:
        raise FadiffError(
            f"{path}: the search ends at an EDP of {last:.6g}, the schedule has {mine:.6g}: "
            "give the trace of the search that found this schedule"
        )
    return trace
