"""One look for all figures: sizes, colours that colour-blind readers can tell apart, and no dates in the files."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Generator

COLOURS = {
    "exact": "#332288",
    "joint": "#0072b2",
    "descent": "#56b4e9",
    "layerwise-tuned": "#009e73",
    "layerwise": "#e69f00",
    "genetic": "#cc79a7",
    "bayesian": "#d55e00",
    "random": "#7f7f7f",
    "greedy": "#bbbbbb",
    "climb": "#e69f00",
    "uniform": "#bbbbbb",
    "filling": "#7f7f7f",
    "tpe": "#cc79a7",
    "derived": "#009e73",
}
"""A method has the same colour in every figure."""

_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "fadiff",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


@contextmanager
def canvas(width: float, height: float) -> Generator[Figure]:
    """A figure of so many inches in the common look; draw and save it inside the block."""
    with mpl.rc_context(_STYLE):
        yield Figure(figsize=(width, height), layout="constrained")
