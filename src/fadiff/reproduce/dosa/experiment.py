"""DOSA's co-design results beside ours: its layers, its energies, its 16x16 array, and arrays that are free."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from math import exp, isnan, log, nan
from typing import TYPE_CHECKING, NamedTuple

from fadiff.files import parse
from fadiff.hardware.space_file import space_of
from fadiff.reproduce.codesign.runs import design_of
from fadiff.reproduce.dosa.networks import NETWORKS, network
from fadiff.reproduce.experiment import markdown_table, wrapped
from fadiff.reproduce.runs import measure
from fadiff.search.codesign import CodesignSettings, Question
from fadiff.search.optimize import optimize

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.hardware import Space
    from fadiff.reproduce.experiment import Desk
    from fadiff.sweeps.rows import Row, TextRow

KB = 1024
BUDGET_S, QUICK_BUDGET_S = 75.0, 6.0


class Published(NamedTuple):
    """What DOSA found, with Timeloop's counts."""

    scratchpad_kb: int
    accumulator_kb: int
    edp_uj_cycles: float


PUBLISHED = {
    "bert": Published(108, 16, 5.86e9),
    "resnet50": Published(127, 32, 2.43e11),
    "retinanet": Published(261, 49, 1.245e11),
    "unet": Published(389, 86, 2.97e14),
}


class Asked(NamedTuple):
    """What is asked of a network."""

    told: str
    free: tuple[str, ...] = ()
    """What is free of memories and array."""
    exact_factors: bool = False
    fused: bool = False


QUESTIONS = {
    "given": Asked("its machine", exact_factors=True),
    "given-cut": Asked("with cut ends"),
    "free": Asked("memories free", ("memories",), exact_factors=True),
    "free-cut": Asked("with cut ends", ("memories",)),
    "free-fused": Asked("and fusion", ("memories",), fused=True),
    "array": Asked("array free", ("memories", "array"), exact_factors=True),
    "array-cut": Asked("with cut ends", ("memories", "array")),
    "array-fused": Asked("and fusion", ("memories", "array"), fused=True),
}


class Cell(NamedTuple):
    """One search; the fields name the columns that tell runs apart."""

    network: str
    question: str
    budget_s: float

    def __str__(self) -> str:
        return f"{self.network}, {self.question}"


def read_dosa_space(*, array: bool) -> Space:
    """DOSA's Gemmini with free memories; with `array` its sides are free, too."""
    name = "gemmini.yaml" if array else "gemmini16.yaml"
    text = resources.files("fadiff.reproduce.dosa").joinpath("data", name).read_text(encoding="utf-8")
    return space_of(parse(text, name), name)


def reproduce(desk: Desk) -> str:
    """Ask everything of every network, and tell it beside what DOSA found."""
    budget = QUICK_BUDGET_S if desk.quick else BUDGET_S
    cells = [Cell(name, question, budget) for question in QUESTIONS for name in NETWORKS]
    return tell(desk, measure(desk, cells, _rows, Cell._fields))


def tell(desk: Desk, rows: Sequence[TextRow]) -> str:
    """The section: both tables, with dashes where nothing was measured."""
    budget = float(rows[0]["budget_s"])
    found = {(row["network"], row["question"]): row for row in rows}
    return f"""\
### DOSA's co-design

```
{desk.command()}
```

{wrapped(_ABOUT.format(budget=budget))}

{_first_table(found)}{_second_table(found)}"""


_ABOUT = (
    "DOSA searches hardware and mappings of a Gemmini of 16x16 PEs, each layer on its own, in about 2.6 CPU-hours a "
    "network. Below are its EDPs (uJ x cycles, Timeloop's counts), and ours over them, with its layers, energies, "
    "rates and ranges: our mapping on its very machine, with factors that divide and with cut ends; the memories "
    "free, the same two ways; and with fusion, where the lists make chains. A search takes {budget:g} s at most; what "
    "it needs is compiled before. Its lists have no pooling and no additions, and neither has ours. We count a read "
    "of every output that leaves the accumulator, which Timeloop does not, so these ratios are a little too high. "
    "Memories are scratchpad/accumulator in KB; those at the end are with cut ends, without fusion."
)


