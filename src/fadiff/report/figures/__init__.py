"""The main figures of a schedule for papers, drawn by matplotlib (the extra `plots`)."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fadiff.errors import FadiffError
from fadiff.report.figures.bars import energy_figure, latency_figure
from fadiff.report.figures.convergence import convergence_figure
from fadiff.report.figures.front_plot import front_figure
from fadiff.report.figures.graph_plot import graph_figure
from fadiff.report.figures.roofline_plot import roofline_figure
from fadiff.report.figures.style import styled
from fadiff.report.figures.timeline_plot import timeline_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fadiff.analysis.search_trace import SearchTrace
    from fadiff.cost.evaluate import Evaluation
    from fadiff.search.pareto import Front

SCHEDULE_FIGURES: dict[str, Callable[[Evaluation], Figure]] = {
    "energy": energy_figure,
    "latency": latency_figure,
    "roofline": roofline_figure,
    "timeline": timeline_figure,
    "graph": graph_figure,
}
CONVERGENCE = "convergence"
FIGURES = (*SCHEDULE_FIGURES, CONVERGENCE)
"""All figures by name; the last one needs a trace of the search."""
FORMATS = ("png", "svg", "pdf")
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Without dates and versions, so that the same schedule gives the same bytes."""


def figure_bytes(name: str, form: str, evaluation: Evaluation, trace: SearchTrace | None = None) -> bytes:
    """One of :data:`FIGURES` in one of :data:`FORMATS`."""
    if name not in FIGURES:
        raise FadiffError(f"figure {name!r} is unknown: use one of {', '.join(FIGURES)}")
    if form not in FORMATS:
        raise FadiffError(f"figures cannot be written as {form!r}: use one of {', '.join(FORMATS)}")
    if name == CONVERGENCE and trace is None:
        raise FadiffError(f"figure {CONVERGENCE!r} needs a trace of the search: give one with --trace")
    with styled():
        figure = (
            SCHEDULE_FIGURES[name](evaluation) if trace is None or name != CONVERGENCE else convergence_figure(trace)
        )
        return _written(figure, form)


def front_bytes(front: Front, form: str) -> bytes:
    """The figure of a front in one of :data:`FORMATS`."""
    with styled():
        return _written(front_figure(front), form)


def _written(figure: Figure, form: str) -> bytes:
    written = io.BytesIO()
    figure.savefig(written, format=form, metadata=_METADATA[form])
    return written.getvalue()
