"""What if: every number against the exact evaluator on a changed machine."""

import json
from dataclasses import asdict, replace
from math import log
from random import Random

import numpy as np
import pytest

from analysis.mappings import alone, mapped
from fadiff.analysis import what_if as what_if_module
from fadiff.analysis.machine_numbers import changed, machine_numbers
from fadiff.analysis.what_if import what_if
from fadiff.analysis.why_not import why_not
from fadiff.cost import evaluate
from fadiff.hardware import Axis, load_machine, row_bits, word_pj
from fadiff.schedule import Schedule
from fadiff.schedule.rules import violations
from fadiff.search import greedy
from fadiff.search.explain import climbs
from fadiff.search.explain.climbs import remapped
from search.networks import (
    EYERISS,
    GEMMINI,
    NETWORKS,
    PLAIN,
    SIMBA,
    add,
    draw_mapping,
    group,
    mac,
    machine_with,
    network,
    sized,
)

READS_AND_WRITES = {"words_per_cycle": None, "read_words_per_cycle": 1.0, "write_words_per_cycle": 3.0, "write_pj": 2.0}


def plans():
    """Small schedules: layers on their own, a fused group, transfers that do not overlap, and machines of all kinds."""
    for name in ("conv_chain", "residual"):
        yield name, greedy(NETWORKS[name], GEMMINI)
    yield "fused", replace(greedy(NETWORKS["residual"], GEMMINI), groups=(group("a b s c"),))
    yield "serial", greedy(NETWORKS["conv_chain"], machine_with(GEMMINI, overlap="none"))
    yield "rates", greedy(NETWORKS["residual"], machine_with(GEMMINI, {"scratchpad": READS_AND_WRITES}))
    yield "plain", greedy(NETWORKS["separable"], PLAIN)
    yield "rows", greedy(NETWORKS["residual"], EYERISS)
    yield "pes", greedy(NETWORKS["attention"], SIMBA)
    for name in ("eyeriss", "simba", "tpu-v1"):
        yield name, greedy(NETWORKS["conv_chain"], load_machine(name))


@pytest.fixture(scope="module", params=plans(), ids=lambda plan: plan[0])
def case(request):
    evaluation = evaluate(request.param[1])
    assert violations(evaluation.schedule) == []
    return evaluation, {one.name: one for one in what_if(evaluation).sensitivities}


def numbers(evaluation, *kinds):
    return [number for number in machine_numbers(evaluation.schedule.machine) if number.kind in kinds]


def on(evaluation, number, factor):
    """The exact cost of the same schedule with one number of its machine multiplied."""
    machine = changed(evaluation.schedule.machine, number, factor)
    return evaluate(replace(evaluation.schedule, machine=machine)).edp_uj_cycles


def test_every_number_of_the_machine_is_told(case):
    evaluation, found = case
    told = set()
    for node in evaluation.schedule.machine.nodes:
        keys = ("size",) if isinstance(node, Axis) else (
            "bytes", "words_per_cycle", "read_words_per_cycle", "write_words_per_cycle", "read_pj", "write_pj",
        )  # fmt: skip
        told |= {f"{node.name}.{key}" for key in keys if getattr(node, key) is not None}
    names = [name.replace("read_pj+write_pj", "read_pj") for name in found]
    names += [name.replace("read_pj+write_pj", "write_pj") for name in found]
    assert set(names) == told | {"mac_pj"}
    assert len({one.label for one in found.values()}) == len(found)


def test_rates_and_energies_are_derivatives_of_the_exact_cost(case):
    evaluation, found = case
    for number in numbers(evaluation, "rate", "energy"):
        one = found[number.name]
        assert one.how == "fixed schedule"
        for factor, elasticity in ((1 + 1e-5, one.elasticity), (1 - 1e-5, one.elasticity_shrinking)):
            secant = log(on(evaluation, number, factor) / evaluation.edp_uj_cycles) / log(factor)
            assert elasticity == pytest.approx(secant, abs=2e-5), number.name


def test_twice_a_rate_or_energy_is_priced_exactly(case):
    evaluation, found = case
    for number in numbers(evaluation, "rate", "energy"):
        expected = on(evaluation, number, 2) / evaluation.edp_uj_cycles - 1
        assert found[number.name].doubled_edp_change == pytest.approx(expected, abs=1e-12)


