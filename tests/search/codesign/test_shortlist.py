"""Which machines are scored first."""

from fadiff.search.codesign import Question
from fadiff.search.codesign.shortlist import distinct
from search.codesign.tiny import FREE, ONE

QUESTION = Question((ONE,), FREE, 0.3)


def test_the_first_machines_differ_and_some_are_smaller():
    large = [FREE.rounded([size, 32768, 16, 16]) for size in (8192, 8704, 16384, 32768)]
    small = [FREE.rounded([2048, 2048, cols, 4]) for cols in (4, 8)]
    assert distinct(QUESTION, [*large, *small], 2) == [large[0], large[2], small[0]]
