"""Which machines are scored first."""

from fadiff.search.codesign import Question
from fadiff.search.codesign.descent import Candidate
from fadiff.search.codesign.shortlist import ARRAYS_WITHIN, arrays_first, distinct
from search.codesign.tiny import FREE, ONE

QUESTION = Question((ONE,), FREE, 0.3)


def test_the_first_machines_differ_and_some_are_smaller():
    large = [FREE.rounded([size, 32768, 16, 16]) for size in (8192, 8704, 16384, 32768)]
    small = [FREE.rounded([2048, 2048, cols, 4]) for cols in (4, 8)]
    assert distinct(QUESTION, [*large, *small], 2) == [large[0], large[2], small[0]]


def test_the_best_of_each_array_comes_first_unless_it_is_far_behind():
    square, wide, tall = (
        [FREE.rounded([size, 8192, *sides]) for size in (4096, 16384)] for sides in ((8, 8), (16, 4), (4, 16))
    )
    scores = [(square[0], 0.0), (square[1], 0.1), (wide[0], 0.2), (wide[1], 0.3), (tall[0], 1.1 * ARRAYS_WITHIN)]
    found = [Candidate(values, score) for values, score in scores]
    assert arrays_first(QUESTION, found) == [square[0], wide[0], square[1], wide[1], tall[0]]


def test_where_nothing_is_found_nothing_is_listed():
    assert arrays_first(QUESTION, []) == []
