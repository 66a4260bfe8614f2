"""How a search converged: the best EDP over time, and what the descent's restarts did meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fadiff.report.figures.style import BLUE, FAINT, GREEN, PURPLE, SMALL, legend_above, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fadiff.analysis.search_trace import SearchTrace


def convergence_figure(trace: SearchTrace) -> Figure:
    """The best EDP so far, phase by phase, and thin what each restart of a descent proposes; below, how it went."""
    descended = any(value is not None for value in (*trace.temperature, *trace.legal_share))
    figure = new_figure(4.8, 3.6 if descended else 2.6)
    if descended:
        top, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
        _restarts(trace, below)
    else:
        top = below = figure.add_subplot()
    top.step(trace.seconds, trace.best_edp_uj_cycles, where="post", color=BLUE, linewidth=1.4)
    _restart_edp(trace, top)
    top.set(yscale="log", ylabel="best EDP [µJ · cycles]")
    top.grid(which="major")
    below.set_xlabel("time [s]")
    below.set_xlim(0, 1.02 * trace.seconds[-1] or 1.0)
    for phase in trace.phases[1:]:
        for axes in {top, below}:
            axes.axvline(phase.start_seconds, color=FAINT, linewidth=0.5, linestyle=":")
    figure.draw_without_rendering()
    _name_phases(figure, top, trace)
    return figure


def _restart_edp(trace: SearchTrace, axes: Axes) -> None:
    """A thin line for each restart; what it proposes need not be legal, so it may lie below the best schedule."""
    points = [(s, edp) for s, edp in zip(trace.seconds, trace.restart_edp_uj_cycles, strict=True) if edp is not None]
    for restart in range(len(points[0][1]) if points else 0):
        axes.plot([s for s, _ in points], [edp[restart] for _, edp in points], color=PURPLE, linewidth=0.5, alpha=0.35)


def _restarts(trace: SearchTrace, axes: Axes) -> None:
    for values, colour, label in (
        (trace.temperature, PURPLE, "temperature"),
        (trace.legal_share, GREEN, "legal share of the restarts"),
    ):
        points = [(s, v) for s, v in zip(trace.seconds, values, strict=True) if v is not None]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, linewidth=1.2, marker="o", markersize=2, label=label)
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    axes.set_ylabel("descent [1]")
    axes.grid(which="major")
    legend_above(axes)


def _name_phases(figure: Figure, axes: Axes, trace: SearchTrace) -> None:
    """Names over phases that are wide enough for them."""
    for phase in trace.phases:
        left, right = axes.transData.transform([[phase.start_seconds, 1], [phase.stop_seconds, 1]])[:, 0]
        middle = (phase.start_seconds + phase.stop_seconds) / 2
        label = axes.text(middle, 1.01, phase.name, transform=axes.get_xaxis_transform(), ha="center", va="bottom",
                          fontsize=SMALL)  # fmt: skip
        if label.get_window_extent().width > right - left:
            label.remove()