def test_parts_belong_together(case):
    evaluation, found = case
    for one in found.values():
        assert one.elasticity == pytest.approx(one.energy_elasticity + one.cycles_elasticity)
        assert one.meaning
    energies = sum(found[number.name].elasticity for number in numbers(evaluation, "energy"))
    assert energies == pytest.approx(1.0)  # all energies 1% dearer: 1% more energy, the same time


def test_more_memory_and_more_lanes_never_hurt(case):
    evaluation, found = case
    for number in numbers(evaluation, "capacity", "lanes"):
        one = found[number.name]
        assert one.elasticity <= 0
        assert one.doubled_edp_change <= 1e-9
        assert (one.how, one.elasticity_shrinking) == ("mapping follows", None)


def test_twice_the_capacity_is_a_legal_schedule_of_the_same_groups(case):
    evaluation, found = case
    for number in numbers(evaluation, "capacity", "lanes")[:3]:
        larger = changed(evaluation.schedule.machine, number, 2)
        after = remapped(evaluation, larger)
        assert violations(after.schedule) == []
        assert after.schedule.groups == evaluation.schedule.groups
        assert after.schedule.machine == larger
        expected = after.edp_uj_cycles / evaluation.edp_uj_cycles - 1
        assert found[number.name].doubled_edp_change == pytest.approx(expected)


def test_dearer_accesses_follow_the_sram_model(case):
    evaluation, found = case
    machine, spent = evaluation.schedule.machine, evaluation.energy_by_node_pj()
    for memory in machine.memories[1:]:
        rates = (memory.words_per_cycle, memory.read_words_per_cycle, memory.write_words_per_cycle)
        rows = row_bits(memory.word_bits, *rates)
        low, high = (np.log(word_pj(memory.bytes * f, float(memory.word_bits), rows)) for f in (1 - 1e-5, 1 + 1e-5))
        expected = (high - low) / 2e-5 * spent[memory.name] / evaluation.energy_pj
        assert found[f"{memory.name}.bytes"].access_energy_elasticity == pytest.approx(expected, abs=1e-6)
    for axis in machine.axes:
        assert found[f"{axis.name}.size"].access_energy_elasticity is None


def test_a_machine_that_is_too_small_has_no_schedule():
    evaluation = evaluate(greedy(NETWORKS["residual"], GEMMINI))
    assert remapped(evaluation, sized(GEMMINI, scratchpad=2)) is None


@pytest.mark.parametrize("machine", [GEMMINI, EYERISS, SIMBA], ids=lambda machine: machine.name)
def test_layers_mapped_anew_never_cost_more(machine):
    """Whatever the loop orders: those that no search would look at are the present ones too."""
    random, roomy = Random(1), sized(machine, **{memory.name: 1 << 20 for memory in machine.memories[1:]})
    for _ in range(6):
        workload = NETWORKS["conv_chain"]
        mappings = {layer.name: draw_mapping(random, roomy, layer.dims) for layer in workload.layers}
        given = evaluate(Schedule(workload, roomy, tuple(map(group, mappings)), mappings))
        assert violations(given.schedule) == []
        assert remapped(given, roomy).edp_uj_cycles <= given.edp_uj_cycles


def test_mappings_that_nothing_improves_stay_as_they_are():
    """Also where their loops run in an order that no search would look at."""
    best = remapped(evaluate(greedy(NETWORKS["residual"], GEMMINI)), GEMMINI).schedule
    turned = {name: replace(m, orders=(*m.orders[:-1], m.orders[-1][::-1])) for name, m in best.mappings.items()}
    given = evaluate(replace(best, mappings=turned))
    assert remapped(given, GEMMINI).schedule.mappings == turned


FAST = machine_with(
    sized(GEMMINI, accumulator=512),
    {"DRAM": {"words_per_cycle": 4096}, "scratchpad": {"words_per_cycle": 4096}},
)
"""A machine on which compute binds."""


def sensitivities(schedule):
    assert violations(schedule) == []
    return {one.name: one for one in what_if(evaluate(schedule)).sensitivities}


