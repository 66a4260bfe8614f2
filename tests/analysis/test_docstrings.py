"""Examples in docstrings of the analyses."""

import doctest

from fadiff.analysis import units


def test_examples_in_docstrings_run():
    failed, tried = doctest.testmod(units)
    assert tried > 0
    assert failed == 0
