"""The page about co-design."""

import re
from dataclasses import replace

from fadiff.report.design_page import HEIGHT, front_svg
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
    assert "2 dearer, at this edge" in drawn
    assert "dearer" not in front_svg(replace(design, rows=design.front))
    assert len(set(re.findall(r'text-anchor="end">([^<]+)<', drawn))) > 3, "numbers that can be told apart"
