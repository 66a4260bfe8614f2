"""What all experiments share: where their files go, and how their sections get into one page of results.

An experiment is a module with a function ``reproduce(desk: Desk) -> str`` that writes its rows and figures to the desk
and returns the Markdown that tells them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from fadiff.errors import FadiffError, pip_install
from fadiff.files import read_text, write_text
from fadiff.sweeps.rows import Row, TextRow, alone_in, read_rows, write_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPERIMENTS = {
    "table1": "table1",  # EDP of every method on five networks and two Gemminis, at equal budgets
    "fig3": "defines.stacks.fig3",  # trends of latency and energy under fusion, against DeFiNES
    "fig4": "fig4",  # best EDP against wall time
    "defines": "defines.machines.experiment",  # energy with and without fusion, against DeFiNES on its own machines
    "validation": "timeloop.validation",  # accuracy and rank agreement with Timeloop
    "bounds": "bounds",  # how far schedules are from the best there is
    "ablation": "ablation",  # what each part of the method buys
    "deep": "deep",  # the gradient against the exact search where spaces are largest
    "dosa": "dosa.experiment",  # co-design beside what DOSA published
    "codesign": "codesign.experiment",  # co-design against other searches, EDP over time
    "trial": "trial.experiment",  # networks as people bring them, on three kinds of machines
}
"""Experiments by name, and the module of ``fadiff.reproduce`` that holds each."""

ELSEWHERE = "choose another place with --into"
"""What to do where a folder or a file will not do."""


@dataclass(frozen=True)
class Desk:
    """Where an experiment works: the folder its files go to, how much time it may take, and who watches."""

    name: str
    into: Path
    quick: bool = False
    jobs: int = 1
    """Runs at a time, each in a process with its own share of the cores."""
    tell: Callable[[int, int, str], None] = field(default=lambda done, total, what: None)
    """Called with steps done, steps in all, and what is being done."""

    @property
    def stem(self) -> str:
        """Name of the experiment's files and of its section; a quick run never overwrites a full one."""
        return f"{self.name}-quick" if self.quick else self.name

    def file(self, suffix: str, part: str = "") -> Path:
        """A file of the experiment, such as ``results/table1.csv``; `part` tells several of a kind apart."""
        return self.into / "results" / f"{self.stem}{part and '-' + part}{suffix}"

    def rows(self, columns: Sequence[str] = (), part: str = "") -> list[TextRow]:
        """Rows of an earlier run, which have these columns; none if there was none."""
        return read_rows(self.file(".csv", part), columns, ELSEWHERE)

    def write_rows(self, rows: Sequence[Row], part: str = "") -> None:
        """Write the CSV file whole."""
        write_rows(self.file(".csv", part), rows)

    def draw(self, figure: Figure, description: str, part: str = "") -> str:
        """Write a figure as PNG and SVG, the same bytes for the same figure; the Markdown that shows it."""
        for suffix in (".png", ".svg"):
            path = self.file(suffix, part)
            hidden = path.with_name(f".{path.name}")
            figure.savefig(hidden, format=suffix[1:], dpi=150, metadata={"Date": None} if suffix == ".svg" else None)
            os.replace(hidden, path)
        return f"![{description}](results/{self.file('.svg', part).name})\n"

    def command(self) -> str:
        """The command that makes this section again."""
        return f"fadiff reproduce {self.name}{' --quick' if self.quick else ''} --into {self.into}"


def find_experiment(name: str) -> Callable[[Desk], str]:
    """An experiment by name."""
    if name not in EXPERIMENTS:
        close = get_close_matches(name, EXPERIMENTS, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise FadiffError(f"experiment {name!r} is unknown{hint}: use one of {', '.join(EXPERIMENTS)}")
    try:
        return import_module(f"fadiff.reproduce.{EXPERIMENTS[name]}").reproduce
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("fadiff"):
            raise
        raise FadiffError(
            f"experiment {name!r} needs {missing.name}: run {pip_install('baselines', 'plots')}"
        ) from None


def run(desk: Desk) -> Path:
    """Run an experiment and put its section into the page of results; the page."""
    experiment = find_experiment(desk.name)
    with alone_in(desk.into / "results", ELSEWHERE):
        text = experiment(desk)
        page = desk.into / "results.md"
        write_text(page, with_section(read_text(page) if page.exists() else "# Results\n", desk.stem, text))
    return page


def with_section(page: str, name: str, text: str) -> str:
    """The page with its section `name` replaced, or added at its end; everything else stays as it is.

    >>> print(with_section("# Results", "table1", "New."), end="")
    # Results
    <BLANKLINE>
    <!-- begin table1 -->
    New.
    <!-- end table1 -->
    """
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    section = f"{begin}{text.strip()}\n{end}"
    if begin in page and end in page:
        return re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: section, page, count=1, flags=re.DOTALL)
    return f"{page.rstrip()}\n\n{section}"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; every column but the first holds numbers."""
    lines = [f"| {' | '.join(columns)} |", "|---|" + "---:|" * (len(columns) - 1)]
    lines += [f"| {' | '.join(str(value) for value in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def wrapped(text: str) -> str:
    """A paragraph in lines of 120 characters."""
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)
