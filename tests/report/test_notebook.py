"""A schedule in a notebook."""

from dataclasses import replace
from xml.etree import ElementTree

from examples import FIRST, second
from fadiff.cost.evaluate import evaluate
from fadiff.report.notebook import schedule_html
from fadiff.schedule.asked import Asked, AskedOne
from fadiff.schedule.file import read_schedule
from schedule.toys import conv, on, schedule

PLAN = read_schedule(FIRST / "resnet18.gemmini-large.fused.json")[0]


def test_a_schedule_shows_its_summary_and_every_layer():
    html = schedule_html(PLAN)
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
    html = schedule_html(on(schedule(conv("<b>&'\"")), {"DRAM": {"name": "<i>"}}, name="<u>"))
    for sign in ("<b>", "<i>", "<u>"):
        assert sign not in html
    assert ElementTree.fromstring(html) is not None


def test_constraints_are_told():
    asked = Asked((AskedOne("conv1 -> conv2 is fused", 0.25),), 0.25)
    html = schedule_html(replace(schedule(conv("a")), asked=asked))
    assert "Constrained: 25.0% above the best that was found without constraints: conv1 -&gt; conv2 is fused" in html


def test_energy_is_told_by_the_machines_own_memories():
    html = schedule_html(second("eyeriss_residual_fused"))
    for memory in ("DRAM", "glb", "ispad", "wspad", "pspad"):
        assert f"{memory} " in html


def test_an_illegal_schedule_says_what_it_breaks():
    html = schedule_html(on(PLAN, {"scratchpad": {"bytes": 1024}}))
    assert "illegal" in html
    assert "bytes of scratchpad at step" in html
    assert "EDP" not in html
