"""The public interface."""

import doctest
import subprocess
import sys

import pytest

import fadiff
import fadiff.export
from fadiff.cli import tables
from fadiff.export import exported


def test_every_public_name_is_there_and_shown_in_the_docstring():
    for name in fadiff.__all__:
        assert getattr(fadiff, name) is not None
        if name != "__version__":
            assert name in (fadiff.__doc__ or "")


def test_dir_lists_the_public_names_before_any_is_used():
    fresh = "import fadiff; print(*dir(fadiff))"
    listed = subprocess.run([sys.executable, "-c", fresh], capture_output=True, text=True, check=True).stdout.split()
    assert set(fadiff.__all__) <= set(listed)
    assert all(name in fadiff.__all__ for name in listed if not name.startswith("__"))


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'optimise'"):
        _ = fadiff.optimise  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("module", [fadiff, tables, fadiff.export, exported], ids=lambda module: module.__name__)
def test_examples_in_docstrings_run(module: object):
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    failed, tried = doctest.testmod(module, optionflags=flags)  # pyright: ignore[reportArgumentType]
    assert tried > 0
    assert failed == 0
