"""The greedy schedule: legal on every machine, the same every time, and a kind word where nothing fits."""

import time
from dataclasses import replace
from math import prod

import pytest

from fadiff.cost import evaluate
from fadiff.errors import FadiffError
from fadiff.hardware import builtin_machines, load_machine
from fadiff.schedule.rules import violations
from fadiff.search import greedy
from fadiff.search.greedy import growing
from fadiff.workload import Dims, Workload, load_model, zoo_names
from search.networks import (
    FLAT,
    GEMMINI,
    MACHINES,
    NETWORKS,
    SIMBA,
    add,
    at_dram,
    mac,
    machine_with,
    network,
    sized,
)


@pytest.fixture(scope="module")
def beginnings():
    """The first layers of every network of the zoo, side by side."""
    layers = []
    for name in zoo_names():
        workload = load_model(name)
        for layer in [workload[member] for member in workload.topological[:3]]:
            inputs = tuple(replace(o, source=o.source and f"{name} {o.source}") for o in layer.inputs)
            layers.append(replace(layer, name=f"{name} {layer.name}", inputs=inputs))
    return Workload("beginnings", tuple(layers))


@pytest.mark.parametrize("name", builtin_machines())
def test_the_schedule_is_legal_on_every_machine(name, beginnings):
    schedule = greedy(beginnings, load_machine(name))
    assert violations(schedule) == []
    assert schedule.fused_edges == ()


@pytest.mark.parametrize("name", ["gemmini-small", "eyeriss", "simba", "ascend-like-df"])
def test_the_schedule_is_the_same_every_time(name):
    machine = load_machine(name)
    for workload in NETWORKS.values():
        assert greedy(workload, machine) == greedy(workload, machine)


@pytest.mark.parametrize("name", builtin_machines())
def test_a_schedule_of_coarse_tiles_comes_first(name, beginnings):
    coarse, fine = growing(beginnings, load_machine(name))
    assert violations(coarse) == []
    assert fine == greedy(beginnings, load_machine(name))
    edps = [evaluate(schedule).layer_energy_pj * evaluate(schedule).layer_cycles for schedule in (coarse, fine)]
    assert (edps[1] <= edps[0] * (1 + 1e-9)).all()
    assert edps[1].sum() < edps[0].sum()


def test_layers_that_are_not_reached_in_time_keep_coarse_tiles(beginnings):
    coarse, fine = growing(beginnings, GEMMINI)
    assert greedy(beginnings, GEMMINI, deadline=time.monotonic()) == coarse != fine


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_every_layer_is_better_than_with_all_its_loops_at_dram(machine):
    for workload in NETWORKS.values():
        found, least = evaluate(greedy(workload, machine)), evaluate(at_dram(workload, machine))
        macs = [i for i, layer in enumerate(workload.layers) if layer.is_mac]
        edps = [(e.layer_energy_pj * e.layer_cycles)[macs] for e in (found, least)]
        assert (edps[0] < edps[1]).all()


def test_identical_layers_are_mapped_alike():
    mappings = greedy(
        network(mac("a", "K4 C4 P4 Q4"), mac("b", "K4 C4 P4 Q4", "a", epilogue=("relu",))), SIMBA
    ).mappings
    assert mappings["a"] == mappings["b"]


def test_a_layer_of_ones_needs_no_search():
    (mapping,) = greedy(network(mac("a", "K1")), GEMMINI).mappings.values()
    assert mapping.factors == (Dims(),) * 6


def test_a_network_of_sums_has_nothing_to_map():
    schedule = greedy(network(add("a", "K4 P4", None, None)), GEMMINI)
    assert schedule.mappings == {}
    assert violations(schedule) == []


@pytest.mark.parametrize("tokens", [197, 1009, 4099])
def test_sizes_without_small_factors_are_tiled_too(tokens):
    schedule = greedy(network(mac("a", f"N{tokens} K{tokens} C64")), load_machine("gemmini-small"))
    assert violations(schedule) == []
    lanes = prod(schedule.mappings["a"].factors[2])
    assert lanes > 12
    assert prod(prod(f) for f in schedule.mappings["a"].factors) > tokens**2 * 64, "ends are cut"


def test_the_smallest_machine_that_fits_is_enough():
    smallest = sized(GEMMINI, scratchpad=2, accumulator=4)
    assert violations(greedy(NETWORKS["conv_chain"], smallest)) == []
    # Finished outputs are narrower than sums: the buffer holds one of each tensor.
    assert violations(greedy(NETWORKS["conv_chain"], sized(FLAT, buffer=3, spad=5))) == []


def test_a_value_that_becomes_four_must_fit_too():
    grown = network(mac("a", "K2 C2 P2 Q2", epilogue=("upsample",), out=(4, 4)))
    assert violations(greedy(grown, sized(FLAT, buffer=6))) == []
    with pytest.raises(FadiffError) as refused:
        greedy(grown, sized(FLAT, buffer=3))
    assert str(refused.value) == (
        "layer 'a' fits flat in no way: "
        "it needs 6 bytes of buffer for one value of W and I and O, 3 are there (3 too few)"
    )


@pytest.mark.parametrize(
    ("machine", "lack"),
    [
        (
            sized(GEMMINI, accumulator=3),
            "4 bytes of accumulator for one value of O, 3 are there (1 too few)",
        ),
        (
            sized(GEMMINI, scratchpad=1),
            "2 bytes of scratchpad for one value of W and I, 1 are there (1 too few)",
        ),
        (
            machine_with(GEMMINI, {"accumulator": {"bytes": 6, "double_buffered": True}}),
            "4 bytes of accumulator for one value of O, 3 are there (1 too few)",
        ),
        (
            sized(FLAT, buffer=2, spad=4),
            "3 bytes of buffer for one value of W and I and O, 2 are there (1 too few) and "
            "5 bytes of spad for one value of W and O, 4 are there (1 too few)",
        ),
        (
            sized(FLAT, buffer=4, spad=2),
            "5 bytes of spad for one value of W and O, 2 are there (3 too few)",
        ),
    ],
    ids=["sums", "operands", "half of them", "two memories", "only what lacks"],
)
def test_a_layer_that_fits_in_no_way_is_told_with_tensor_memory_and_missing_bytes(machine, lack):
    with pytest.raises(FadiffError) as refused:
        greedy(NETWORKS["feed_forward"], machine)
    assert str(refused.value) == f"layer 'up' fits {machine.name} in no way: it needs {lack}"
