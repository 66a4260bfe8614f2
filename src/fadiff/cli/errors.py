"""What a user sees when something is wrong: sentences on stderr and an exit code, never a traceback."""

import errno
import os
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from fadiff.cli.tables import cut
from fadiff.errors import FadiffError
from fadiff.files import check_folder_of
from fadiff.schedule.rules import IllegalScheduleError
from fadiff_command.signals import TERMINATED, exit_code, interruption, terminated

BAD_INPUT = 2
PATH_LENGTH = 300
"""Signs of a word in a sentence that are printed: paths are longer than names."""


def check_outputs(written: Iterable[Path | None], read: Sequence[Path | str | None] = ()) -> None:
    """Find out before the work, which may be long, that results could not be written, or would destroy something.

    Results must not replace each other, nor what they are made of. None stands for a file that was not asked for.
    """
    outputs = [path for path in written if path is not None]
    for path in outputs:
        if path.is_dir():
            raise FadiffError(f"{path}: this is a folder: name a file in it")
        check_folder_of(path)
        if any(_same_file(path, Path(one)) for one in read if one is not None and Path(one).is_file()):
            raise FadiffError(f"{path}: this would replace a file that is read: choose another place")
    for one, other in combinations(outputs, 2):
        if _same_file(one, other):
            raise FadiffError(f"{other}: two results would be written to this file: choose a place for each")


def _same_file(one: Path, other: Path) -> bool:
    """Whether writing to one loses what the other holds; what is written to a device is not kept anyway."""
    if one.exists() and other.exists():
        return one.is_file() and one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)  # `resolve` breaks off where links run in a circle


class SentencesOnErrors(TyperGroup):
    """A group of commands whose errors are sentences."""

    def make_context(self, *args: Any, **rest: Any) -> Any:  # noqa: ANN401  (as the class above has it)
        """Read the command line."""
        with _told_in_sentences():
            return super().make_context(*args, **rest)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  (as the class above has it)
        """Run a command."""
        with _told_in_sentences():
            result = super().invoke(ctx)
            sys.stdout.flush()  # what cannot be written shall be found out here, not when the interpreter ends
        if terminated():
            raise typer.Exit(TERMINATED)  # what was found is saved, but whoever waits for it shall know
        return result


@contextmanager
def _told_in_sentences() -> Generator[None]:
    """Within it an error ends the command with its sentences, a signal with a word, or with what an interrupt says."""
    try:
        yield
    except KeyboardInterrupt as stop:
        typer.echo(": ".join([interruption(), *map(str, stop.args)]), err=True)
        raise typer.Exit(exit_code()) from None
    except FadiffError as error:
        for sentence in _sentences(error):
            typer.echo(f"error: {cut(sentence, PATH_LENGTH)}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except MemoryError:
        typer.echo("error: there is not enough memory for this: make the network smaller", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # the reader has seen enough (`| head`): Typer ends quietly
        place, todo = str(error.filename or "output"), "check its name, its permissions, and the room on its disk"
        typer.echo(f"error: {cut(place, PATH_LENGTH)}: {error.strerror}: {todo}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def _sentences(error: FadiffError) -> list[str]:
    return error.sentences if isinstance(error, IllegalScheduleError) else [str(error)]
