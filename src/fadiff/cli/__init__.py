"""The command line, one module for each command."""

import io
import sys
from typing import Annotated

import typer

from fadiff import __version__
from fadiff.cli import (
    bound,
    codesign,
    evaluate,
    exchange,
    importing,
    machines,
    networks,
    optimize,
    pareto,
    plot,
    report,
    reproduce,
    sweep,
    verify,
)
from fadiff.cli.errors import SentencesOnErrors

app = typer.Typer(
    name="fadiff",
    cls=SentencesOnErrors,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fadiff {__version__}")
        raise typer.Exit


@app.callback()
def _fadiff(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Schedule neural networks on tensor accelerators: tiling and fusion together.

    Energy, cycles and DRAM traffic of a schedule come from a documented model,
    and fadiff verify proves them by running the schedule word by word.

    A first session:
      fadiff models
      fadiff optimize resnet18 --hardware gemmini-large -o resnet18.schedule.json
      fadiff evaluate resnet18.schedule.json
      fadiff verify resnet18.schedule.json
      fadiff bound resnet18.schedule.json
      fadiff report resnet18.schedule.json
    """


for _command in (
    networks.models,
    machines.hardware,
    networks.show,
    importing.import_,
    optimize.optimize,
    pareto.pareto,
    codesign.codesign,
    evaluate.evaluate,
    bound.bound,
    verify.verify,
    report.report,
    plot.plot,
    exchange.export,
    exchange.import_mapping,
    sweep.sweep,
    reproduce.reproduce,
):
    app.command(_command.__name__.rstrip("_").replace("_", "-"))(_command)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of layers may not be in the terminal's alphabet
    app()
