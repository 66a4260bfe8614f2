"""The one exception that users see: a sentence that says what is wrong, where, and what to do."""

import shlex
from importlib.metadata import requires


class FadiffError(Exception):
    """Bad input. The command line prints the message and exits with code 2; it never shows a traceback."""


def pip_install(*extras: str) -> str:
    """The command that installs what extras of FADiff bring, wherever FADiff itself came from.

    >>> pip_install("plots")
    "python -m pip install 'matplotlib>=3.9'"
    """
    marked = [one.partition(";") for one in requires("fadiff-scheduler") or ()]
    needed = [what.strip() for extra in extras for what, _, mark in marked if mark.strip() == f"extra == '{extra}'"]
    return f"python -m pip install {shlex.join(needed)}"
