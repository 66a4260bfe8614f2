"""A schedule in a notebook."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import fadiff
from execute.builders import alone, mac, tiled
from fadiff import evaluate, load_schedule
from fadiff.report.notebook import schedule_html

PLAN = load_schedule(Path(__file__).parents[1] / "data" / "schedules" / "resnet18.gemmini-large.fused.json")


def test_a_schedule_shows_its_summary_and_every_layer():
    html = PLAN._repr_html_()
    tree = ElementTree.fromstring(html)
    cells = [cell.text for cell in tree.iter("td")]
    assert dict(zip(cells[::2], cells[1::2], strict=True))["EDP"] == f"{evaluate(PLAN).edp_uj_cycles:.4g} µJ·cycles"
    titles = [title.text for title in tree.iter("{http://www.w3.org/2000/svg}title")]
    for layer in PLAN.workload.layers:
        assert any(title.startswith(f"{layer.name}: ") for title in titles)
    lines = list(tree.iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(lines) == len(PLAN.workload.edges)
    assert sum("stroke-dasharray" in line.attrib for line in lines) == len(PLAN.workload.edges) - len(PLAN.fused_edges)


def test_it_needs_nothing_from_outside_and_reads_on_any_ground():
    html = schedule_html(PLAN)
    assert "<script" not in html
    assert "<style" not in html
    assert html.count("http") == html.count("http://www.w3.org/2000/svg")
    words = list(ElementTree.fromstring(html).iter("{http://www.w3.org/2000/svg}text"))
    assert words
    assert {text.attrib["fill"] for text in words} == {"currentColor"}
    assert len(html) < 64_000


def test_names_are_escaped():
    plan = alone(mac("<b>&'\"", "N8 K4 C4"), tiled("K4 C4", "N8"))
    html = schedule_html(plan)
    assert "<b>" not in html
    assert ElementTree.fromstring(html) is not None


def test_an_illegal_schedule_says_what_it_breaks():
    broken = replace(PLAN, hardware=replace(PLAN.hardware, l2_bytes=1024))
    html = broken._repr_html_()
    assert "illegal" in html
    assert "bytes of L2 at step" in html
    assert "EDP" not in html


def test_the_public_name_has_the_display():
    assert fadiff.Schedule._repr_html_ is type(PLAN)._repr_html_
