"""Functions on numbers and arrays that are compiled when they are first called, once per machine.

A proof asks for thousands of walks through small lattices (:mod:`fadiff.search.solver.walk`), and NumPy takes longer to
be called than to add up a thousand numbers: compiled, a walk takes a tenth of the time. What was compiled is kept
beside the package, or in the user's cache where that cannot be written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

Given = ParamSpec("Given")
Found = TypeVar("Found")


def compiled(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """The same function in machine code; a division by zero is infinite, as in NumPy."""
    return njit(function, cache=True, error_model="numpy", nogil=True)
