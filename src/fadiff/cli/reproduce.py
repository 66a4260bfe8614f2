"""`fadiff reproduce`: the paper's tables and figures, measured again."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fadiff.cli.tables import console
from fadiff.reproduce.experiment import EXPERIMENTS, Desk, find_experiment, run


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(EXPERIMENTS)}.")],
    into: Annotated[
        Path,
        typer.Option("--into", "-o", metavar="FOLDER", help="Where results.md and the folder results/ are written."),
    ] = Path("."),
    quick: Annotated[bool, typer.Option("--quick", help="A smaller version, done in five minutes.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Runs at a time, sharing the cores evenly.")] = 1,
) -> None:
    """Measure a table or figure of the paper, or of the documentation, again.

    Writes results/NAME.csv, .png and .svg, and a section of results.md.
    Runs that are already in the CSV file are not done again: an interrupted
    experiment goes on where it stopped.

    Examples:
      fadiff reproduce table1 --quick
      fadiff reproduce fig4 --into docs
      fadiff reproduce trial --into docs --jobs 2
    """
    find_experiment(name)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console(err=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as progress:
        task = progress.add_task(name)

        def tell(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=total, description=f"{name}: {what}")

        desk = Desk(name, into, quick, jobs, tell)
        try:
            page = run(desk)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("what was measured is kept, and the same command goes on from there") from None
    out = console()
    for path in sorted(desk.file("").parent.glob(f"{desk.stem}*")):
        if quick or "-quick" not in path.name:
            out.print(f"Written to {path}.")
    out.print(f"Written to {page}: its section {desk.stem}.")
