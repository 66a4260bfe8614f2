"""What a sweep shows while it runs: how far it is, what is under way, and what was found last."""

import time
from collections import deque
from types import TracebackType

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fadiff.cli.tables import console, cut, table
from fadiff.sweeps.measure import Progress

LAST = 8
"""Cells that are shown after they are done."""


def time_text(seconds: float) -> str:
    """A time that is left, in two numbers at most.

    >>> time_text(42), time_text(130), time_text(7300)
    ('42 s', '2 min 10 s', '2 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, of_hour = divmod(minutes, 60)
    return f"{hours} h {of_hour} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


class SweepDisplay:
    """A live table on stderr; nothing where there is no terminal."""

    def __init__(self, *, shown: bool) -> None:
        self._live = Live(console=console(err=True), transient=True, auto_refresh=False) if shown else None
        self._began, self._at_first = time.monotonic(), -1
        self._last: deque[tuple[str, str, str]] = deque(maxlen=LAST)

    def __enter__(self) -> "SweepDisplay":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, progress: Progress) -> None:
        """Show where the sweep stands."""
        if self._at_first < 0:
            self._at_first = progress.done
        for row in progress.last:
            name = f"{row['network']} on {row['machine']}, {row['method']}, seed {row['seed']}"
            found = f"EDP {float(str(row['edp_uj_cycles'])):.4g}" if not row["error"] else "failed"
            self._last.append((name, found, f"{row['seconds']} s" if row["seconds"] else ""))
        if self._live is not None:
            self._live.update(Group(self._head(progress), self._cells(progress)), refresh=True)

    def left(self, progress: Progress) -> str:
        """The time that is left, if the cells that are left take as long as those that were done."""
        done = progress.done - self._at_first
        if not done:
            return "time left not known yet"
        each = (time.monotonic() - self._began) / done
        return f"about {time_text(each * (progress.total - progress.done))} left"

    def _head(self, progress: Progress) -> Table:
        head = Table.grid(padding=(0, 2))
        head.add_row(
            ProgressBar(progress.total, progress.done, width=24),
            Text(f"{progress.done} of {progress.total} cells"),
            Text(self.left(progress)),
        )
        return head

    def _cells(self, progress: Progress) -> Table:
        shown = table("", ("cell", "found", "time"))
        for done in self._last:
            shown.add_row(*done)
        for job in progress.running:
            shown.add_row(cut(str(job)), "under way", "")
        return shown
