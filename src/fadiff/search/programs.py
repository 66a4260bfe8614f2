"""How the programs of a search are compiled: in 32 bits, and kept on disk.

A second run, also of another network of similar size, then starts at once, and a process that has set JAX to 64 bits
finds the same schedules.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import jax

from fadiff.search.driver import Status

VARIABLE = "FADIFF_CACHE_DIR"
"""Environment variable that names another folder for compiled programs; empty: keep none."""


@contextmanager
def search_programs() -> Generator[None]:
    """Within it the programs of a search can be run.

    They are kept in the user's cache folder, unless the user already chose one for JAX.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen != "" and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(Path(chosen) if chosen else base / "fadiff"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    with jax.enable_x64(False):
        yield


def stepwise(steps: Iterator[Status]) -> Iterator[Status]:
    """The same steps, each taken within `search_programs`; between two of them the user's own settings hold."""
    while True:
        with search_programs():
            try:
                step = next(steps)
            except StopIteration:
                return
        yield step
