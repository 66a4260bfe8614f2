"""The page: one file that needs no other, in which no name can become markup."""

import doctest
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest

from examples import SECOND_FILES
from fadiff.hardware import load_machine
from fadiff.report import html
from fadiff.report.html.page import SCRIPTS, STYLES, fill, script_json
from fadiff.schedule.file import read_schedule
from fadiff.workload import load_model
from report.html.samples import HOSTILE, bare, cores, hostile, large, long, page, small
from report.plans import plain

ASSETS = Path(html.__file__).parent / "assets"
MOST_BYTES = 6_000_000


class Reader(HTMLParser):
    """Elements of a page with their attributes, and the text of its scripts and headings."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "h1": [], "title": [], "text": []}
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in self.texts:
            self._open.append(tag)
            self.texts[tag].append("")

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data):
        for tag in self._open:
            self.texts[tag][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def classed(reader: Reader, tag: str, name: str) -> list[dict[str, str | None]]:
    return [attributes for attributes in reader.all(tag) if name in (attributes.get("class") or "").split()]


def test_names_that_are_markup_stay_names():
    text = page(hostile())
    reader = Reader(text)
    assert len(reader.all("script")) == 2
    data = json.loads(reader.texts["script"][0])
    assert [name for name, *_ in data["layers"]] == [HOSTILE, f"b{HOSTILE}"]
    assert data["machine"]["memories"][1]["name"] == f"scratchpad {HOSTILE}"
    assert reader.texts["h1"] == [f"net {HOSTILE} on m {HOSTILE}"]
    assert reader.texts["title"] == [f"net {HOSTILE} on m {HOSTILE}: schedule report"]
    labels = [node["aria-label"] for node in classed(reader, "g", "node")]
    assert any(label is not None and label.startswith(f"{HOSTILE}: ") for label in labels)
    assert "alert(1)</script" not in text
    assert text.count("</script>") == 2


def test_every_layer_and_tensor_is_in_every_picture_once():
    schedule = large()
    reader = Reader(page(schedule))
    pictures = len(classed(reader, "svg", "graph"))
    assert pictures in (2, 3)
    nodes = [node["data-node"] for node in classed(reader, "g", "node")]
    for i in range(len(schedule.workload.layers)):
        assert nodes.count(str(i)) == pictures
    edges = classed(reader, "g", "edge")
    for i, edge in enumerate(schedule.workload.edges):
        mine = [found for found in edges if found["data-edge"] == str(i)]
        assert len(mine) == pictures
        kept = "chip" if schedule.is_fused(edge) else "away"
        assert {found["class"] for found in mine} == {f"edge {kept}"}


def test_wider_lines_are_larger_tensors():
    schedule = large()
    text = page(schedule)
    widths = {int(i): float(w) for i, w in re.findall(r'data-edge="(\d+)".*?stroke-width="([\d.]+)"', text)}
    words = [schedule.workload[edge.source].stored_words for edge in schedule.workload.edges]
    for a in widths:
        for b in widths:
            if words[a] < words[b]:
                assert widths[a] < widths[b]


def test_the_page_asks_for_nothing_from_elsewhere():
    text = page(large(), searched=True)
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)", text)
    reader = Reader(text)
    for tag, attributes in reader.elements:
        assert "src" not in attributes, tag
        if "href" in attributes:
            assert (attributes["href"] or "").startswith(("#", "data:,")), tag
    addresses = set(re.findall(r"https?://[^\"'\s<)]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}, "the name of SVG is all"
    policy = next(meta["content"] for meta in reader.all("meta") if "http-equiv" in meta)
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_the_same_schedule_gives_the_same_bytes():
    assert page(large(), searched=True) == page(large(), searched=True)


def test_the_bytes_do_not_depend_on_the_order_of_sets():
    code = "import zlib\nfrom report.html.samples import cores, page\nprint(zlib.crc32(page(cores()).encode()))"
    tests = Path(__file__).resolve().parents[2]
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(tests)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet50"])
def test_the_page_of_a_network_of_the_zoo_is_small(name: str):
    schedule = plain(load_model(name), load_machine("gemmini-large"))
    assert len(page(schedule, searched=True).encode()) < MOST_BYTES / 4


def test_a_long_network_has_a_picture_of_the_whole():
    assert len(classed(Reader(page(long())), "svg", "whole")) == 1
    assert len(classed(Reader(page(small())), "svg", "whole")) == 0


def test_a_page_needs_nothing_but_the_schedule():
    data = json.loads(Reader(bare(cores())).texts["script"][0])
    assert data["why_not"]["entries"] == data["summary"]["rivals"] == []
    assert data["what_if"] is data["search"] is data["compare"] is None


@pytest.mark.parametrize("path", SECOND_FILES, ids=lambda path: path.stem)
def test_every_machine_has_a_page_in_its_own_names(path: Path):
    schedule = read_schedule(path)[0]
    data = json.loads(Reader(bare(schedule)).texts["script"][0])
    names = [node.name for node in schedule.machine.nodes]
    assert [node["name"] for node in data["machine"]["nodes"]] == names
    assert [node["name"] for node in data["summary"]["nodes"]] == [*names, "MACs"]
    assert {access["memory"] for access in data["accesses"]} <= set(names)


def test_every_asset_is_in_the_page_once():
    text = page(small())
    named = {f"{name}.css" for name in STYLES} | {f"{name}.js" for name in SCRIPTS} | {"page.html"}
    assert named == {path.name for path in ASSETS.iterdir()}
    for name in named - {"page.html"}:
        assert text.count((ASSETS / name).read_text(encoding="utf-8")) == 1, name


def test_a_template_with_an_unknown_place_is_a_mistake():
    with pytest.raises(KeyError, match="missing"):
        fill("{{missing}}", {})


def test_numbers_that_are_no_numbers_never_reach_the_page():
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_json({"a": float("nan")})


@pytest.mark.parametrize("name", ["labels", "html.page", "html.summary"])
def test_examples_in_docstrings_run(name: str):
    failed, tried = doctest.testmod(import_module(f"fadiff.report.{name}"))
    assert tried > 0
    assert failed == 0
