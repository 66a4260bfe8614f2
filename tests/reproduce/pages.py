"""What tests of experiments share: rows on disk, tables of a page, and the committed results."""

import csv
import re
from pathlib import Path

import pytest

from fadiff.reproduce.experiment import Desk, run


def write_csv(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def table_after(text: str, first_column: str) -> dict[str, list[str]]:
    """Rows of a Markdown table, by first cell; `first_column` is how its header starts."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(first_column))
    rows: dict[str, list[str]] = {}
    for line in lines[at + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[name] = cells
    return rows


def told_and_committed(name: str, tmp_path: Path) -> tuple[str, str]:
    """The section that the committed CSV file gives without any run, and the one in docs/."""
    docs = Path(__file__).resolve().parents[2] / "docs"
    (tmp_path / "docs" / "results").mkdir(parents=True)
    for file in (f"{name}.csv", "bounds.csv"):
        (tmp_path / "docs" / "results" / file).write_bytes((docs / "results" / file).read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        page = run(Desk(name, Path("docs"))).read_text()
    section = re.compile(rf"<!-- begin {name} -->.*?<!-- end {name} -->", re.DOTALL)
    (told,) = section.findall(page)
    (committed,) = section.findall((docs / "results.md").read_text())
    made = (tmp_path / "docs" / "results" / f"{name}.csv").read_text()
    assert made == (docs / "results" / f"{name}.csv").read_text()
    return told, committed
