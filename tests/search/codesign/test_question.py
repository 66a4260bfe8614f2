from dataclasses import replace
from math import log

import pytest

from fadiff.cost import evaluate
from fadiff.errors import FadiffError
from fadiff.hardware import machine_area
from fadiff.search import greedy
from fadiff.search.codesign import Question
from search.codesign.tiny import FREE, ONE, SPACE, TOY, asked


def test_an_area_that_nobody_can_meet_is_told_with_the_smallest_there_is():
    smallest = machine_area(SPACE.at(SPACE.smallest)).total
    with pytest.raises(FadiffError) as refusal:
        Question((TOY,), SPACE, area_mm2=0.001)
    assert f"no machine of 'tiny' fits in 0.001 mm2, the smallest takes {smallest:.4g}" in str(refusal.value)
    assert asked(smallest).area_range_mm2[0] == smallest


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"workloads": ()}, "no network is given"),
        ({"workloads": (ONE, ONE)}, "a network is given twice"),
        ({"aim": "beauty"}, "objective 'beauty' is unknown: use one of edp, energy, latency, edp-area"),
        ({"weights": (1.0, 2.0)}, "give one positive number for each network"),
        ({"weights": (0.0,)}, "give one positive number for each network"),
        ({"area_mm2": float("nan")}, "no machine of 'tiny' fits in nan mm2"),
    ],
)
def test_a_question_without_an_answer_is_refused(changes: dict, told: str):
    with pytest.raises(FadiffError, match=told):
        replace(asked(), **changes)


def test_the_score_is_the_logarithm_of_what_is_asked_for():
    machine = SPACE.at(SPACE.largest)
    one = evaluate(greedy(ONE, machine))
    question = asked()
    edp = log(one.energy_pj * one.cycles)
    assert question.score(machine, (one,)) == pytest.approx(edp)
    with_area = edp + log(machine_area(machine).total)
    assert replace(question, aim="edp-area").score(machine, (one,)) == pytest.approx(with_area)
    twice = replace(question, workloads=(ONE, replace(ONE, name="again")), weights=(1.0, 3.0))
    other = evaluate(greedy(ONE, SPACE.at(SPACE.smallest)))
    expected = 0.25 * edp + 0.75 * log(other.energy_pj * other.cycles)
    assert twice.score(machine, (one, other)) == pytest.approx(expected)


def test_a_machine_that_is_too_large_is_shrunk_in_its_memories_first():
    question = Question((TOY,), FREE, area_mm2=0.2)
    fitted = question.fitted(FREE.largest)
    assert question.fits(fitted)
    assert fitted == FREE.rounded(fitted)
    by_name = dict(zip([number.name for number in FREE.numbers], fitted, strict=True))
    assert (by_name["rows.size"], by_name["cols.size"]) == (16, 16)
    assert question.fitted(FREE.smallest) == FREE.smallest
