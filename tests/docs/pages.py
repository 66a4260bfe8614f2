"""Documentation pages as data: fenced blocks, commands, links and code spans."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
SHELLS = ("console", "bash", "sh")
FENCE = re.compile(r"^```(\w*) ?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block; `file` is the name that may follow its language: ```yaml toy.yaml"""

    language: str
    file: str
    text: str


@dataclass(frozen=True)
class Command:
    """A line of a shell block, and the lines of output that the page shows under it."""

    line: str
    shown: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line, comments=True)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> list[Block]:
    return [Block(*match.groups()) for match in FENCE.finditer(text_of(page))]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", text_of(page))


def commands(page: Path) -> Iterator[Command]:
    """Commands of shell blocks: in a console block they follow a `$`, and what follows them is output."""
    for block in blocks(page):
        if block.language not in SHELLS:
            continue
        lines = block.text.splitlines()
        if block.language != "console":
            yield from (Command(line, ()) for line in lines if line and not line.startswith("#"))
            continue
        starts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            shown = (line for line in lines[start + 1 : end] if line.strip() not in ("", "..."))
            yield Command(lines[start].removeprefix("$ "), tuple(shown))


def links(page: Path) -> list[str]:
    """Targets of links and pictures."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return found + re.findall(r'(?:src|srcset|href)="([^"]+)"', prose(page))


def spans(page: Path) -> list[str]:
    """Inline code."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def anchors(page: Path) -> set[str]:
    """What `#...` may name on a page: its headings, in lower case, words joined by hyphens."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def table(page: Path, heading: str) -> dict[str, str]:
    """The first table under a heading: first column to last."""
    part = text_of(page).split(f"\n{heading}\n", 1)[1]
    rows = re.findall(r"^\|(.+)\|$", part.split("\n## ", 1)[0], re.MULTILINE)
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in rows]
    return {row[0]: row[-1] for row in cells[2:]}
