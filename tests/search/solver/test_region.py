"""Regions above lines: their corners, against points on a grid."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff.search.solver.region import Line, apart, corners, raised, support, weighed, within

ENDS = (Line((1.0, 0.0), 1.0), Line((0.0, 1.0), 2.0))
PRICES = st.floats(0.05, 20.0)
LINES = st.lists(st.builds(lambda a, b, v: Line((a, b), v), PRICES, PRICES, st.floats(0.1, 50.0)), max_size=5)


def test_two_lines_meet_once():
    (corner,) = corners(ENDS)
    assert corner.point == (1.0, 2.0)
    assert (corner.left, corner.right) == (ENDS[1], ENDS[0])


def test_a_line_that_cuts_nothing_off_bounds_nothing():
    assert raised(ENDS, Line((1.0, 1.0), 2.9)) == (ENDS[1], ENDS[0])
    assert raised(ENDS, Line((1.0, 1.0), 3.1)) == (ENDS[1], Line((1.0, 1.0), 3.1), ENDS[0])


def test_of_two_lines_at_the_same_prices_the_higher_counts():
    assert raised(ENDS, Line((2.0, 0.0), 3.0)) == (ENDS[1], Line((2.0, 0.0), 3.0))
    assert raised(ENDS, Line((2.0, 0.0), 1.0)) == (ENDS[1], ENDS[0])


@given(LINES, PRICES, PRICES)
def test_corners_lie_above_all_lines_and_bound_what_points_above_them_cost(lines, a, b):
    every = (*ENDS, *lines)
    found = [corner.point for corner in corners(every)]
    for point in found:
        assert all(weighed(point, line.weights) >= line.value * (1 - 1e-6) for line in every)
    assert [e for e, _ in found] == sorted((e for e, _ in found), reverse=True)
    least = support(every, (a, b))
    for point in product([1, 2, 3, 5, 8, 13, 21, 34, 55, 500, 1100], repeat=2):
        if all(weighed(point, line.weights) >= line.value for line in every):
            assert weighed(point, (a, b)) >= least * (1 - 1e-9)
            assert point[0] * point[1] >= min(e * t for e, t in found) * (1 - 1e-9)


def test_prices_are_apart_by_the_logarithm_of_their_ratio():
    assert apart((1.0, 2.0), (2.0, 4.0)) == 0.0
    assert apart((1.0, 1.0), (2.0, 1.0)) == pytest.approx(0.693, abs=1e-3)
    assert apart((1.0, 0.0), (2.0, 0.0)) == 0.0
    assert apart((1.0, 0.0), (1.0, 1.0)) == float("inf")


def test_a_limit_cuts_the_border_of_a_region():
    border = [(10.0, 1.0), (4.0, 2.0), (2.0, 6.0)]
    inf = float("inf")
    assert within(border, (inf, inf)) == border
    assert within(border, (inf, 4.0)) == [*border[:2], (3.0, 4.0)]
    assert within(border, (7.0, 4.0)) == [(4.0, 2.0), (7.0, 1.5), (3.0, 4.0)]
    assert within(border, (inf, 0.5)) == []
    assert within(border, (3.0, 3.0)) == []
