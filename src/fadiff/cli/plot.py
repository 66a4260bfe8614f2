"""`fadiff plot`: figures of a schedule."""

from pathlib import Path
from typing import Annotated

import typer

from fadiff.cli.evaluate import File
from fadiff.cli.tables import console
from fadiff.cli.traces import read_trace_of
from fadiff.cost import evaluate as evaluate_schedule
from fadiff.cost import load_schedule
from fadiff.errors import FadiffError
from fadiff.files import check_folder_of, write_bytes
from fadiff.schedule.naming import short_named

OTHER_FORMATS = ("bmp", "gif", "jpg", "jpeg", "tif", "tiff", "webp", "eps", "ps")
"""Formats of pictures that are not written: a name that ends so is not meant for a folder."""


def plot(
    file: File,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR_OR_FILE",
            help="A folder, or one file that ends in .png, .svg or .pdf.",
            show_default=False,
        ),
    ],
    figure: Annotated[
        list[str] | None,
        typer.Option(
            "--figure",
            "-f",
            metavar="NAME",
            help="energy, latency, roofline, timeline, graph or convergence; give it again for more. Default: all.",
            show_default=False,
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="png|svg|pdf", help="Format of files in a folder. Default: png.", show_default=False
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace", metavar="FILE", help="A trace of fadiff optimize, for convergence.", show_default=False
        ),
    ] = None,
) -> None:
    """Draw figures of a schedule for papers: PNG, SVG or PDF.

    energy and latency show every layer; roofline and timeline show what
    binds them and what fills L2; graph shows who is fused with whom; and
    convergence how the search went (it needs --trace). The same schedule
    gives the same bytes. Needs matplotlib, the extra "plots".

    Examples:
      fadiff plot resnet18.schedule.json -o figures
      fadiff plot resnet18.schedule.json --figure timeline -o timeline.pdf
    """
    from fadiff.report.figures import CONVERGENCE, FIGURES, FORMATS, figure_bytes

    for name in figure or ():
        if name not in FIGURES:
            raise FadiffError(f"figure {name!r} is unknown: use one of {', '.join(FIGURES)}")
    names = list(dict.fromkeys(figure or (name for name in FIGURES if name != CONVERGENCE or trace is not None)))
    if trace is None and CONVERGENCE in names:
        raise FadiffError("figure 'convergence' needs a trace: make one with fadiff optimize --trace FILE, and give it")
    paths = _paths(output, names, form, FORMATS)
    evaluation = evaluate_schedule(short_named(load_schedule(file)))
    steps = None if trace is None else read_trace_of(evaluation, trace)
    # All figures are drawn before the first is written, so that an error leaves nothing behind.
    drawn = {path: figure_bytes(name, path.suffix[1:].lower(), evaluation, steps) for name, path in paths.items()}
    _make_folder(output, paths)
    for path, data in drawn.items():
        write_bytes(path, data)
    console().print(f"Written: {', '.join(map(str, drawn))}")


def _paths(output: Path, names: list[str], form: str | None, formats: tuple[str, ...]) -> dict[str, Path]:
    """Where each figure goes."""
    check_folder_of(output)
    suffix = output.suffix[1:].lower()
    if suffix in formats and not output.is_dir():
        if len(names) > 1:
            raise FadiffError(f"{output}: one file holds one figure: choose it with --figure, or name a folder")
        if form is not None and form != suffix:
            raise FadiffError(f"{output}: its name asks for {suffix}, --format for {form}: leave --format away")
        return {names[0]: output}
    if not output.is_dir() and (output.exists() or suffix in OTHER_FORMATS):
        raise FadiffError(f"{output}: figures are written as {', '.join(formats)}: end its name so, or name a folder")
    form = form or "png"
    if form not in formats:
        raise FadiffError(f"format {form!r} is unknown: use one of {', '.join(formats)}")
    return {name: output / f"{name}.{form}" for name in names}


def _make_folder(output: Path, paths: dict[str, Path]) -> None:
    if output in paths.values():
        return
    try:
        output.mkdir(exist_ok=True)
    except OSError as error:
        raise FadiffError(f"{output}: the folder cannot be made ({error.strerror}): choose another place") from None