def _rows(cell: Cell) -> list[Row]:
    asked, published = QUESTIONS[cell.question], PUBLISHED[cell.network]
    workload = network(cell.network, fused=asked.fused)
    space = read_dosa_space(array="array" in asked.free)
    if not asked.free:
        given = {"sums": published.accumulator_kb * KB, "scratchpad.bytes": published.scratchpad_kb * KB}
        machine = space.at([given[number.name] for number in space.numbers], "dosa")
        found = optimize(workload, machine, budget_seconds=cell.budget_s, exact_factors=asked.exact_factors)
        if found.stopped == "interrupt":
            raise KeyboardInterrupt
        return [_row(cell, found.best, 1)]
    settings = CodesignSettings(cell.budget_s, exact_factors=asked.exact_factors)
    design = design_of(Question((workload,), space), settings)
    return [_row(cell, design.evaluations[0], len(design.rows))]


def _row(cell: Cell, found: Evaluation, machines: int) -> Row:
    machine = found.schedule.machine
    (_, scratchpad, accumulator, _), (cols, rows) = machine.memories, machine.axes
    return {
        **cell._asdict(),
        "scratchpad_kb": scratchpad.usable_bytes / KB,
        "accumulator_kb": accumulator.usable_bytes * cols.size / KB,
        "rows": rows.size,
        "cols": cols.size,
        "energy_uj": found.energy_pj * 1e-6,
        "cycles": found.cycles,
        "edp_uj_cycles": found.edp_uj_cycles,
        "machines": machines,
    }


Found = dict[tuple[str, str], "TextRow"]


def _first_table(found: Found) -> str:
    names = ("given", "given-cut", "free", "free-cut", "free-fused")
    rows = [
        [
            network,
            f"{published.edp_uj_cycles:.4g}",
            f"{published.scratchpad_kb}/{published.accumulator_kb}",
            *_ratios(found, network, names),
            _memories(found.get((network, "free-cut"))),
        ]
        for network, published in PUBLISHED.items()
    ]
    columns = ("network", "DOSA", "memories", *(QUESTIONS[name].told for name in names), "memories")
    return markdown_table(columns, [*rows, ["geometric mean", "", "", *_means(found, names), ""]])


def _second_table(found: Found) -> str:
    names = ("array", "array-cut", "array-fused")
    if not any(question in names for _, question in found):
        return ""
    rows = [
        [network, *_ratios(found, network, names), _array(last := found.get((network, names[-1]))), _memories(last)]
        for network in PUBLISHED
    ]
    columns = ("network", *(QUESTIONS[name].told for name in names), "array", "memories")
    told = markdown_table(columns, [*rows, ["geometric mean", *_means(found, names), "", ""]])
    return f"\nThe array free, 4 to 128 lanes a side, beside the same results:\n\n{told}"


def _ratio(found: Found, network: str, question: str) -> float:
    """Over DOSA's EDP; NaN where nothing was measured."""
    row = found.get((network, question))
    return nan if row is None else float(row["edp_uj_cycles"]) / PUBLISHED[network].edp_uj_cycles


def _ratios(found: Found, network: str, questions: Sequence[str]) -> list[str]:
    return [_told(_ratio(found, network, question)) for question in questions]


def _means(found: Found, questions: Sequence[str]) -> list[str]:
    return [
        _told(exp(sum(log(_ratio(found, network, question)) for network in PUBLISHED) / len(PUBLISHED)))
        for question in questions
    ]


def _told(ratio: float) -> str:
    return "-" if isnan(ratio) else f"{ratio:.3f}"


def _memories(row: TextRow | None) -> str:
    return "-" if row is None else f"{float(row['scratchpad_kb']):.4g}/{float(row['accumulator_kb']):.4g}"


def _array(row: TextRow | None) -> str:
    return "-" if row is None else f"{row['rows']}x{row['cols']}"
