"""Opponents of the descent: what they draw, and co-design with each of them."""

from dataclasses import replace
from math import inf, log

import numpy as np
import pytest

from fadiff.errors import FadiffError
from fadiff.hardware import machine_area
from fadiff.search.codesign import CodesignSettings, Question, codesign, samplers
from fadiff.search.codesign.cube import Cube
from fadiff.search.codesign.samplers import SAMPLERS
from search.codesign.tiny import FREE, ONE, SPACE, TOY, asked

AREA_MM2 = 0.2
QUESTION = Question((TOY,), FREE, AREA_MM2)
RANDOM = np.random.default_rng(0)


def of(values: tuple[float, ...], name: str) -> float:
    return values[[number.name for number in FREE.numbers].index(name)]


@pytest.mark.parametrize("fills", [False, True])
def test_every_point_of_the_cube_is_a_machine_that_can_be_built_within_the_area(fills: bool):
    cube = Cube(QUESTION, fills)
    for point in (*RANDOM.random((40, 4)), np.zeros(4), np.ones(4)):
        values = cube.machine(point.tolist())
        assert QUESTION.fits(values)
        assert FREE.rounded(values) == values


def test_machines_that_fill_the_area_do_unless_the_space_ends():
    cube = Cube(QUESTION, fills=True)
    for point in RANDOM.random((40, 4)):
        values = cube.machine(point.tolist())
        ends = [number.ends[1] == value for number, value in zip(FREE.numbers, values, strict=True)]
        full = machine_area(FREE.at(values)).total > 0.85 * AREA_MM2
        assert full or all(ends[i] for i, count in enumerate(cube.counts) if count is None)


def test_a_machine_that_fits_is_where_its_coordinates_say():
    cube = Cube(replace(QUESTION, area_mm2=inf))
    values = cube.machine([0.5, 0.25, 0.3, 0.99])
    assert (of(values, "l1"), of(values, "scratchpad.bytes")) == pytest.approx((8192, 1024 * 64**0.25), rel=0.04)
    assert (of(values, "cols.size"), of(values, "rows.size")) == (4, 16)
    assert cube.machine([1.0] * 4) == FREE.largest


def test_where_area_is_part_of_the_goal_nothing_is_filled():
    point = [0.2, 0.2, 0.1, 0.1]
    plain, priced = (Cube(replace(QUESTION, aim=aim), fills=True).machine(point) for aim in ("edp", "edp-area"))
    assert machine_area(FREE.at(plain)).total > 2 * machine_area(FREE.at(priced)).total


def test_points_that_mean_the_same_machine_are_one():
    cube = Cube(QUESTION)
    near, same = cube.snapped([0.5, 0.5, 0.30, 0.6]), cube.snapped([0.5, 0.5, 0.49, 0.7])
    assert near == same
    assert cube.machine(near) == cube.machine([0.5, 0.5, 0.4, 0.65])


@pytest.mark.parametrize(("name", "asks"), [("tpe", 30), ("bayesian", 12)])
def test_a_model_learns_where_machines_are_better(name: str, asks: int):
    def score(values: tuple[float, ...]) -> float:
        return abs(log(of(values, "cols.size") / 16)) + abs(log(of(values, "l1") / 4096))

    def best_half(name: str) -> float:
        asking = SAMPLERS[name].start(QUESTION, 0)
        values, scores = next(asking), list[float]()
        for _ in range(asks):
            scores.append(score(values))
            values = asking.send(scores[-1])
        return float(np.mean(scores[asks // 2 :]))

    assert best_half(name) < 0.7 * best_half("uniform")


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_same_seed_asks_for_the_same_machines(name: str):
    def asks() -> list[tuple[float, ...]]:
        asking = SAMPLERS[name].start(QUESTION, 3)
        values, found = next(asking), list[tuple[float, ...]]()
        for i in range(8):
            found.append(values)
            values = asking.send(inf if i == 2 else float(i % 3))
        return found

    assert asks() == asks()


@pytest.mark.parametrize("name", ["uniform", "bayesian"])
def test_co_design_scores_what_a_sampler_asks_for(name: str):
    settings = CodesignSettings(budget_seconds=30, proposals=name, method="greedy")
    found = codesign(asked(0.03), settings)
    fitting = [row for row in found.rows if row.area_mm2 <= 0.03]
    assert found.best.score == min(row.score for row in fitting)
    first = next(i for i, row in enumerate(found.rows) if row.origin != "proposed")
    asked_for = [row.values for row in found.rows[:first]]
    assert 3 <= len(set(asked_for)) == len(asked_for), "no machine is scored twice"
    assert {row.origin for row in found.rows[first:]} <= {"shrink", "full", "price"}, "an opponent does not climb"


def test_a_package_that_is_not_installed_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(samplers, "find_spec", lambda package: None)
    with pytest.raises(FadiffError, match="proposals 'tpe' need optuna: run python -m pip install"):
        CodesignSettings(proposals="tpe")
    with pytest.raises(FadiffError, match=r"proposals are 'tpee' \(did you mean tpe\?\)"):
        CodesignSettings(proposals="tpee")
    assert CodesignSettings(proposals="filling").proposals == "filling"


def test_only_one_network_can_tell_what_its_machine_is():
    both = Question((ONE, replace(ONE, name="other")), SPACE)
    with pytest.raises(FadiffError, match="derived from the mappings of one network: give one"):
        codesign(both, CodesignSettings(proposals="derived"))
