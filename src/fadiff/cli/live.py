"""What a search shows while it runs: one line of numbers and a bar of the time that is left."""

from types import TracebackType

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fadiff.cli.tables import console
from fadiff.search.driver import Incumbent, Status


class LiveDisplay:
    """A progress display on stderr; nothing where there is no terminal."""

    def __init__(self, model: str, hardware: str, budget_seconds: float, *, shown: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[numbers]}"),
            console=console(err=True),
            transient=True,
            disable=not shown,
        )
        self._budget = budget_seconds
        self._task = self._progress.add_task(f"{model} on {hardware}", total=budget_seconds, numbers="starting")

    def __enter__(self) -> "LiveDisplay":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def update(self, status: Status, incumbent: Incumbent, seconds: float) -> None:
        """Show where the search stands."""
        numbers = [status.phase + (f" {status.step}/{status.steps}" if status.steps else "")]
        if status.temperature is not None:
            numbers.append(f"tau {status.temperature:.2f}")
        if status.legal_share is not None:
            numbers.append(f"legal {status.legal_share:.0%}")
        if incumbent.best is not None:
            numbers.append(f"EDP {incumbent.best.edp_uj_cycles:.4g}")
            numbers.append(f"{len(incumbent.best.schedule.fused_edges)} edges fused")
        self._progress.update(self._task, completed=min(seconds, self._budget), numbers=", ".join(numbers))
