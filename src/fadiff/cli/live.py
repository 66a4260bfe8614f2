"""What a search shows while it runs: one line of numbers and a bar of the time that is left."""

from types import TracebackType

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from fadiff.cli.tables import console, cut, percent
from fadiff.search.driver import Incumbent, Status
from fadiff.search.solver import compiled
from fadiff.search.solver.network_bound import Bound


class _TimeLeft(ProgressColumn):
    """What is left of the budget, by the clock: steps differ too much in length to tell it from them."""

    def render(self, task: Task) -> Text:
        """Seconds left, at least 0."""
        return Text(f"{max(0.0, (task.total or 0) - (task.elapsed or 0)):3.0f} s left")


class LiveDisplay:
    """A progress display on stderr; nothing where there is no terminal."""

    def __init__(self, model: str, hardware: str, budget_seconds: float, *, shown: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            _TimeLeft(),
            TextColumn("{task.fields[numbers]}"),
            console=console(err=True),
            transient=True,
            disable=not shown,
        )
        self._budget = budget_seconds
        self._task = self._progress.add_task(
            cut(f"{model} on {hardware}", 40), total=budget_seconds, numbers="starting"
        )

    def __enter__(self) -> "LiveDisplay":
        self._progress.start()
        if not self._progress.disable and not compiled.known():
            self._progress.console.print("The first proof of an installation takes some 15 s longer: it is compiled.")
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
        self._tell(seconds, ", ".join(numbers))

    def proved(self, bound: Bound, gap: float, began: float = 0.0) -> None:
        """Show what is proven, by a proof that began after so many seconds."""
        self._tell(began + bound.seconds, f"prove, no EDP below {bound.least.edp_uj_cycles:.4g}, gap {percent(gap)}")

    def _tell(self, seconds: float, numbers: str) -> None:
        self._progress.update(self._task, completed=min(seconds, self._budget), numbers=numbers)
