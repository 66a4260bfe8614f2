"""The data of the page: complete, consistent with the costs, and the same every time."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from fadiff import evaluate, load_schedule
from fadiff.report.breakdown import breakdown
from fadiff.report.compare import compare_schedules
from fadiff.report.html.graph_svg import group_colours
from fadiff.report.html.layers import TENSOR_OF, energy_parts
from fadiff.report.html.payload import payload
from fadiff.report.html.summary import sentences
from fadiff.search.greedy import greedy
from report.html.samples import SCHEDULES, large, quick_analyses, rivals, small, trace

GOLDEN = Path(__file__).parent / "golden" / "r1_resid.json"
NOT_GOLDEN = ("version", "why_not", "what_if")
"""The version changes, and the two analyses have tests of their own."""
FILES = sorted(SCHEDULES.glob("**/*.json"))


def data_of(schedule, **more):
    with quick_analyses():
        made = payload(evaluate(schedule), rivals(schedule), trace=more.get("trace"), comparison=more.get("comparison"))
    return json.loads(json.dumps(made, allow_nan=False))


def rounded(value):
    """Numbers to ten digits, so that the last bit of a machine's arithmetic does not count."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return value


def test_the_payload_of_a_small_schedule_is_the_golden_one():
    made = data_of(small())
    for key in NOT_GOLDEN:
        del made[key]
    text = json.dumps(rounded(made), indent=1) + "\n"
    assert json.loads(text) == json.loads(GOLDEN.read_text(encoding="utf-8")), f"if this is meant: write it to {GOLDEN}"


def test_what_is_there_and_what_is_only_there_when_asked_for():
    schedule = large()
    plain = data_of(schedule)
    assert plain["search"] is None
    assert plain["compare"] is None
    comparison = compare_schedules(rivals(schedule).greedy, evaluate(schedule))
    full = data_of(schedule, trace=trace(), comparison=comparison)
    assert full["search"]["fused_edges"][-1] == 9
    assert full["compare"]["totals"]
    assert list(plain) == list(full)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_energy_by_level_and_tensor_is_the_energy_of_the_layer(path: Path):
    evaluation = evaluate(load_schedule(path))
    for cost in breakdown(evaluation).layers:
        parts = energy_parts(cost, evaluation.schedule.hardware)
        assert sum(energy for _, _, energy in parts) == pytest.approx(cost.energy_pj, rel=1e-9)
        for level, total in cost.energy_by_part_pj.items():
            mine = sum(energy for part, _, energy in parts if part == level)
            assert mine == pytest.approx(total, rel=1e-9, abs=1e-6)


def test_every_count_of_the_cost_model_is_about_a_tensor():
    assert set(TENSOR_OF) == set(breakdown(evaluate(small())).layers[0].words)


def test_numbers_refer_to_layers_and_groups_that_are_there():
    made = data_of(large())
    names = [layer["name"] for layer in made["layers"]]
    assert sorted(made["execution_order"]) == list(range(len(names)))
    for i, group in enumerate(made["groups"]):
        assert [made["layers"][names.index(name)]["group"] for name in group["layers"]] == [i] * len(group["layers"])
    assert [name for group in made["groups"] for name in group["layers"]] == [names[i] for i in made["execution_order"]]
    assert [span["layers"] for span in made["timeline"]["groups"]] == [group["layers"] for group in made["groups"]]
    assert [nest["layers"] for nest in made["nests"]] == [group["layers"] for group in made["groups"]]
    assert sum(edge["fused"] for edge in made["edges"]) + len(made["why_not"]) == len(made["edges"])


def test_groups_that_follow_each_other_have_different_colours():
    colours = [colour for colour in group_colours(large()) if colour is not None]
    assert all(a != b for a, b in pairwise(colours))
    schedule = greedy(large().workload, large().hardware)
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
    schedule = greedy(large().workload, large().hardware)
    evaluation = evaluate(schedule)
    first, second = sentences(evaluation, breakdown(evaluation), rivals(schedule))
    assert first.startswith("29 layers run in 29 groups, each layer on its own.")
    same = "the same as that of"
    assert second == f"Its EDP is {same} the best schedule found without fusion, and {same} the greedy heuristic."
