"""Figure 3: trends of latency and energy under two- and three-layer fusion, the model's against DeFiNES'.

Every row of DeFiNES' table becomes a schedule of ours with the same groups and trip counts, on the same machine, and
with the mappings that the exact search finds best for the row's criterion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from fadiff.cost.evaluate import evaluate
from fadiff.reproduce.defines.given_groups import best_schedules
from fadiff.reproduce.defines.stacks.describe import Reason, describe
from fadiff.reproduce.defines.stacks.figure import draw_trends
from fadiff.reproduce.defines.stacks.page import tell
from fadiff.reproduce.defines.stacks.reference import MACHINE, Reference, Row, Stack, read_reference
from fadiff.reproduce.defines.stacks.trends import (
    QUANTITIES,
    SELECTIONS,
    Cost,
    Point,
    agreement,
    find_trends,
    scopes,
)
from fadiff.search.programs import search_programs

if TYPE_CHECKING:
    from fadiff.reproduce.experiment import Desk
    from fadiff.schedule import Schedule

CsvRow = dict[str, str | int | float | None]
QUICK_STACKS = 2
"""Stacks of each number of layers in a quick run, those of the fewest MACs."""
OVERLAPPED = replace(MACHINE, overlap="full")
"""The machine with the paper's roofline: all transfers hide behind work."""


def reproduce(desk: Desk) -> str:
    """Price every row, write rows and correlations, draw the figure, and tell what agrees and what does not."""
    reference = read_reference()
    if desk.quick:
        reference = smallest(reference, QUICK_STACKS)
    with search_programs():
        points = price(desk, reference)
    desk.write_rows(csv_rows(points))
    desk.write_rows(agreement_rows(points), "agreement")
    drawn = find_trends(point for point in points if point.row.criterion == "edp")
    return tell(desk, points, draw_trends(desk, drawn))


def smallest(reference: Reference, count: int) -> Reference:
    """Of the stacks of each number of layers the few with the fewest MACs, and their rows."""
    stacks = reference.stacks
    chosen: set[str] = set()
    for depth in {len(stack.layers) for stack in stacks.values()}:
        alike = [name for name, stack in stacks.items() if len(stack.layers) == depth]
        chosen.update(sorted(alike, key=lambda name: stacks[name].macs)[:count])
    return Reference(
        {name: stack for name, stack in stacks.items() if name in chosen},
        [row for row in reference.rows if row.stack in chosen],
    )


def price(desk: Desk, reference: Reference) -> list[Point]:
    """Every row with its cost, or the reason why it has none."""
    points: list[Point] = []
    for done, (name, stack) in enumerate(reference.stacks.items()):
        desk.tell(done, len(reference.stacks), name)
        mine = [row for row in reference.rows if row.stack == name]
        for criterion in dict.fromkeys(row.criterion for row in mine):
            points += price_rows(stack, [row for row in mine if row.criterion == criterion])
    desk.tell(len(reference.stacks), len(reference.stacks), "drawing")
    return points


def price_rows(stack: Stack, rows: Sequence[Row]) -> Iterator[Point]:
    """Rows of one stack and one criterion, priced."""
    workload = stack.workload(rows[0].stack)
    described = [describe(row, stack, workload) for row in rows]
    wanted = [groups for groups in described if not isinstance(groups, Reason)]
    schedules = iter(best_schedules(workload, MACHINE, wanted, rows[0].criterion))
    for row, groups in zip(rows, described, strict=True):
        if isinstance(groups, Reason):
            yield Point(row, groups, None)
        elif (schedule := next(schedules)) is None:
            yield Point(row, Reason.NO_FIT, None)
        else:
            yield Point(row, None, _cost(schedule))


def _cost(schedule: Schedule) -> Cost:
    exposed = evaluate(schedule)
    return Cost(
        cycles=exposed.cycles,
        overlapped_cycles=evaluate(replace(schedule, machine=OVERLAPPED)).cycles,
        energy_pj=exposed.energy_pj,
        dram_words=exposed.memory_words(0),
        fused=bool(schedule.fused_edges),
    )


def csv_rows(points: Sequence[Point]) -> list[CsvRow]:
    """Every row of the table: what it is, both prices, both Z-scores; or why there are none."""
    scores: dict[int, list[float]] = {}
    for trend in find_trends(points):
        columns = [side for quantity in QUANTITIES for side in trend.z_scores(quantity)]
        for i, point in enumerate(trend.points):
            scores[id(point)] = [round(float(column[i]), 5) for column in columns]
    return [_csv_row(point, scores.get(id(point), [])) for point in points]


def _csv_row(point: Point, scores: Sequence[float]) -> CsvRow:
    row, cost = point.row, point.cost
    z, z_defines, z_overlapped, _, z_energy, z_energy_defines = scores or [None] * 6
    return {
        "stack": row.stack,
        "layers": row.n_layers,
        "schedule": row.schedule,
        "tile_ox": row.tile_ox,
        "tile_oy": row.tile_oy,
        "overlap_mode": row.overlap_mode,
        "hw": row.hw,
        "criterion": row.criterion,
        "status": "priced" if point.reason is None else point.reason.value,
        "cycles": cost and cost.cycles,
        "cycles_full_overlap": cost and cost.overlapped_cycles,
        "energy_pj": cost and round(cost.energy_pj, 1),
        "dram_words": cost and cost.dram_words,
        "cycles_defines": row.latency_cycles,
        "energy_pj_defines": row.energy_pj,
        "dram_words_defines": row.dram_words,
        "z_cycles": z,
        "z_cycles_full_overlap": z_overlapped,
        "z_cycles_defines": z_defines,
        "z_energy": z_energy,
        "z_energy_defines": z_energy_defines,
    }


def agreement_rows(points: Sequence[Point]) -> list[CsvRow]:
    """Correlations of every kind: by criterion, rows selected, number of layers or stack, and quantity."""
    rows: list[CsvRow] = []
    for selection in SELECTIONS:
        trends = find_trends(points, selection)
        for criterion in dict.fromkeys(trend.points[0].row.criterion for trend in trends):
            alike = [trend for trend in trends if trend.points[0].row.criterion == criterion]
            for (scope, some), quantity in product(scopes(alike).items(), QUANTITIES):
                found = agreement(some, quantity)._asdict().items()
                numbers = {name: value if isinstance(value, int) else round(value, 4) for name, value in found}
                kind = {"criterion": criterion, "selection": selection, "scope": scope, "quantity": quantity.name}
                rows.append(kind | numbers)
    return rows
