"""The data of the page: complete, and consistent with the costs."""

import json
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import pytest

from examples import FILES
from fadiff.analysis.breakdown import breakdown
from fadiff.analysis.compare import compare_schedules
from fadiff.analysis.roofline import roofline
from fadiff.analysis.timeline import timeline
from fadiff.cost.evaluate import evaluate
from fadiff.report.html import Extras, folding
from fadiff.report.html.payload import payload
from fadiff.report.html.summary import sentences
from fadiff.report.layout import graph_of
from fadiff.report.palette import group_colours
from fadiff.schedule.asked import Asked, AskedOne
from fadiff.schedule.file import read_schedule
from report.html.samples import cores, large, long, rivals, trace, what_if, why_not
from report.plans import plain


def data_of(schedule, **extras):
    return json.loads(json.dumps(payload(evaluate(schedule), Extras(**extras), graph_of(schedule)), allow_nan=False))


def layers_of(data):
    """Layers with what their kinds have in common."""
    return [{**data["layer_kinds"][kind], "name": name, "group": group} for name, kind, group, _ in data["layers"]]


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
    told = sum(len(entry["edges"]) for entry in full["why_not"]["entries"])
    assert sum(fused for *_, fused in full["edges"]) + told == len(full["edges"])
    assert list(bare) == list(full)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_accesses_hold_all_energy_of_a_layer(path: Path):
    data = data_of(read_schedule(path)[0])
    for layer in layers_of(data):
        spent = layer["mac_energy_pj"] + sum(energy for _, _, energy in layer["accesses"])
        assert spent == pytest.approx(layer["energy_pj"], rel=1e-9)
        assert set(layer["cycles_by_term"]) == set(data["terms"])
        assert layer["bound_by"] in data["terms"]


def test_memories_that_every_multiplier_has_for_itself_are_marked():
    marked = {memory["name"]: memory["private"] for memory in data_of(cores())["machine"]["memories"]}
    assert marked == {"DRAM": False, "l2": False, "l1": False, "acc": False, "reg": True}


def test_a_tensor_is_as_large_as_its_values_are_wide():
    wide = data_of(read_schedule(next(path for path in FILES if path.stem == "eyeriss_residual_fused"))[0])
    layers = layers_of(wide)
    assert {layers[source]["stored_bytes"] for source, *_ in wide["edges"]} == {2 * 4 * 21 * 20}


@pytest.mark.parametrize("schedule", [large(), long()], ids=["large", "long"])
def test_numbers_refer_to_layers_and_groups_that_are_there(schedule):
    made = data_of(schedule)
    layers = layers_of(made)
    names = [layer["name"] for layer in layers]
    assert names == [layer.name for layer in schedule.workload.layers]
    order = [n for members, *_ in made["groups"] for n in members]
    assert [names[n] for n in order] == [name for group in schedule.groups for name in group.layers]
    for i, (members, kind, _) in enumerate(made["groups"]):
        assert {layers[n]["group"] for n in members} == {i}
        first = made["groups"][made["nests"][kind]["group"]]
        assert first[1] == kind
        assert len(first[0]) == len(members)
    assert [(names[a], names[b]) for a, b, *_ in made["edges"]] == [edge[:2] for edge in schedule.workload.edges]
    for row, layer in zip(made["layers"], schedule.workload.layers, strict=True):
        assert [n if n is None else names[n] for n in row[3]] == [operand.source for operand in layer.inputs]
    assert sorted(n for members in made["nodes"] for n in members) == list(range(len(names)))


@pytest.mark.parametrize("schedule", [large(), long(), cores()], ids=["large", "long", "cores"])
def test_what_a_layer_is_told_is_what_it_costs_and_holds(schedule):
    evaluation = evaluate(schedule)
    costs, spans = breakdown(evaluation), [span for group in timeline(evaluation).groups for span in group.spans]
    made = data_of(schedule)
    for layer, cost in zip(layers_of(made), costs.layers, strict=True):
        told = layer["cycles"], layer["energy_pj"], layer["bound_by"], layer["bytes"]
        assert told == (cost.cycles, cost.energy_pj, cost.bound_by, cost.bytes)
    by_name = {layer["name"]: layer for layer in layers_of(made)}
    for span in spans:
        members = schedule.group_of[span.layer].layers
        for memory, parts in span.held.items():
            told = [(kind, tensor, members[i], size) for kind, tensor, i, size in by_name[span.layer]["held"][memory]]
            assert told == [(part.kind, part.tensor, part.layer, part.bytes) for part in parts]
    points = [layer["roofline"] | {"layer": layer["name"]} for layer in layers_of(made) if layer["roofline"]]
    assert points == json.loads(json.dumps([asdict(point) for point in roofline(evaluation).points]))


def test_layers_of_one_kind_are_told_once():
    made = data_of(long())
    assert len(made["layers"]) == 206
    assert len(made["layer_kinds"]) == len(made["nests"]) < 60


def test_what_is_left_out_for_size_is_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folding, "MOST_NEST_BYTES", 5000)
    monkeypatch.setattr(folding, "MOST_REASONS", 7)
    schedule = long()
    made = data_of(schedule, why_not=why_not(schedule))
    told = [nest for nest in made["nests"] if nest is not None]
    assert 0 < len(told) < len(made["nests"])
    entries, left_out = made["why_not"]["entries"], made["why_not"]["left_out"]
    assert len(entries) == 7
    assert left_out == len(made["edges"]) - 7
    largest = max(schedule.workload[edge.source].stored_words for edge in schedule.workload.edges)
    assert entries[0]["bytes"] == largest


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


def test_the_summary_lists_the_costliest_constraints_and_counts_the_others():
    each = tuple(AskedOne(f"c{i}: cols unrolls only K", i / 100) for i in range(25))
    told = data_of(replace(large(), asked=Asked(each, 0.5)))["summary"]
    assert [one["cost"] for one in told["asked"]["constraints"]] == [i / 100 for i in range(24, 4, -1)]
    assert (told["asked"]["priced"], told["asked"]["more"]) == (True, 5)
    assert told["sentences"][-1] == (
        "Constrained: 50.0% above the best that was found without constraints: c24: cols unrolls only K costs 24.0%; "
        "c23: cols unrolls only K costs 23.0%; c22: cols unrolls only K costs 22.0%; c21: cols unrolls only K costs "
        "21.0%; c20: cols unrolls only K costs 20.0%; 19 more cost less each."
    )
    told = data_of(replace(large(), asked=Asked((AskedOne("c1 is kept as it is"), AskedOne("c1 runs on its own")))))[
        "summary"
    ]
    assert told["sentences"][-1] == "Made under 2 constraints."
    assert not told["asked"]["priced"]
    told = data_of(replace(large(), asked=Asked((AskedOne("c1 runs on its own"),))), rivals=rivals(large()))["summary"]
    assert told["sentences"][1].endswith("the greedy heuristic, which need not keep the constraints.")
    assert data_of(large())["summary"]["asked"] is None


def test_the_summary_of_an_unfused_schedule_does_not_praise_it():
    schedule = plain(large().workload, large().machine)
    evaluation = evaluate(schedule)
    first, second = sentences(evaluation, breakdown(evaluation), rivals(schedule))
    assert first.startswith("29 layers run in 29 groups, each layer on its own.")
    same = "the same as that of"
    assert second == f"Its EDP is {same} the best schedule found without fusion, and {same} the greedy heuristic."
