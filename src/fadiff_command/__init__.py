"""What the command `fadiff` runs first: it listens to signals before it loads anything large."""

import os
import sys
from pathlib import Path

from fadiff_command.signals import leave, listen


def main() -> None:
    """Load the command line, and run it."""
    listen()
    for closed in [name for name in ("stdout", "stderr") if getattr(sys, name) is None]:
        # Who closes a stream (`>&-`) wants to read nothing.
        setattr(sys, closed, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  (it stays open)
    from fadiff.cli import main as run

    try:
        run()
    except SystemExit as end:
        leave(end.code if isinstance(end.code, int) else 0)
