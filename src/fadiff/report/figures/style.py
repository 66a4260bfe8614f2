"""How figures look: sizes, fonts and colours, fixed so that the same numbers give the same bytes.

Colours are Paul Tol's *bright* and *light* schemes, which people with any kind of colour vision can tell apart. A
memory has one colour in all figures.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fadiff.errors import FadiffError, pip_install
from fadiff.report.palette import group_colours

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import Formatter

    from fadiff.cost.evaluate import Evaluation
    from fadiff.schedule import Schedule

GREY, YELLOW, GREEN, BLUE = "#BBBBBB", "#CCBB44", "#228833", "#4477AA"
RED, CYAN, PURPLE = "#EE6677", "#66CCEE", "#AA3377"
INK, FAINT = "#222222", "#888888"
MEMORY_COLOURS = (RED, BLUE, GREEN, YELLOW, PURPLE, CYAN, "#332288", "#DDAA77")
"""Outermost memory first; a machine of more than these begins again, darker."""
DARKER = 0.55
GROUP_COLOURS = ("#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#44BB99", "#99DDFF", "#BBCC33", "#AAAA00")
ALONE = "#EEEEEE"

TEXT, SMALL = 8.0, 6.5
"""Sizes of type, in points."""
POINTS_PER_INCH = 72
ENTRY_INCHES, LETTER_INCHES, SCALE_INCHES = 0.3, 0.056, 0.6
"""What an entry of a legend takes beside its letters, what each of them takes, and what stands left of the axes."""

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that all machines draw the same
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "figure.dpi": 200.0,
    "savefig.dpi": 200.0,
    "savefig.facecolor": "white",
    "svg.hashsalt": "fadiff",
    "pdf.fonttype": 42,
}


@contextmanager
def styled() -> Generator[None]:
    """Draw in this style, whatever the user's own settings are."""
    try:
        from matplotlib import style
    except ImportError:
        raise FadiffError(f"figures need matplotlib: run {pip_install('plots')}") from None
    with style.context(["default", STYLE]):
        yield


def new_figure(width_inches: float, height_inches: float) -> Figure:
    """An empty figure that belongs to no window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width_inches, height_inches), layout="constrained")


def legend_above(axes: Axes, handles: Collection[Artist] | None = None) -> None:
    """A legend over the axes, where it covers nothing, in as many lines as the width asks for."""
    shown = axes.get_legend_handles_labels()[0] if handles is None else list(handles)
    if not shown:
        return
    figure = axes.get_figure(root=True)
    assert figure is not None, "axes are made by a figure"
    room = figure.get_figwidth() - SCALE_INCHES
    sizes = [ENTRY_INCHES + LETTER_INCHES * len(str(handle.get_label())) for handle in shown]
    # Entries run down the columns, each as wide as its widest.
    widths = [sum(max(sizes[i : i + lines]) for i in range(0, len(sizes), lines)) for lines in range(1, len(sizes) + 1)]
    lines = next((i for i, width in enumerate(widths, start=1) if width <= room), len(sizes))
    axes.legend(
        handles=shown,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2,
        ncols=-(-len(shown) // lines),
        columnspacing=1.0,
        handlelength=1.2,
        handleheight=0.8,
    )


def memory_colour(number: int) -> str:
    """The colour of a memory, by its place from the outermost in.

    >>> memory_colour(0), memory_colour(8)
    ('#EE6677', '#833841')
    """
    turn, place = divmod(number, len(MEMORY_COLOURS))
    parts = [int(MEMORY_COLOURS[place][i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part * DARKER**turn):02X}" for part in parts)


def term_colours(evaluation: Evaluation) -> dict[str, str]:
    """A colour for computing, for the vector unit if there is one, and for each memory, from the innermost out."""
    memories = [memory.name for memory in evaluation.schedule.machine.memories]
    outwards = [(name, memory_colour(number)) for number, name in enumerate(memories)][::-1]
    compute, *vector = (term for term in evaluation.term_names if term not in memories)
    return {compute: GREY, **dict.fromkeys(vector, FAINT), **dict(outwards)}


def term_handles(evaluation: Evaluation, used: Collection[str]) -> list[Artist]:
    """Legend entries for the roofline terms that bind something."""
    from matplotlib.patches import Patch

    shown = [(term, colour) for term, colour in term_colours(evaluation).items() if term in used]
    return [
        Patch(color=colour, label=f"by {term}" if i else f"bound by {term}") for i, (term, colour) in enumerate(shown)
    ]


def group_tones(schedule: Schedule) -> dict[str, str]:
    """The colour of every layer's group; pale for a layer on its own."""
    numbers = group_colours(schedule)
    tones = [ALONE if number is None else GROUP_COLOURS[number % len(GROUP_COLOURS)] for number in numbers]
    return {name: tones[i] for i, group in enumerate(schedule.groups) for name in group.layers}


def short_numbers() -> Formatter:
    """Ticks such as 200 k and 1.5 M."""
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep=" ")
