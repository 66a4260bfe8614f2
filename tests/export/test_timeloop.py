"""Schedules as Timeloop's files: what they say, what Timeloop measured of them, and the way back."""

import csv
import gzip
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fadiff.cost import evaluate, load_schedule
from fadiff.export import export
from fadiff.export.alone import layers_alone
from fadiff.export.timeloop import TENSOR_NAMES, architecture, energies, mapping_of, problem, remainders
from fadiff.export.timeloop_mappings import Directive, mapping_from, read_mappings
from fadiff.hardware import Axis, Bits, Machine, Memory, builtin_machines, load_machine
from fadiff.reproduce.timeloop.compare import compare
from fadiff.reproduce.timeloop.reference import Case, Reference, read_references
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.workload import DIMS, Dims, Input, Layer, Workload
from oracle.machines import machine as any_machine
from oracle.mappings import mapping as random_mapping
from oracle.schedules import KINDS, draw

PRICED = Path(__file__).parents[1] / "schedules2"
SEEDS = st.integers(0, 2**32)


def read_back(text: str, layer: Layer, machine: Machine) -> Mapping:
    return mapping_from([Directive(**entry) for entry in yaml.safe_load(text)["mapping"]], layer, machine)


def layer_of(told: dict[str, Any]) -> Layer:
    """The layer that a problem describes, from its numbers alone."""
    shape, numbers = told["problem"]["shape"], told["problem"]["instance"]
    stride, dilation = (numbers["Pstride"], numbers["Qstride"]), (numbers["Rdilation"], numbers["Sdilation"])
    dims = Dims(**{dim: numbers[dim] for dim in shape["dimensions"]})
    return Layer(shape["name"], "mac", dims, (Input(None),), stride, dilation)


# The way back.


@given(SEEDS)
def test_a_mapping_that_is_written_and_read_is_the_same(seed: int):
    rng = Random(seed)
    machine = load_machine(rng.choice(builtin_machines())) if rng.random() < 0.5 else any_machine(rng)
    dims = Dims(*(rng.choice((1, 2, 3, 4, 5, 7, 8, 12, 17)) for _ in DIMS))
    layer = Layer("layer", "mac", dims, (Input(None),), (rng.randint(1, 3), 1), (1, rng.randint(1, 2)))
    workload, group = Workload("one", (layer,)), Group(("layer",))
    mapping = random_mapping(rng, machine, workload, group, layer)
    told = yaml.safe_dump(mapping_of(machine, layer, mapping), sort_keys=False)
    assert read_back(told, layer, machine) == mapping
    assert replace(layer_of(problem(layer)), name="layer") == layer


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", KINDS)
def test_layers_of_random_schedules_come_back_as_they_run_alone(kind: str, seed: int):
    schedule = draw(kind, seed)
    apart, remarks = layers_alone(schedule)
    files = export(schedule, "timeloop").files
    for path, text in files.items():
        if path.endswith("mapping.yaml"):
            layer = layer_of(yaml.safe_load(files[path.replace("mapping", "problem")]))
            assert read_back(text, layer, schedule.machine) == apart.mappings[layer.name]
    for group in schedule.groups:
        fused = len(group.layers) > 1 or group.iterations > 1
        for name in group.layers:
            assert any(remark.lost and remark.layer == name for remark in remarks) >= fused
            assert fused or schedule.mappings.get(name) == apart.mappings.get(name)


@pytest.mark.parametrize("file", sorted(PRICED.glob("*.json")), ids=lambda path: path.stem)
def test_priced_files_without_fusion_keep_their_cost(file: Path, tmp_path: Path):
    schedule = load_schedule(file)
    exported = export(schedule, "timeloop")
    if any(len(group.layers) > 1 or group.iterations > 1 for group in schedule.groups):
        assert any("fused" in remark.text or "shares" in remark.text for remark in exported.lost)
        return
    exported.save(tmp_path / "out")
    again = read_mappings(tmp_path / "out", schedule.workload, schedule.machine)
    assert again.mappings == schedule.mappings
    assert evaluate(again).stated() == evaluate(schedule).stated()


