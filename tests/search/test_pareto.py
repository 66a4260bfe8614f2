"""Fronts: of tiny networks all that prices can tell apart; of others legal, undominated, and above what is proven."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from fadiff import FadiffError, evaluate, greedy, optimize, pareto, violations
from fadiff.analysis.front import border, front_rows
from fadiff.report.front_svg import front_svg
from fadiff.search import pareto as module
from fadiff.search.objective import EDP, ENERGY, LATENCY
from fadiff.search.pareto import Front, Kept, spread, supported
from search.exact.test_method import CHIPS, NETWORKS
from search.exhaustive import whole_front

CASES = [("block", "flat"), ("block", "tight")]


@cache
def found(name, chip) -> Front:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PROVEN_GAP", 0.2)
        return pareto(NETWORKS[name], CHIPS[chip], budget_seconds=600)


def fake(cycles, energy):
    """A point of which nothing matters but where it is."""
    from dataclasses import replace

    return replace(evaluate(greedy(NETWORKS["block"], CHIPS["small"])), cycles=float(cycles), energy_pj=float(energy))


@pytest.mark.parametrize(("name", "chip"), CASES)
def test_the_supported_front_of_a_tiny_network_is_found(name, chip):
    """Every schedule that some price of a cycle makes the best of all."""
    every = sorted(map(tuple, whole_front(NETWORKS[name], CHIPS[chip]).tolist()), key=lambda one: one[1])
    mine = [(one.energy_pj, one.cycles) for one in found(name, chip).points]
    hull = [every[0]]
    for point in every[1:]:
        while len(hull) > 1 and _turns_out(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    for energy, cycles in hull:
        assert any(e == pytest.approx(energy, rel=1e-6) and t == pytest.approx(cycles, rel=1e-6) for e, t in mine)
    for energy, cycles in mine:
        assert not any(e < energy * (1 - 1e-6) and t < cycles * (1 - 1e-6) for e, t in every)


def _turns_out(a, b, c) -> bool:
    """Whether the middle one of three points is not below the line of the others."""
    return (b[0] - a[0]) * (c[1] - a[1]) >= (c[0] - a[0]) * (b[1] - a[1])


@pytest.mark.parametrize(("name", "chip"), CASES)
def test_points_are_legal_and_none_is_as_good_as_another(name, chip):
    front = found(name, chip)
    assert front.stopped == "done"
    for point in front.points:
        assert violations(point.schedule) == []
        assert evaluate(point.schedule).stated() == point.stated()
        assert point.schedule.made_by["method"] == "exact"
    for fast, frugal in pairwise(front.points):
        assert fast.cycles < frugal.cycles
        assert fast.energy_pj > frugal.energy_pj


def test_ends_and_the_best_edp_are_those_of_searches_of_their_own():
    name, chip = CASES[0]
    front = found(name, chip)
    alone = {
        one: optimize(NETWORKS[name], CHIPS[chip], objective=one, budget_seconds=600).best for one in (EDP, ENERGY)
    }
    assert front.best().edp_uj_cycles <= alone[EDP].edp_uj_cycles
    assert front.points[-1].energy_pj == pytest.approx(alone[ENERGY].energy_pj, rel=1e-6)
    assert front.best(ENERGY) is front.points[-1]
    assert front.best("latency") is front.points[0]


@pytest.mark.parametrize(("name", "chip"), CASES)
def test_no_schedule_is_below_the_proven_line(name, chip):
    """None of the front, and none of all."""
    front = found(name, chip)
    for energy, cycles in whole_front(NETWORKS[name], CHIPS[chip]).tolist():
        assert front.gap(fake(cycles, energy)) >= -1e-9
    for point in front.points:
        assert front.gap(point) >= -1e-9
        assert front.gap(fake(point.cycles * 2, point.energy_pj * 2)) == pytest.approx(1 + 2 * front.gap(point))
    line = border(front)
    assert all(a[0] <= b[0] and a[1] >= b[1] for a, b in pairwise(line))
    assert line[-1][0] <= max(front.points[-1].cycles, line[0][0])


def test_prices_say_where_a_point_is_the_cheapest():
    points = (fake(10, 100), fake(20, 60), fake(30, 54), fake(40, 44), fake(60, 40))
    front = Front(points, None, 0.0, "done")
    assert [one.cycles for one in supported(points)] == [10, 20, 40, 60]
    for pj_per_cycle in np.geomspace(0.01, 100, 41):
        cost = [one.energy_pj + pj_per_cycle * one.cycles for one in points]
        for one, mine in zip(points, cost, strict=True):
            low, high = front.prices(one) or (1, 0)
            assert (mine <= min(cost) * (1 + 1e-12)) == (low * (1 - 1e-12) <= pj_per_cycle <= high * (1 + 1e-12))
    assert front.gap(points[0]) is None
    assert border(front) == []


def test_only_what_is_not_as_good_is_dropped():
    kept = Kept()
    for cycles, energy in ((20, 20), (10, 30), (20, 20), (30, 10), (25, 25), (10, 40), (15, 20), (10, 30)):
        kept.add(fake(cycles, energy))
    assert [(one.cycles, one.energy_pj) for one in kept.points] == [(10, 30), (15, 20), (30, 10)]
    assert kept.best(LATENCY).cycles == 10


def test_of_many_points_those_far_apart_are_chosen():
    points = [fake(10 + i, 1000 / (10 + i)) for i in range(40)]
    for most in (2, 3, 5, 50):
        chosen = spread(points, most)
        assert len(chosen) == min(most, 40)
        assert (chosen[0].cycles, chosen[-1].cycles) == (10, 49)
    gaps = [b.cycles / a.cycles for a, b in pairwise(spread(points, 5))]
    assert max(gaps) < 2.5


def test_a_picture_shows_every_point_and_the_line():
    front = found(*CASES[0])
    drawn = front_svg(front)
    assert drawn == front_svg(front)
    assert "no schedule is below the red line" in drawn
    assert drawn.count("<circle") == len(front.points) == len(front_rows(front))
    assert "no schedule is below this line" in drawn
    alone = front_svg(Front(front.points[:1], None, 0.0, "done"))
    assert alone.count("<circle") == 1
    assert "below" not in alone


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"points": 1}, "at least 2"),
        ({"budget_seconds": 0}, "must be positive"),
        ({"seed": -1}, "the seed is -1: it must be between"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, told):
    with pytest.raises(FadiffError, match=told):
        pareto(NETWORKS["block"], CHIPS["small"], **wrong)
