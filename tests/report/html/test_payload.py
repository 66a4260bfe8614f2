"""The data of the page: complete, and consistent with the costs."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from examples import FILES
from fadiff.analysis.breakdown import breakdown
from fadiff.analysis.compare import compare_schedules
from fadiff.cost.evaluate import evaluate
from fadiff.report.html import Extras
from fadiff.report.html.payload import payload
from fadiff.report.html.summary import sentences
from fadiff.report.palette import group_colours
from fadiff.schedule.file import read_schedule
from report.html.samples import cores, large, rivals, trace, what_if, why_not
from report.plans import plain


def data_of(schedule, **extras):
    return json.loads(json.dumps(payload(evaluate(schedule), Extras(**extras)), allow_nan=False))


def test_what_is_there_and_what_is_only_there_when_asked_for():
    schedule = large()
    bare = data_of(schedule)
    assert bare["search"] is None
    assert bare["compare"] is None
    comparison = compare_schedules(rivals(schedule)[0].evaluation, evaluate(schedule))
    full = data_of(
        schedule, rivals=rivals(schedule), trace=trace(), comparison=comparison, why_not=why_not(schedule),
        what_if=what_if(),
    )  # fmt: skip
    assert full["search"]["fused_edges"][-1] == 9
    assert full["compare"]["totals"]
    assert [name for name, _ in full["summary"]["rivals"]] == ["best unfused", "greedy"]
    assert sum(edge["fused"] for edge in full["edges"]) + len(full["why_not"]) == len(full["edges"])
    assert list(bare) == list(full)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_accesses_hold_all_energy_of_a_layer(path: Path):
    data = data_of(read_schedule(path)[0])
    for layer in data["layers"]:
        spent = layer["mac_energy_pj"] + sum(energy for _, _, energy in layer["accesses"])
        assert spent == pytest.approx(layer["energy_pj"], rel=1e-9)
        assert set(layer["cycles_by_term"]) == set(data["terms"])
        assert layer["bound_by"] in data["terms"]


def test_memories_that_every_multiplier_has_for_itself_are_marked():
    marked = {memory["name"]: memory["private"] for memory in data_of(cores())["machine"]["memories"]}
    assert marked == {"DRAM": False, "l2": False, "l1": False, "acc": False, "reg": True}


def test_a_tensor_is_as_large_as_its_values_are_wide():
    wide = data_of(read_schedule(next(path for path in FILES if path.stem == "eyeriss_residual_fused"))[0])
    assert [edge["bytes"] for edge in wide["edges"]] == [2 * 4 * 21 * 20] * len(wide["edges"])


def test_numbers_refer_to_layers_and_groups_that_are_there():
    made = data_of(large())
    names = [layer["name"] for layer in made["layers"]]
    assert sorted(made["execution_order"]) == list(range(len(names)))
    for i, group in enumerate(made["groups"]):
        assert [made["layers"][names.index(name)]["group"] for name in group["layers"]] == [i] * len(group["layers"])
    assert [name for group in made["groups"] for name in group["layers"]] == [names[i] for i in made["execution_order"]]
    assert [span["layers"] for span in made["timeline"]["groups"]] == [group["layers"] for group in made["groups"]]
    assert [nest["layers"] for nest in made["nests"]] == [group["layers"] for group in made["groups"]]


def test_groups_that_follow_each_other_have_different_colours():
    colours = [colour for colour in group_colours(large()) if colour is not None]
    assert all(a != b for a, b in pairwise(colours))
    schedule = plain(large().workload, large().machine)
    assert set(group_colours(schedule)) == {None}


def test_the_summary_says_what_the_schedule_does():
    schedule = large()
    evaluation = evaluate(schedule)
    first, second = sentences(evaluation, breakdown(evaluation), rivals(schedule))
    assert first.startswith(
        "29 layers run in 2 groups, and 34 of 36 tensors between layers never leave the chip. DRAM takes"
    )
    assert "of the time." in first
    assert second.startswith("Its EDP is ")
    assert "below that of the best schedule found without fusion" in second


def test_the_summary_of_an_unfused_schedule_does_not_praise_it():
    schedule = plain(large().workload, large().machine)
    evaluation = evaluate(schedule)
    first, second = sentences(evaluation, breakdown(evaluation), rivals(schedule))
    assert first.startswith("29 layers run in 29 groups, each layer on its own.")
    same = "the same as that of"
    assert second == f"Its EDP is {same} the best schedule found without fusion, and {same} the greedy heuristic."
