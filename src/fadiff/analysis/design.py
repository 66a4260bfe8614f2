"""What co-design found, as plain numbers and sentences: the machine, what binds it, and what more of it would buy."""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, Any

from fadiff.analysis.breakdown import breakdown
from fadiff.analysis.units import size_text
from fadiff.hardware import area_by_node_mm2, machine_to_json

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.hardware import FreeNumber, Space
    from fadiff.search.codesign import Design
    from fadiff.search.codesign.prices import Price
    from fadiff.search.codesign.question import Aim
    from fadiff.search.codesign.rows import Row

TOLD: dict[Aim, str] = {"edp": "EDP", "energy": "energy", "latency": "latency", "edp-area": "EDP x area"}


HAIR = 1e-9
"""By how much a machine must be better, relatively, to be on a front."""


def design_values(design: Design) -> dict[str, Any]:
    """All of it as JSON values."""
    question, machine = design.question, design.machine
    return {
        "objective": question.aim,
        "seconds": design.seconds,
        "machines_scored": len(design.rows),
        "left_out": design.left_out,
        "numbers": named_values(question.space, design.best),
        "area_mm2": area_by_node_mm2(machine),
        "hardware": machine_to_json(machine),
        "costs": design.best.costs,
        "binding": {one.schedule.workload.name: binding(one) for one in design.evaluations},
        "prices": [
            {**price._asdict(), "sentence": price_sentence(question.space, price, question.aim)}
            for price in design.prices
        ],
        "front": [front_row(design, row) for row in design.front],
        "energy_latency": [front_row(design, row) for row in energy_latency(design)],
    }


def energy_latency(design: Design) -> list[Row]:
    """Machines within the area that no other of them beats in both energy and latency, the fastest first."""
    limit = design.question.area_mm2 * (1 + 1e-9)
    rows = [row for row in design.rows if not row.problem and row.area_mm2 <= limit]
    found: list[Row] = []
    for row in sorted(rows, key=lambda row: (mean_cost(design, row, "cycles"), mean_cost(design, row, "energy_pj"))):
        if not found or mean_cost(design, row, "energy_pj") < mean_cost(design, found[-1], "energy_pj") * (1 - HAIR):
            found.append(row)
    return found


def mean_cost(design: Design, row: Row, cost: str) -> float:
    """The weighted geometric mean of one cost of a machine, such as `cycles`, over networks."""
    return exp(sum(s * log(row.costs[n][cost]) for n, s in zip(row.costs, design.question.shares, strict=True)))


def named_values(space: Space, row: Row) -> dict[str, float]:
    """The free numbers of a machine by name."""
    return {number.name: value for number, value in zip(space.numbers, row.values, strict=True)}


def front_row(design: Design, row: Row) -> dict[str, Any]:
    """A machine of the front in one line."""
    costs = {f"{name}.{key}": value for name, cost in row.costs.items() for key, value in cost.items()}
    ratio = exp(row.score - design.best.score)
    told = {"machine": row.number, "area_mm2": row.area_mm2, "to_best": ratio, "origin": row.origin}
    return {**told, **named_values(design.question.space, row), **costs}


def binding(evaluation: Evaluation) -> dict[str, dict[str, float]]:
    """What a network waits for on its machine, and how full its memories get.

    `time`: the share of the cycles that compute, each memory and the vector unit set. `full`: the peak of each memory,
    as a share of what may be filled. `energy`: the share of each part.
    """
    costs = breakdown(evaluation)
    time = dict.fromkeys(evaluation.term_names, 0.0)
    for layer in costs.layers:
        time[layer.bound_by] += layer.cycles * layer.repeat / (costs.totals.cycles or 1)
    peaks = {
        memory: max(group.peak_bytes[memory] for group in costs.groups) / room
        for memory, room in costs.capacity_bytes.items()
    }
    parts = {part: pj / (costs.totals.energy_pj or 1) for part, pj in costs.energy_by_part_pj().items()}
    return {"time": time, "full": peaks, "energy": parts}


UNSEEN = 5e-5
"""Shares that two digits of a per cent do not show."""


def price_sentence(space: Space, price: Price, aim: Aim) -> str:
    """What a step of one number buys, or saves."""
    number = next(one for one in space.numbers if one.name == price.number)
    amount = amount_text(number, abs(price.after - price.before))
    gain, area = 1 - exp(price.score_change), price.area_change
    more = price.after > price.before
    step = f"{amount} {'more' if more else 'less'} {price.number}"
    does = f"{'buys' if gain >= 0 else 'costs'} {abs(gain):.2%} {TOLD[aim]}"
    if abs(gain) < UNSEEN and area < 0:
        return f"{step} costs no {TOLD[aim]} and saves {abs(area):.2%} area"
    if abs(gain) < UNSEEN:
        return f"{step} buys no {TOLD[aim]} for {area:.2%} area"
    searched = f", after a search of {price.effort_seconds:.2g} s" if gain < 0 and price.effort_seconds >= 0.5 else ""
    return f"{step} {does} {'for' if area >= 0 else 'and saves'} {abs(area):.2%} area{searched}"


def amount_text(number: FreeNumber, amount: float) -> str:
    """An amount of a free number with its unit."""
    if number.unit == "bytes":
        return size_text(amount)
    return f"{amount:,.6g} {number.unit}".rstrip()
