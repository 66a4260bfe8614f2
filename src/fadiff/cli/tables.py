"""Numbers and tables on a terminal."""

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.style import StyleType
from rich.table import Table

from fadiff.analysis.units import significant

PLAIN_WIDTH = 100
"""Columns where there is no terminal to fill."""
LEAST_WIDTH = 80
"""Columns that tables take on any terminal: with fewer, digits and whole names would be left out of them. A narrower
terminal breaks the lines, which is harder to read but true."""


WORD_LENGTH, TEXT_LENGTH = 100, 1000
"""Signs of a word, and of a text, that are printed. Files may hold names of any length."""
NAME_WIDTH, NUMBER_WIDTH = 20, 6
"""Columns that tables of layers leave to names, and that numbers take at least."""


def console(*, err: bool = False) -> Console:
    """Where tables are printed. Names of layers and files are printed as they are: they hold no markup."""
    stream = sys.stderr if err else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    made = Console(stderr=err, width=width, markup=False, highlight=False, emoji=False)
    made.width = max(made.width, LEAST_WIDTH)
    return made


def print_json(document: object) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def cut(text: str, word_length: int = WORD_LENGTH) -> str:
    """A text that a terminal can show: of longer words, and of a longer text, the middle is left out.

    >>> cut("a word of " + 30000 * "e" + "s", word_length=10)
    'a word of eeeee…eees'
    """
    words = re.sub(rf"\S{{{word_length + 1},}}", lambda found: _middle_out(found[0], word_length), text)
    return _middle_out(words, TEXT_LENGTH)


def _middle_out(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length // 2]}…{text[len(text) - (length - 1) // 2 :]}"


class _Cut(Table):
    """A table that cuts what is in its cells."""

    def add_row(self, *cells: RenderableType | None, style: StyleType | None = None, end_section: bool = False) -> None:
        """Add a row."""
        shown = (cut(cell) if isinstance(cell, str) else cell for cell in cells)
        super().add_row(*shown, style=style, end_section=end_section)


def table(title: str, columns: Sequence[str], *, wide: int = 1) -> Table:
    """An empty table. The first `wide` columns hold words and wrap; the others hold numbers and never do."""
    made = _Cut(title=cut(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, name in enumerate(map(cut, columns)):
        if i < wide:
            made.add_column(name, vertical="top", overflow="fold")
        else:
            made.add_column(name, justify="right", no_wrap=True)
    return made


def column_groups(headers: Sequence[str]) -> list[list[str]]:
    """Headers in as many groups as keep each table within the least width of a terminal, beside names of layers.

    >>> column_groups(["a" * 30, "b" * 20, "c" * 20])
    [['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbb'], ['cccccccccccccccccccc']]
    """
    groups: list[list[str]] = []
    left = 0
    for header in headers:
        width = 2 + max(NUMBER_WIDTH, *map(len, header.splitlines()))
        if not groups or width > left:
            groups.append([])
            left = LEAST_WIDTH - NAME_WIDTH
        groups[-1].append(header)
        left -= width
    return groups


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """Names and values, one a line."""
    made = _Cut.grid(padding=(0, 2), pad_edge=True)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(name, value)
    return made


def short(value: float) -> str:
    """A count in at most seven characters, with a unit of thousands where it needs one.

    >>> short(0), short(512), short(1814073344), short(999_900)
    ('0', '512', '1.81 G', '1.00 M')
    """
    if value < 1000:
        return f"{value:.0f}" if float(value).is_integer() else significant(value)
    for unit in ("K", "M", "G", "T", "P"):
        value /= 1000
        if value < 999.5:
            return f"{significant(value)} {unit}"
    return f"{value:.3g} P"


def microjoules(pj: float) -> str:
    """Energy in uJ.

    >>> microjoules(12_345_678_900), microjoules(1_234_567)
    ('12,346 uJ', '1.23 uJ')
    """
    return f"{significant(pj * 1e-6)} uJ"


def percent(share: float) -> str:
    """A share of one.

    >>> percent(0.123)
    '12.3%'
    """
    return f"{100 * share:.1f}%"
