"""Schedules as ZigZag's files."""

import re
from dataclasses import replace
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fadiff.cost import load_schedule
from fadiff.errors import FadiffError
from fadiff.export import export
from fadiff.export.zigzag import DIM_NAMES, accelerator, mapping_of, workload
from fadiff.hardware import Axis, Bits, Machine, Memory, builtin_machines, load_machine
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.workload import DIMS, Dims, Input, Layer, Workload
from oracle.machines import machine as any_machine
from oracle.mappings import mapping as random_mapping

PRICED = Path(__file__).parents[1] / "schedules2"


@pytest.mark.parametrize("name", builtin_machines())
def test_memories_of_the_catalog_stand_from_the_inside_out_and_serve_the_axes_further_in(name: str):
    machine = load_machine(name)
    told = accelerator(machine)
    assert list(told["memories"]) == [re.sub(r"\W", "_", memory.name) for memory in reversed(machine.memories)]
    array = told["operational_array"]
    assert prod(array["sizes"]) == machine.peak_macs
    sizes = dict(zip(array["dimensions"], array["sizes"], strict=True))
    for memory, found in zip(reversed(machine.memories), told["memories"].values(), strict=True):
        served = prod(sizes[dimension] for dimension in found["served_dimensions"])
        assert served * machine.instances(machine.number[memory.name]) == machine.peak_macs
        assert found["operands"] == [{"W": "I2", "I": "I1", "O": "O"}[tensor] for tensor in memory.keeps]
        # Every operand is read towards the multipliers, and arrives: O from both sides, but not into the first memory.
        ways = sorted(way for port in found["ports"] for way in port["allocation"])
        outer = memory is not machine.memories[0]
        wanted = {"W": ["I2, tl", "I2, fh"], "I": ["I1, tl", "I1, fh"], "O": ["O, tl", "O, fl", "O, fh", "O, th"]}
        assert ways == sorted(w for t in memory.keeps for w in wanted[t] if outer or w[-1] == "l")
        # A bit costs what it does here, whatever the width of a port.
        for kind, cost, energy_pj in (("read", "r_cost", memory.read_pj), ("write", "w_cost", memory.write_pj)):
            widest = max(port["bandwidth_max"] for port in found["ports"] if kind in port["type"])
            assert found[cost] / widest == pytest.approx(energy_pj / memory.word_bits)


def test_rates_are_bits_a_cycle():
    nodes = (
        Memory("DRAM", "WIO", 1, 1, word_bits=16, words_per_cycle=2.5),
        Memory("apart", "WIO", 1, 1, bytes=64, read_words_per_cycle=3, write_words_per_cycle=1),
        Axis("lanes", 4, "K"),
        Memory("free", "O", 1, 1, bytes=8, double_buffered=True),
    )
    told = accelerator(Machine("chip", nodes, 1))["memories"]
    ports = {name: {port["type"]: port["bandwidth_max"] for port in one["ports"]} for name, one in told.items()}
    # Where there is no limit a port has room for a sum for each lane further in.
    assert ports == {"DRAM": {"read_write": 40}, "apart": {"read": 24, "write": 8}, "free": {"read": 32, "write": 32}}
    assert told["free"]["force_double_buffering"]
    assert told["apart"]["size"] == 512