# What is written, against Timeloop's own rules.


def indices(ends: list[int], last: list[int]) -> Iterator[int]:
    """The indices that a nest visits by Timeloop's rule, loops outer to inner: a loop ends where it always does, or
    at its remainder where all loops outside are in their last iteration."""

    def inside(depth: int, offset: int, at_end: bool) -> Iterator[int]:
        if depth == len(ends):
            yield offset
            return
        until, step = last[depth] if at_end else ends[depth], prod(ends[depth + 1 :])
        for i in range(until):
            yield from inside(depth + 1, offset + i * step, at_end and i == until - 1)

    return inside(0, 0, True)


@given(SEEDS)
def test_loops_with_remainders_visit_every_index_once(seed: int):
    rng = Random(seed)
    machine = any_machine(rng)
    layer = Layer("layer", "mac", Dims(*(rng.randint(1, 30) for _ in DIMS)), (Input(None),))
    mapping = random_mapping(rng, machine, Workload("one", (layer,)), Group(("layer",)), layer)
    for ends, last, size in zip(
        zip(*mapping.factors, strict=True), zip(*remainders(layer.dims, mapping), strict=True), layer.dims, strict=True
    ):
        assert sorted(indices(list(ends), list(last))) == list(range(size))
        # The check of Timeloop's parser.
        index = 0
        for end, remainder in zip(ends, last, strict=True):
            index = index * end + remainder - 1
        assert index + 1 == size


def test_orders_and_factors_are_those_that_timeloop_ran():
    """The Gemminis' table names them as Timeloop read them, inner to outer, by level from the registers out."""
    table = resources.files("fadiff.reproduce.timeloop") / "data" / "timeloop_reference.csv.gz"
    with table.open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8", newline="") as text:
        rows = {row["id"]: row for row in csv.DictReader(text)}
    levels = {"registers": 0, "accumulator": 1, "scratchpad": 2, "DRAM": 3}
    for reference in read_references()[:2]:
        for case in reference.cases[::40]:
            row = rows[case.layer.name]
            channel = "G" if row["shape"] == "dw" else "K"
            for entry in mapping_of(reference.machine, case.layer, case.mapping)["mapping"]:
                if entry["type"] != "temporal" or entry["target"] not in levels:
                    continue
                level = levels[entry["target"]]
                theirs = row[f"perm_L{level}_inner_to_outer"].replace("K", channel)
                assert [dim for dim in entry["permutation"] if dim in theirs] == list(theirs)
                found = dict(re.findall(r"(\w)=(\d+)", entry["factors"]))
                for dim in "NKCPQRS":
                    assert found[channel if dim == "K" else dim] == row[f"T{level}_{dim}"]


@pytest.mark.parametrize("reference", read_references(), ids=lambda reference: reference.machine.name)
def test_exported_rows_of_the_validation_have_the_counts_that_timeloop_measured(reference: Reference):
    machine, cases = reference.machine, list[Case]()
    for case in reference.cases[::12]:
        layer = layer_of(problem(case.layer))
        told = yaml.safe_dump(mapping_of(machine, case.layer, case.mapping))
        cases.append(case._replace(layer=layer, mapping=read_back(told, layer, machine)))
    layers = tuple(case.layer for case in cases)
    mappings = {case.layer.name: case.mapping for case in cases}
    schedule = Schedule(Workload("rows", layers), machine, tuple(Group((one.name,)) for one in layers), mappings)
    found = compare(Reference(schedule, cases))
    assert not found.unexplained
    assert np.all(found.equal | found.reference.flagged | np.isin([one.name for one in layers], [
        difference.row for difference in found.differences
    ]))  # fmt: skip
    assert found.equal.mean() > 0.9


# The machine.