def test_a_full_array_makes_a_bound_layer_faster_in_proportion():
    """All rows and columns are in use, and channels are left: 1% more rows, 1% fewer cycles."""
    layer = mac("a", "N64 K8 C8")
    found = sensitivities(alone(layer, FAST, cols="K4", accumulator="K2 C2", rows="C4", registers="N64"))
    for axis in ("rows.size", "cols.size"):
        assert found[axis].cycles_elasticity == pytest.approx(-1, abs=1e-6)
        assert found[axis].doubled_edp_change < -0.45


def test_one_lane_more_counts_as_a_percent():
    """Another row halves the time: a half percent of rows, told for one percent."""
    layer, machine = mac("a", "N64 K8 C201"), sized(FAST, rows=200, scratchpad=1 << 16)
    found = sensitivities(alone(layer, machine, cols="K4", accumulator="K2 C2", rows="C200", registers="N64"))
    assert found["rows.size"].cycles_elasticity == pytest.approx(log(0.5) / 0.01)


def test_an_array_with_room_gains_nothing_from_more():
    found = sensitivities(alone(mac("a", "N64 K3 C3"), FAST, cols="K3", rows="C3", registers="N64"))
    for axis in ("rows.size", "cols.size"):
        assert found[axis].elasticity == 0
        assert found[axis].doubled_edp_change == 0


def dear(memory, machine, **nodes):
    """One matrix product on a machine where accesses of one memory cost nearly everything."""
    costly = machine_with(machine, {memory: {"read_pj": 1000.0, "write_pj": 1000.0}})
    return alone(mac("a", "N64 K64 C16"), costly, **nodes)


