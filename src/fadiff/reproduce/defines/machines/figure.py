"""The figure: what fusion saves on every machine, and where the energy that is left goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fadiff.hardware import load_machine
from fadiff.reproduce.drawing import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fadiff.reproduce.defines.machines.compare import Comparison
    from fadiff.reproduce.defines.machines.reference import Row
    from fadiff.reproduce.experiment import Desk

OURS, THEIRS = "#009e73", "#222222"
PARTS = {
    "MACs": "#bbbbbb",
    "registers": "#7f7f7f",
    "inner memories": "#56b4e9",
    "outermost memories on chip": "#0072b2",
    "DRAM": "#d55e00",
}
BAR = 0.38


def draw(desk: Desk, found: Sequence[Comparison]) -> str:
    """Left: single layers over the best schedule. Right: the best schedule's energy by part."""
    with canvas(9, 0.62 * len(found) + 1.6) as figure:
        panels: Sequence[Axes] = figure.subplots(1, 2, sharey=True, width_ratios=[1, 1.7])
        gains, parts = panels
        for y, one in enumerate(found):
            for gain, colour, label, shift in zip(
                one.gains, (OURS, THEIRS), ("ours", "DeFiNES"), (-BAR / 2, BAR / 2), strict=True
            ):
                gains.barh(y + shift, gain, BAR, color=colour, label=label if y == 0 else None)
                gains.text(gain, y + shift, f" {gain:.1f}", va="center", fontsize=7.5)
            unit_pj = one.best.theirs.energy_pj
            _stacked(parts, y - BAR / 2, one.best.ours, unit_pj, labelled=y == 0)
            _stacked(parts, y + BAR / 2, one.best.theirs, unit_pj, labelled=False)
        gains.set_yticks(range(len(found)), [str(one).replace(", ", "\n") for one in found], fontsize=8)
        gains.invert_yaxis()
        gains.set_xlabel("energy of single layers / of the best schedule")
        parts.set_xlabel("energy of the best schedule / of DeFiNES' (above: ours)")
        for axes in panels:
            axes.grid(visible=False, axis="y")
        figure.legend(loc="outside upper center", ncols=7, fontsize=7.5)
        return desk.draw(figure, "What fusion saves on each machine, ours and DeFiNES', and where the rest is spent")


def _stacked(axes: Axes, y: float, row: Row, unit_pj: float, *, labelled: bool) -> None:
    at = 0.0
    for part, energy in by_part(row).items():
        axes.barh(y, energy / unit_pj, BAR, left=at, color=PARTS[part], label=part if labelled else None)
        at += energy / unit_pj


def by_part(row: Row) -> dict[str, float]:
    """Energy of a schedule in pJ, by the parts that the figure tells apart."""
    machine = load_machine(row.machine)
    structure = machine.structure
    homes = {structure.home(tensor) for tensor in "WI"}
    spent = dict.fromkeys(PARTS, 0.0)
    for name, energy in row.energy_by_node_pj().items():
        node = machine.number.get(name)
        if node is None:
            part = "MACs"
        elif node == 0:
            part = "DRAM"
        elif machine.instances(node) > 1:
            part = "registers"
        else:
            part = "outermost memories on chip" if node in homes else "inner memories"
        spent[part] += energy
    return spent