@given(st.integers(0, 2**32))
def test_the_order_of_loops_is_told_where_zigzag_would_take_it(seed: int):
    rng = Random(seed)
    machine = any_machine(rng)
    layer = Layer("layer", "mac", Dims(*(rng.choice((1, 2, 3, 4, 6, 7, 8)) for _ in DIMS)), (Input(None),))
    mapping = random_mapping(rng, machine, Workload("one", (layer,)), Group(("layer",)), layer)
    told = mapping_of(machine, layer, mapping)
    # ZigZag's rule: what is left of a dim after its lanes, rounded up for each dimension of the array.
    left = {DIM_NAMES[dim]: size for dim, size in zip(DIMS, layer.dims, strict=True)}
    for unrolled in told["spatial_mapping"].values():
        for dim, lanes in (text.split(", ") for text in unrolled):
            left[dim] = -(-left[dim] // int(lanes))
    made = dict.fromkeys(left, 1)
    for memory in machine.structure.memories:
        for dim in DIMS:
            made[DIM_NAMES[dim]] *= getattr(mapping.factors[memory], dim)
    assert ("temporal_ordering" in told) is (made == left)
    if "temporal_ordering" in told:
        nest = [
            [DIM_NAMES[dim], getattr(mapping.factors[memory], dim)]
            for memory, order in zip(machine.structure.memories, mapping.orders, strict=True)
            for dim in order
        ]
        assert told["temporal_ordering"][::-1] == [loop for loop in nest if loop[1] > 1]


def test_an_idle_dimension_is_told_so_that_zigzag_does_not_fill_it():
    machine = load_machine("gemmini-small")
    layer = Layer("layer", "mac", Dims(N=4), (Input(None),))
    told = mapping_of(machine, layer, Mapping.of(machine, {"registers": Dims(N=4)}))
    assert told["spatial_mapping"] == {"D1": ["K, 1"], "D2": ["K, 1"]}
    assert told["temporal_ordering"] == [["B", 4]]


def test_strides_and_widths_are_told():
    machine = replace(load_machine("gemmini-small"), bits=Bits(W=4, I=8, O=16, sums=24))
    told = workload(machine, Layer("layer", "mac", Dims(P=4, R=3), (Input(None),), (2, 1), (1, 3)))
    assert told["dimension_relations"] == ["iy=2*oy+1*fy", "ix=1*ox+3*fx"]
    assert told["operand_precision"] == {"W": 4, "I": 8, "O": 24, "O_final": 16}


def remarks_of(schedule: Schedule) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = {}
    for remark in export(schedule, "zigzag").remarks:
        found.setdefault(remark.layer, []).append(remark.text)
    return found


def test_what_zigzag_cannot_be_told_is_remarked():
    cut = load_schedule(PRICED / "eyeriss_conv_s2_cut.json")
    (layer,) = cut.workload.layers
    assert "are cut at their end: the order of loops is left out" in remarks_of(cut)[layer.name][0]
    idle = load_schedule(PRICED / "gemmini_conv.json")
    (layer,) = idle.workload.layers
    assert remarks_of(idle)[layer.name][1].startswith("not all lanes over C are in use the last time: ")
    exact = load_schedule(PRICED / "os_conv.json")
    (layer,) = exact.workload.layers
    assert "which memory each loop belongs to is left out" in remarks_of(exact)[layer.name][0]
    spilling = load_schedule(PRICED / "os_gemm_spill.json")
    assert "unfinished sums go to DRAM with 16 bits: they count as values of 32" in remarks_of(spilling)["fc"]


def test_a_rate_of_no_whole_bits_is_remarked():
    schedule = load_schedule(PRICED / "os_conv.json")
    first, *others = schedule.machine.nodes
    slow = replace(schedule.machine, nodes=(replace(first, words_per_cycle=0.3), *others))
    assert remarks_of(replace(schedule, machine=slow))[None] == [
        "DRAM moves 2.4 bits a cycle: the files say a whole number"
    ]


def test_more_axes_than_zigzag_knows_are_refused():
    nodes: list[Any] = [Memory("DRAM", "WIO", 1, 1), *(Axis(f"a{i}", 2, "K") for i in range(5))]
    machine = Machine("five", (*nodes, Memory("sums", "O", 1, 1, bytes=64)), 1)
    layer = Layer("layer", "mac", Dims(N=4), (Input(None),))
    mapping = {"layer": Mapping.of(machine, {"sums": Dims(N=4)})}
    schedule = Schedule(Workload("one", (layer,)), machine, (Group(("layer",)),), mapping)
    with pytest.raises(FadiffError, match="has 5 axes, and ZigZag's mappings know 4 dimensions: join some of them"):
        export(schedule, "zigzag")


def test_files_hold_no_anchors_and_one_layer_each():
    exported = export(load_schedule(PRICED / "nvdla_bottleneck.json"), "zigzag")
    for path, text in exported.files.items():
        assert "&id" not in text
        if path.endswith("mapping.yaml"):
            (mapping,) = yaml.safe_load(text)
            assert mapping["name"] == "default"
