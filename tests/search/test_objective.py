"""Objectives: what they are called, what they cost, how they slope, and what bounds them."""

from dataclasses import replace
from itertools import pairwise
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fadiff import FadiffError, evaluate, greedy, optimize
from fadiff.search.objective import ED2P, EDP, ENERGY, LATENCY, OBJECTIVES, Charge, Objective
from fadiff.search.solver.network_bound import prove
from fadiff.search.solver.region import Line, corners
from search.exhaustive import least_edp
from search.networks import FLAT, GEMMINI, mac, network, sized

PAIR = network(mac("up", "N4 K8 C2"), mac("down", "N4 K2 C8", "up"))
CONVOLUTIONS = network(mac("a", "K2 C2 P4 Q2 R3"), mac("b", "K2 C2 P4 Q2 R3", "a"))
FOREVER = 1e6
"""Seconds of a proof that ends by the number of its walks."""
CHIP = sized(FLAT, lanes=2, buffer=40, spad=8)
NUMBERS = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.25, 1e-3])
PRICES = st.sampled_from([0.0, 1.0, 1e-7, 123456.789])


def objectives():
    """Objectives of all kinds."""
    exponents = st.tuples(NUMBERS, NUMBERS).filter(any)
    return st.tuples(exponents, PRICES).map(lambda one: Objective(*one[0], one[1] if one[0][0] else 0.0))


@pytest.fixture(scope="module")
def priced():
    return evaluate(greedy(PAIR, CHIP))


@given(objectives())
def test_a_name_can_be_read_again(objective):
    assert Objective.of(objective.name) == objective
    assert Objective.of(objective) is objective


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("EDP", EDP),
        ("energy*latency", EDP),
        ("energy ** 1 * latency ** 2", ED2P),
        ("latency^2 * energy", ED2P),
        ("3*latency", LATENCY),
        ("2*energy", ENERGY),
        ("2*energy + 0.5*latency", Objective(1, 0, 0.25)),
        ("0.5*latency+2*energy", Objective(1, 0, 0.25)),
        ("energy + latency + latency", Objective(1, 0, 2)),
        ("2/uJ * energy + 4/Mcycle * latency", Objective(1, 0, 2)),
        ("energy + 3 pJ/cycle * latency", Objective(1, 0, 3)),
        ("energy + 1e+2*latency", Objective(1, 0, 100)),
        ("(energy + 3*latency) * latency", Objective(1, 1, 3)),
        ("(2*energy + 6*latency)^2 * latency^.5", Objective(2, 0.5, 3)),
        ("(2*latency)^2 * energy", ED2P),
    ],
)
def test_formulas_say_what_is_minimized(text, meant):
    assert Objective.of(text) == meant


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("speed", "use one of edp, energy, latency, ed2p, or a formula"),
        ("", "is unknown"),
        ("energy - latency", "is unknown"),
        ("2 apples * energy", "is unknown"),
        ("1/uJ * latency", "is unknown"),
        ("(energy + (latency))", "is unknown"),
        ("energy^-1", "is unknown"),
        ("energy * (energy + latency)", "two kinds of energy"),
        ("energy^0", "exponents are from 0 to 100, and one is above 0"),
        ("0*energy", "an objective whose prices are all 0 prefers nothing: give energy or latency a price above 0"),
        ("0*energy + 0*latency", "an objective whose prices are all 0 prefers nothing"),
        ("energy^101", "exponents are from 0 to 100, and one is above 0"),
        ("energy + 1e400*latency", "a cycle costs nothing, or from 1e-12 to 1e+12 pJ"),
    ],
)
def test_what_is_no_objective_is_told(text, told):
    with pytest.raises(FadiffError) as error:
        Objective.of(text)
    assert told in str(error.value)


@pytest.mark.parametrize("numbers", [(0, 0), (-1, 1), (1, inf), (1, 1, -2), (0, 1, 2)])
def test_objectives_rise_with_energy_and_latency(numbers):
    with pytest.raises(FadiffError):
        Objective(*numbers)


@settings(max_examples=50)
@given(objectives())
def test_prices_are_the_slope_of_the_score(priced, objective):
    step = 1e-6
    for price, key in zip(objective.weights(priced), ("energy_pj", "cycles"), strict=True):
        there = replace(priced, **{key: getattr(priced, key) * (1 + step)})
        slope = (objective.score(there) - objective.score(priced)) / (getattr(priced, key) * step)
        assert slope == pytest.approx(price, rel=1e-3, abs=1e-7 / getattr(priced, key))


LINES = st.lists(
    st.tuples(st.floats(0.01, 10), st.floats(0.01, 10), st.floats(1, 100)).map(lambda one: Line(one[:2], one[2])),
    min_size=0,
    max_size=5,
)


