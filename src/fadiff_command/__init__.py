"""What the command `fadiff` runs first: it listens to signals before it loads anything large."""

from fadiff_command.signals import leave, listen


def main() -> None:
    """Load the command line, and run it."""
    listen()
    from fadiff.cli import main as run

    try:
        run()
    except SystemExit as end:
        leave(end.code if isinstance(end.code, int) else 0)
