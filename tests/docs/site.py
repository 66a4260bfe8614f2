"""The documentation site, built as `make docs` builds it, and its pages as data."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from docs.pages import ROOT

NEEDED = ("mkdocs", "material", "mkdocstrings_handlers")
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "srcset", "object": "data"}
"""Tags that make a browser fetch something, and the attribute that says what."""


class _Settings(yaml.SafeLoader):
    """Of mkdocs.yml what is plain data."""


_Settings.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


@dataclass
class SitePage(HTMLParser):
    """What an HTML page has, names and asks for."""

    path: Path
    ids: set[str] = field(default_factory=set[str])
    links: list[str] = field(default_factory=list[str])
    loaded: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        super().__init__()
        self.text = self.path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loaded.append(given[LOADED[tag]])


def build(folder: Path) -> list[SitePage]:
    """Build the site into a folder, with warnings as errors; its pages."""
    for module in NEEDED:
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed: pip install 'fadiff-scheduler[docs]' to test the site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [SitePage(path) for path in sorted(folder.rglob("*.html"))]


def nav_pages() -> list[str]:
    """The pages of the navigation, as mkdocs.yml names them."""

    def leaves(entry: object) -> list[str]:
        match entry:
            case str():
                return [entry]
            case dict():
                return [page for part in entry.values() for page in leaves(part)]
            case list():
                return [page for part in entry for page in leaves(part)]
            case _:
                raise TypeError(entry)

    return leaves(yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Settings)["nav"])