def test_levels_are_those_of_the_list_and_an_axis_fans_out():
    machine = load_machine("gemmini-small")
    (top,) = architecture(machine)["architecture"]["subtree"]
    names = [level["name"] for level in top["local"]]
    assert names == [
        "DRAM[1..1]", "scratchpad[1..1]", "inter_cols_spatial[1..1]", "accumulator[1..16]",
        "inter_rows_spatial[1..16]", "registers[1..256]", "MACs[1..256]",
    ]  # fmt: skip
    assert [level["attributes"]["meshX"] for level in top["local"]] == [1, 1, 1, 16, 16, 256, 256]
    assert [table["name"].removeprefix("system.") for table in energies(machine)["ERT"]["tables"]] == [
        name for name in names if "inter" not in name
    ]


def test_numbers_are_those_of_a_value_not_of_a_word():
    nodes = (
        Memory("DRAM", "WIO", 10, 20, word_bits=32, words_per_cycle=3),
        Memory("sums", "O", 1, 2, bytes=100, word_bits=8, read_words_per_cycle=4, double_buffered=True),
    )
    machine = Machine("two", nodes, 0.5, Bits(W=16, I=16, O=16, sums=32))
    (top,) = architecture(machine)["architecture"]["subtree"]
    dram, sums, _ = (level["attributes"] for level in top["local"])
    assert dram == {"width": 16, "datawidth": 16, "block_size": 1, "multiple_buffering": 1, "shared_bandwidth": 6,
                    "meshX": 1, "meshY": 1}  # fmt: skip
    # 50 bytes are usable, 12 sums; and both halves of the memory are there.
    assert (sums["depth"], sums["multiple_buffering"], sums["read_bandwidth"]) == (24, 2, 1)
    of_dram, of_sums, of_macs = (table["actions"] for table in energies(machine)["ERT"]["tables"])
    assert {action["name"]: action["energy"] for action in of_dram} == {"read": 5, "write": 10, "update": 10, "leak": 0}
    assert {action["name"]: action["energy"] for action in of_sums} == {"read": 4, "write": 8, "update": 8, "leak": 0}
    assert of_macs[0] == {"name": "compute", "arguments": {}, "energy": 0.5}


def test_names_that_timeloop_could_not_read_are_made_plain_and_read_back():
    nodes = (
        Memory("main memory", "WIO", 1, 1),
        Axis("x/y", 4, "K"),
        Memory("main.memory", "WIO", 1, 1, bytes=1000),
        Memory("MACs", "O", 1, 1, bytes=1000),
    )
    machine, layer = Machine("odd names", nodes, 1), Layer("layer", "mac", Dims(K=8, C=3), (Input(None),))
    mapping = Mapping.of(machine, {"x/y": Dims(K=4), "main.memory": Dims(K=2, C=3)}, {"main.memory": "CKGNPQRS"})
    told = mapping_of(machine, layer, mapping)
    targets = {entry["target"] for entry in told["mapping"]}
    assert targets == {"main_memory", "inter_x_y_spatial", "main_memory_2", "MACs_2"}
    assert read_back(yaml.safe_dump(told), layer, machine) == mapping


def test_every_tensor_is_kept_or_bypassed_at_every_level():
    schedule = load_schedule(PRICED / "gemmini_conv.json")
    layer = schedule.workload.layers[0]
    for entry in mapping_of(schedule.machine, layer, schedule.mappings[layer.name])["mapping"]:
        if entry["type"] == "datatype":
            assert sorted(entry["keep"] + entry["bypass"]) == sorted(TENSOR_NAMES.values())


def test_projections_name_the_dims_that_tensors_depend_on():
    told = problem(Layer("layer", "mac", Dims(2, 3, 4, 5, 6, 7, 3, 2), (Input(None),), (2, 1), (1, 3)))
    layer, shape = layer_of(told), told["problem"]["shape"]
    sizes = told["problem"]["instance"]
    for space, words in zip(
        shape["data_spaces"], (layer.weight_words, layer.input_words, layer.output_words), strict=True
    ):
        # A rank holds as many values as its largest index, and one: that of the last iteration of its loops.
        ranks = [1 + sum((sizes[d] - 1) * prod(sizes[c] for c in scale) for d, *scale in rank)
                 for rank in space["projection"]]  # fmt: skip
        assert prod(ranks) == words
