"""How signals end a command: what was found until then is saved, and a word and the exit code say what came.

Ctrl-C (SIGINT) and SIGTERM, which batch systems send some time before they kill, both raise a `KeyboardInterrupt`.
Python loses it in some places, where it has to wait, and in the middle of an import it comes out as any kind of error;
there is nothing to save yet where libraries are loaded, and the command ends at once.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
AGAIN_SECONDS = 0.05
"""Where a signal cannot be heard, it is tried again so much later."""

_came: list[int] = []
"""Signals so far."""


def terminated() -> bool:
    """Whether SIGTERM came."""
    return signal.SIGTERM in _came


def interruption() -> str:
    """The word for what ended the work."""
    return "terminated" if terminated() else "interrupted"


def exit_code() -> int:
    """The exit code of a command that a signal ended."""
    return TERMINATED if terminated() else INTERRUPTED


def listen() -> None:
    """From now on signals are heard; those that the process was told to ignore, as in the background, are not."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _hear)


def _hear(number: int, frame: FrameType | None) -> None:
    if number != signal.SIGALRM:
        _came.append(number)
    frames = list(_callers(frame))
    lost = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    if any(one.f_code in lost or one.f_code.co_name == "__del__" for one in frames):
        signal.signal(signal.SIGALRM, _hear)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        return
    if any(one.f_code.co_filename.startswith("<frozen importlib") for one in frames):
        # Whoever loads a noisy library may have put something else in the place of sys.stderr.
        print(interruption(), file=sys.__stderr__ or sys.stderr, flush=True)
        leave(exit_code())
    raise KeyboardInterrupt


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def leave(code: int) -> None:
    """End the process. What a signal stopped may still run, as a compiler does, and is not waited for."""
    if _came or any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