CAPACITIES = {
    # Inputs are fetched anew for every tile of K, and those tiles fill the scratchpad.
    "scratchpad.bytes": dear(
        "DRAM", sized(GEMMINI, scratchpad=192),
        DRAM="K8 N16", scratchpad="K2", cols="K4", accumulator="C4", rows="C4", registers="N4",
    ),
    # Registers are loaded anew for every tile of N, and those tiles fill the accumulator.
    "accumulator.bytes": dear(
        "scratchpad", sized(GEMMINI, scratchpad=4096, accumulator=256),
        scratchpad="N16", cols="K4", accumulator="K16 C4", rows="C4", registers="N4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CAPACITIES)
def test_capacity_elasticities_agree_with_mapping_anew_at_twice_the_capacity(name):
    """Tiles double with the memory: doubling gains what the elasticity says, but for curvature."""
    found = sensitivities(CAPACITIES[name])[name]
    assert found.elasticity < -0.1
    assert found.doubled_edp_change == pytest.approx(2**found.elasticity - 1, rel=0.3)


def test_a_memory_that_could_only_grow_with_another_one_has_no_price_of_its_own():
    """Inputs are fetched anew for every tile of K. In the accumulator a larger one needs more scratchpad too."""
    machine = sized(GEMMINI, scratchpad=192, accumulator=32)
    found = sensitivities(
        dear("DRAM", machine, DRAM="K8 N16", cols="K4", accumulator="K2 C4", rows="C4", registers="N4")
    )
    assert found["scratchpad.bytes"].elasticity < -0.1
    assert found["accumulator.bytes"].elasticity == 0


def energy_gained(machine, layers, mappings, one_group=group("u v")):
    """What the scratchpad's elasticity is in pJ, of a group of layers on the 2x2 array of a machine."""
    array = {"cols": "K2", "rows": "C2"}
    named = {layer.name: mapped(machine, **array, **nodes) for layer, nodes in zip(layers, mappings, strict=True)}
    schedule = Schedule(network(*layers), machine, (one_group,), named)
    return sensitivities(schedule)["scratchpad.bytes"].energy_elasticity * evaluate(schedule).energy_pj


def test_every_layer_of_a_group_uses_the_same_byte_in_its_turn():
    """Tiles that pass take turns: what a pair gains from a byte is what each of its layers gains.

    The tensor between them is whole on chip. Layers of many channels fetch their input anew for every tile of K.
    """
    machine = sized(GEMMINI, scratchpad=64 * 16 + 192, accumulator=512, rows=2, cols=2)
    refetching_u = mac("u", "N64 K16 C16"), {"DRAM": "K4 N8", "accumulator": "K2 C8", "registers": "N8"}
    streaming_u = mac("u", "N64 K16 C4"), {"DRAM": "N8", "accumulator": "K8 C2", "registers": "N8"}
    refetching_v = mac("v", "N64 K16 C32", "u", None), {"DRAM": "K8 N8", "accumulator": "C16", "registers": "N8"}
    streaming_v = mac("v", "N64 K2 C32", "u", None), {"DRAM": "N8", "accumulator": "C16", "registers": "N8"}
    pairs = ((refetching_u, streaming_v), (streaming_u, refetching_v), (refetching_u, refetching_v))
    first, second, both = (energy_gained(machine, *zip(u, v, strict=True)) for u, v in pairs)
    assert max(first, second) < 0
    assert both == pytest.approx(first + second, rel=0.05)


def test_a_tile_that_stays_takes_its_bytes_from_all_layers_of_a_group():
    """Weights that become whole stay over all iterations of N: of two layers, one gets what the scratchpad gains."""
    machine = sized(GEMMINI, scratchpad=448, accumulator=512, rows=2, cols=2)
    parts = {"DRAM": "N8 K2", "accumulator": "K4 C8", "registers": "N8"}
    whole = {"DRAM": "N8", "accumulator": "C8", "registers": "N8"}
    u, wide, narrow = mac("u", "N64 K16 C16"), mac("v", "N64 K16 C16", "u"), mac("v", "N64 K2 C16", "u")
    one = energy_gained(machine, (u, narrow), (parts, whole), group("u v", "N8"))
    both = energy_gained(machine, (u, wide), (parts, parts), group("u v", "N8"))
    assert one < 0
    assert both == pytest.approx(one, rel=0.2)


def test_the_strongest_come_first_and_all_is_plain_data():
    small = evaluate(greedy(NETWORKS["separable"], GEMMINI))
    once, again = what_if(small), what_if(small)
    assert once == again
    sizes = [abs(one.elasticity) for one in once.sensitivities]
    assert sizes == sorted(sizes, reverse=True)
    assert "local" in once.caveat
    assert json.dumps(asdict(once), allow_nan=False)


def test_a_machine_without_energies_has_no_elasticities():
    none = {memory.name: {"read_pj": 0.0, "write_pj": 0.0} for memory in GEMMINI.memories}
    free = machine_with(GEMMINI, none, mac_pj=0.0)
    plan = replace(greedy(NETWORKS["separable"], GEMMINI), machine=free)
    found = what_if(evaluate(plan))
    assert found.sensitivities == ()
    assert "EDP is 0" in found.caveat
    assert [one.cause for one in why_not(evaluate(plan))] == ["not searched"]


def test_a_network_of_sums_answers_to_bandwidth_and_lanes_only():
    """Sums are added in all lanes at once, whatever the mapping; here the accumulators set the time."""
    slow = machine_with(GEMMINI, {"accumulator": {"words_per_cycle": 0.1}})
    plan = Schedule(network(add("s", "K8 P4 Q4", None, None)), slow, (group("s"),), {})
    found = {one.name: one.elasticity for one in what_if(evaluate(plan)).sensitivities}
    assert found["scratchpad.bytes"] == found["accumulator.bytes"] == found["rows.size"] == found["mac_pj"] == 0
    assert found["accumulator.words_per_cycle"] == pytest.approx(-1)
    assert found["cols.size"] == pytest.approx(-1)


def test_of_more_layers_than_there_is_time_for_the_costliest_are_mapped_anew(monkeypatch):
    evaluation = evaluate(greedy(NETWORKS["conv_chain"], sized(GEMMINI, scratchpad=40, cols=2, rows=2)))
    everything = {one.name: one.doubled_edp_change for one in what_if(evaluation).sensitivities}
    assert "mapped anew" not in what_if(evaluation).caveat
    for module in (climbs, what_if_module):
        monkeypatch.setattr(module, "MOST_MOVES", 1)
    less = what_if(evaluation)
    assert less.caveat.endswith("different layers the 1 that cost most are mapped anew.")
    doubled = {one.name: one.doubled_edp_change for one in less.sensitivities}
    assert all(doubled[name] >= change - 1e-12 for name, change in everything.items())
    assert doubled != everything
