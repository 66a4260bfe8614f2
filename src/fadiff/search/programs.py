"""How the programs of a search are compiled: in 32 bits, kept on disk, and only where there is time for it.

A second run, also of another network of similar size, then starts at once, and a process that has set JAX to 64 bits
finds the same schedules.
"""

import os
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any, cast

import jax
import jaxlib.version

from fadiff.search import clock
from fadiff.search.driver import OutOfTimeError, Status

VARIABLE = "FADIFF_CACHE_DIR"
"""Environment variable that names another folder for compiled programs; empty: keep none."""
LOWERING_SECONDS = 0.02
"""Lowering a program, the first step of compiling it, takes so long at least for each node of a machine."""
COMPILING = 16
"""Compiling it then takes about so many times what lowering it took."""

_compiled: set[object] = set()
"""Programs of this process, with the shapes that they are compiled for."""


@contextmanager
def search_programs() -> Generator[None]:
    """Within it the programs of a search can be run.

    They are kept in the user's cache folder, unless the user already chose one for JAX, or nothing can be kept there.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen != "" and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = Path(chosen) if chosen else base / "fadiff"
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            jax.config.update("jax_compilation_cache_dir", str(folder))
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
        # A full disk costs time, and nothing else.
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache", UserWarning)
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


def compile_in_time(what: str, deadline: float, nodes: int, program: Any, *args: Any, **static: Any) -> None:  # noqa: ANN401
    """Compile a jitted function for arguments like these, unless it is; a call of it then runs at once.

    Where that would not end before the deadline, it raises :class:`OutOfTimeError`; `what` is what is left out then,
    and `nodes` is the number of nodes of the machine that the program is for.
    """
    key, began = _key(program, args, static), clock.monotonic()
    if key in _compiled:
        return
    _check(what, deadline - began, LOWERING_SECONDS * nodes, LOWERING_SECONDS * nodes * (1 + COMPILING))
    lowered = program.lower(*args, **static)
    marker = _marker(lowered)
    left, needed = deadline - clock.monotonic(), COMPILING * (clock.monotonic() - began)
    if marker is None or not marker.exists():
        _check(what, left, needed, needed)
    if not _ends_in_time(lowered.compile, left):
        raise OutOfTimeError(f"{what} was left out: it was not compiled within the {left:.0f} s that were left")
    _compiled.add(key)
    if marker is not None:
        with suppress(OSError):  # without it, the next process expects to compile the program again
            marker.touch()


def _key(program: object, args: tuple[object, ...], static: dict[str, object]) -> object:
    """What a program is compiled for: numbers may change from call to call; what is neither a number nor an array
    shapes the program."""
    leaves, tree = cast("tuple[list[Any], object]", jax.tree.flatten((args, static)))
    shapes = (type(x) if isinstance(x, float) else (x.shape, x.dtype) if hasattr(x, "shape") else x for x in leaves)
    return (program, tree, *shapes)


def _check(what: str, left: float, needed: float, told: float) -> None:
    if left < needed:
        raise OutOfTimeError(
            f"{what} was left out: {max(0.0, left):.0f} s were left, and compiling it takes about {told:.0f} s"
        )


def _marker(lowered: Any) -> Path | None:  # noqa: ANN401
    """A file that is there if the compiled program is in the cache; None where there is no cache."""
    folder: str | None = cast("Any", jax.config).jax_compilation_cache_dir
    if folder is None or not Path(folder).is_dir():
        return None
    made_by = f"{jax.__version__} {jaxlib.version.__version__} {jax.default_backend()}"
    return Path(folder) / f"fadiff-{sha256((made_by + lowered.as_text()).encode()).hexdigest()}"


def _ends_in_time(work: Callable[[], object], seconds: float) -> bool:
    """Whether some work ends in time; what does not goes on in the background, and Python waits for it at its exit.

    A thread does it, because nothing stops a compiler: so an interrupt is heard at once, and the time is kept.
    """
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
        done.set()

    threading.Thread(target=run, name="compiler").start()
    ended = done.wait(None if seconds == inf else max(0.0, seconds))
    if errors:
        raise errors[0]
    return ended