@given(objectives(), LINES, st.floats(1, 50), st.floats(1, 50), st.randoms(use_true_random=False))
def test_above_lines_nothing_is_below_the_lowest_corner(objective, lines, least_energy, least_time, random):
    """Against points drawn from the border of the region, and above it."""
    region = [*lines, Line((1.0, 0.0), least_energy), Line((0.0, 1.0), least_time)]
    points = [corner.point for corner in corners(region)]
    least = objective.lowest(points)
    ends = [(points[0][0] * 100, points[0][1]), *points[::-1], (points[-1][0], points[-1][1] * 100)]
    for (e1, t1), (e2, t2) in pairwise(sorted(ends)):
        for _ in range(5):
            part, more = random.random(), 1 + random.random()
            drawn = (e1 + part * (e2 - e1)), (t1 + part * (t2 - t1))
            # The border turns inwards nowhere: a point between two corners is on it or inside.
            assert objective.ratio(drawn, least) >= 1 - 1e-9
            assert objective.ratio((drawn[0] * more, drawn[1]), least) >= 1 - 1e-9


def test_weighted_sums_are_found_and_bounded():
    """A price of time between energy and latency; the bound holds for what all objectives find."""
    found = {text: optimize(PAIR, CHIP, objective=text).best for text in ("energy", "energy + 5*latency")}
    mixed = Objective.of("energy + 5*latency")
    assert mixed.score(found["energy + 5*latency"]) <= min(mixed.score(one) for one in found.values()) + 1e-9
    proven = prove(found["energy + 5*latency"], FOREVER, mixed, gap=0.3)
    assert 0 <= proven.gap(found["energy + 5*latency"], mixed) < 0.3
    for one in found.values():
        assert one.energy_pj + 5 * one.cycles >= min(e + 5 * t for e, t in proven.corners) * (1 - 1e-9)


def test_bounds_of_powers_hold(priced):
    proven = prove(priced, FOREVER, "ed2p", gap=0.3)
    best = optimize(PAIR, CHIP, objective="ed2p").best
    assert proven.gap(best, "ed2p") >= 0
    assert proven.gap(best) == pytest.approx(best.edp_uj_cycles / proven.least.edp_uj_cycles - 1)
    assert proven.least.edp_uj_cycles <= least_edp(PAIR, CHIP)


WEIGHTS = Charge("weights", lambda costs, xp: 1e3 * xp.maximum(costs.words[2] - 4, 0))
"""Words of weights that the buffer reads, beyond four."""


def test_charges_count_as_energy(priced):
    objective = replace(ENERGY, charges=(WEIGHTS,))
    extra = 1e3 * float(np.maximum(priced.words[2] - 4, 0) @ priced.repeat)
    assert extra > 0
    assert objective.point(priced) == pytest.approx((priced.energy_pj + extra, priced.cycles))
    assert exp(objective.score(priced)) == pytest.approx((priced.energy_pj + extra) * priced.cycles**1e-4)
    assert objective.name == "energy + weights"


def test_charges_steer_the_search_and_keep_the_bound():
    objective = replace(ENERGY, charges=(WEIGHTS,))
    plain, charged = (optimize(CONVOLUTIONS, CHIP, objective=one).best for one in (ENERGY, objective))
    assert objective.point(charged)[0] < 0.9 * objective.point(plain)[0]
    proven = prove(charged, FOREVER, objective, gap=0.5)
    assert proven.gap(charged, objective) >= proven.gap(charged, ENERGY) > -1e-9


def test_a_charge_below_what_it_is_told_to_be_is_refused(priced):
    odd = Charge("rebate", lambda costs, _: -costs.energy_pj)
    with pytest.raises(FadiffError, match="give it the least_pj that holds"):
        replace(EDP, charges=(odd,)).score(priced)
    rebate = replace(odd, least_pj=-2 * priced.energy_pj, pj=lambda costs, _: -costs.energy_pj / 2)
    assert replace(EDP, charges=(rebate,)).point(priced)[0] == pytest.approx(priced.energy_pj / 2)


def test_methods_that_know_no_charges_say_so():
    with pytest.raises(FadiffError, match="'layerwise' knows no charges"):
        optimize(PAIR, GEMMINI, method="layerwise", objective=replace(EDP, charges=(WEIGHTS,)))


def test_named_objectives_are_what_they_say(priced):
    energy, cycles = priced.energy_pj, priced.cycles
    values = {name: log(one.ratio((energy, cycles), (1.0, 1.0))) for name, one in OBJECTIVES.items()}
    expected = {"edp": log(energy * cycles), "energy": log(energy), "latency": log(cycles)}
    assert values == pytest.approx({**expected, "ed2p": log(energy * cycles**2)})
