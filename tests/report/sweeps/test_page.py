"""The page of a sweep: every cell has a mark, scales hold all values, and names cannot break it."""

import doctest
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff.cli import live_sweep
from fadiff.hardware import quantities, variants
from fadiff.report.sweeps import charts, sweep_html
from fadiff.report.sweeps.charts import Mark, Scale, lines_chart, points_chart
from fadiff.sweeps import folder, plan

SVG = "{http://www.w3.org/2000/svg}"


def row(machine: str, edp: float, **more: Any) -> dict[str, Any]:
    said = {"network": "net", "machine": machine, "method": "greedy", "objective": "edp", "seed": 0, "budget_s": 1.0}
    found = {"edp_uj_cycles": edp, "energy_pj": 2e6 * edp, "cycles": 1000.0, "stopped": "done", "error": ""}
    return {**said, "l2": None, **found, "schedule": "schedules/a.json", **more}


def pictures(page: str) -> list[ET.Element]:
    return [ET.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_every_cell_has_a_mark_in_every_picture_it_belongs_to():
    rows = [row("a", 3.0, l2=1024), row("b", 2.0, l2=2048), row("b", 1.9, l2=2048, seed=1), row("c", 9.0)]
    page = sweep_html(rows, "mine")
    machines, by_l2, front = pictures(page)
    assert len(machines.findall(f"{SVG}circle")) == 4
    names = [text.findtext(f"{SVG}title") for text in machines.findall(f"{SVG}text") if len(text)]
    assert names == ["b", "a", "c"], "the best first"
    assert len(by_l2.findall(f"{SVG}circle")) == 2, "the least at each value"
    assert by_l2.find(f"{SVG}polyline") is not None
    assert {"1 KB", "2 KB"} <= {text.text for text in by_l2.findall(f"{SVG}text")}
    assert len(front.findall(f"{SVG}circle")) == 4
    assert page.count('<a href="schedules/a.json">') == 4


def test_an_objective_is_told_by_its_own_measure():
    rows = [row("a", 3.0, objective="latency", cycles=7.0), row("b", 1.0, objective="latency", cycles=8.0)]
    machines = pictures(sweep_html(rows, "mine"))[0]
    names = [text.findtext(f"{SVG}title") for text in machines.findall(f"{SVG}text") if len(text)]
    assert names == ["a", "b"]


def test_names_cannot_break_the_page():
    page = sweep_html([row("<script>&'\"", 1.0), row("b", 1.0, error="<b>no</b>", schedule="")], "<i>")
    assert "<script" not in page
    assert "<b>no" not in page
    assert "<i>" not in page


def test_of_very_many_machines_the_best_are_drawn():
    page = sweep_html([row(f"m{i}", 100.0 - i) for i in range(80)], "mine")
    assert "(60 of 80)" in page
    assert len(pictures(page)[0].findall(f"{SVG}circle")) == 60


@given(st.lists(st.floats(1e-9, 1e18), min_size=1, max_size=9))
def test_a_scale_holds_all_values_and_a_few_round_numbers(values: list[float]):
    scale = Scale.over(values, 100.0, 700.0)
    assert all(100 <= scale.at(value) <= 700 for value in values)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 8
    assert all(scale.low * (1 - 1e-9) <= tick <= scale.high * (1 + 1e-9) for tick in ticks)
    assert ticks == sorted({*ticks})


def test_marks_of_two_series_have_two_colours():
    marks = [Mark(1.0, 0, "a", "one"), Mark(2.0, 0, "b", "other")]
    classes = [
        circle.get("class") for circle in pictures(lines_chart("x", "y", marks, ["line"]))[0].iter(f"{SVG}circle")
    ]
    assert classes == ["g0", "g1"]
    assert "a</span>" in charts.legend(marks)
    assert pictures(points_chart("x", ("y", "z"), [mark._replace(y=1.0) for mark in marks]))


@pytest.mark.parametrize("module", [charts, folder, live_sweep, plan, quantities, variants], ids=lambda m: m.__name__)
def test_examples_in_docstrings_run(module: object):
    failed, tried = doctest.testmod(module)  # pyright: ignore[reportArgumentType]
    assert tried > 0
    assert failed == 0
