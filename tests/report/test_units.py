"""Examples in docstrings of the analyses."""

import doctest

import pytest

from fadiff.report import loop_nest, units


@pytest.mark.parametrize("module", [loop_nest, units], ids=lambda module: module.__name__)
def test_examples_in_docstrings_run(module):
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0
