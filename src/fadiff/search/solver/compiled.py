"""Functions on numbers and arrays that are compiled when they are first called, once per installation, or all at once
by ``python -m fadiff.search.solver``.

A proof asks for thousands of walks through small lattices (:mod:`fadiff.search.solver.walk`), and NumPy takes longer to
be called than to add up a thousand numbers: compiled, a walk takes a tenth of the time. What was compiled is kept
beside the package as Python keeps its bytecode, or where that cannot be written, in the user's cache.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from numba import config, njit
from numba.core.caching import FunctionCache

if TYPE_CHECKING:
    from collections.abc import Callable

Given = ParamSpec("Given")
Found = TypeVar("Found")


def _folder() -> Path | None:
    """Where what is compiled of these very sources is kept: a function is compiled with those that it calls, also of
    other modules. None where nothing can be kept."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    name = f"compiled-{sha256(b''.join(source.read_bytes() for source in sources)).hexdigest()[:16]}"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for base in (Path(__file__).parent / "__pycache__", home / "fadiff"):
        with suppress(OSError):
            (base / name).mkdir(parents=True, exist_ok=True)
            if os.access(base / name, os.W_OK):
                return base / name
    return None


FOLDER = _folder()


def known() -> bool:
    """Whether it was compiled before."""
    return FOLDER is not None and any(FOLDER.rglob("*.nbc"))


class _Cache(FunctionCache):
    """A full disk costs time, and nothing else."""

    def save_overload(self, sig: object, data: object) -> None:
        """Keep what was compiled, if there is room for it."""
        with suppress(OSError):
            super().save_overload(sig, data)


def _made(function: Callable[Given, Found], **options: Any) -> Callable[Given, Found]:  # noqa: ANN401
    """The function in machine code; a division by zero is infinite, as in NumPy."""
    made: Any = njit(function, error_model="numpy", nogil=True, **options)
    settings: Any = config
    if FOLDER is not None and not settings.DISABLE_JIT:
        before = settings.CACHE_DIR
        try:
            settings.CACHE_DIR = str(FOLDER)
            made._cache = _Cache(function)
        finally:
            settings.CACHE_DIR = before
    return made


def compiled(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """The same function in machine code."""
    return _made(function)


def compiled_part(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """The same for compiled functions to call, and none else: it is compiled sooner."""
    return _made(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def compiled_leaf(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """The same of one that makes no array: then references to arrays are not counted, which would take longer than most
    of what is done with them."""
    return _made(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)
