"""The page about co-design."""

import re
from dataclasses import replace

from fadiff.analysis.design import energy_latency
from fadiff.report.design_page import HEIGHT, design_html, front_svg
from fadiff.search.codesign import CodesignSettings, codesign
from search.codesign.tiny import asked


def test_machines_that_are_far_dearer_leave_the_front_its_room():
    found = codesign(asked(0.05), CodesignSettings(budget_seconds=2, proposals="climb", method="greedy"))
    cheap = replace(found.best, score=found.best.score + 0.02, area_mm2=found.best.area_mm2 / 2)
    dear = [replace(found.best, score=found.best.score + gap) for gap in (4.0, 5.0)]
    design = replace(found, rows=(*[found.best, cheap] * 4, *dear), front=(cheap, found.best))
    drawn = front_svg(design)
    heights = [float(at) for at in re.findall(r'cy="([\d.]+)" r="4"', drawn)]
    assert max(heights) - min(heights) > HEIGHT / 2
    assert "2 dearer, at the edge" in drawn
    assert "dearer" not in front_svg(replace(design, rows=design.front))
    assert len(set(re.findall(r'text-anchor="end">([^<]+)<', drawn))) > 3, "numbers that can be told apart"


def test_the_page_has_both_fronts_what_was_asked_and_the_files():
    found = codesign(asked(0.05), CodesignSettings(budget_seconds=2, proposals="climb", method="greedy"))
    cost = found.best.costs["one"]
    faster = {"one": cost | {"cycles": cost["cycles"] / 2, "energy_pj": cost["energy_pj"] * 3}}
    slow = {"one": cost | {"cycles": cost["cycles"] * 2, "energy_pj": cost["energy_pj"] * 2}}
    rows = [replace(found.best, number=901, costs=faster), replace(found.best, number=902, costs=slow)]
    beyond = replace(found.best, number=903, area_mm2=1.0, costs={"one": cost | {"cycles": 1.0, "energy_pj": 1.0}})
    design = replace(found, rows=(found.best, *rows, beyond), left_out=("nothing <else>",))
    assert [row.number for row in energy_latency(design)] == [901, found.best.number]
    page = design_html(design)
    assert "Least EDP, in at most 0.0500 mm2: 4 machines were scored." in page
    assert "<p>Nothing &lt;else&gt;.</p>" in page
    assert all(f'href="{name}"' in page for name in ("best.machine.json", "best.one.json", "machines/0901.json"))
    assert 'aria-label="Energy against latency of 3 machines; 2 are on the front"' in page
    assert page.count('class="limit"') == 1
