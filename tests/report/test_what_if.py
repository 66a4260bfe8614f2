"""What if: every number against the exact evaluator at a perturbed machine."""

import json
from dataclasses import asdict, replace
from math import log

import numpy as np
import pytest

from execute.builders import add, alone, group, mac, schedule, tiled
from fadiff.cost import evaluate
from fadiff.cost.arrays import pack_hardware, pack_layers, pack_schedule
from fadiff.hardware import l1_pj, l2_pj
from fadiff.report.elasticities import along, slopes, tangent_of
from fadiff.report.remap import remapped
from fadiff.report.what_if import DIRECT, changed, directions, what_if
from fadiff.report.why_not import why_not
from fadiff.schedule import Schedule
from fadiff.schedule.legality import violations
from fadiff.search import greedy
from fadiff.workload import Workload
from search.networks import MACHINE, NETWORKS, machine
from search.rows import use_few_programs

FOLLOWING = ("l2_bytes", "l1_bytes", "rows", "cols", "pes")


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    with pytest.MonkeyPatch.context() as patch:
        use_few_programs(patch)
        yield


def plans():
    """Small schedules: layers on their own, a fused group, a channel loop, transfers that do not overlap."""
    for name in ("conv_chain", "residual", "separable"):
        yield name, greedy(NETWORKS[name], MACHINE)
    yield "residual, fused", replace(greedy(NETWORKS["residual"], MACHINE), groups=(group("a b s c"),))
    yield "serial", greedy(NETWORKS["conv_chain"], machine(overlap="none"))


@pytest.fixture(scope="module", params=plans(), ids=lambda plan: plan[0])
def case(request):
    evaluation = evaluate(request.param[1])
    assert violations(evaluation.schedule) == []
    return evaluation, {one.name: one for one in what_if(evaluation).sensitivities}


def test_bandwidths_and_energies_are_derivatives_of_the_exact_cost(case):
    evaluation, found = case
    for one in DIRECT:
        for factor, elasticity in (
            (1 + 1e-6, found[one.name].elasticity),
            (1 - 1e-6, found[one.name].elasticity_shrinking),
        ):
            schedule = replace(evaluation.schedule, hardware=changed(evaluation.schedule.hardware, one.name, factor))
            secant = log(evaluate(schedule).edp_uj_cycles / evaluation.edp_uj_cycles) / log(factor)
            assert elasticity == pytest.approx(secant, abs=2e-6), one.name


def test_parts_and_units_belong_together(case):
    evaluation, found = case
    for one in found.values():
        assert one.elasticity == pytest.approx(one.energy_elasticity + one.cycles_elasticity)
        assert one.edp_per_unit == pytest.approx(one.elasticity * evaluation.edp_uj_cycles / one.value)
        assert one.meaning
    energies = sum(found[name].elasticity for name in ("mac_pj", "l0_pj", "l1_pj", "l2_pj", "l3_pj"))
    assert energies == pytest.approx(1.0)  # all energies 1% dearer: 1% more energy, the same time


def test_twice_a_bandwidth_or_energy_is_priced_exactly(case):
    evaluation, found = case
    for one in DIRECT:
        schedule = replace(evaluation.schedule, hardware=changed(evaluation.schedule.hardware, one.name, 2))
        expected = evaluate(schedule).edp_uj_cycles / evaluation.edp_uj_cycles - 1
        assert found[one.name].doubled_edp_change == pytest.approx(expected, abs=1e-12)


def test_more_memory_and_more_pes_never_hurt(case):
    _, found = case
    for name in FOLLOWING:
        assert found[name].elasticity <= 0
        assert found[name].doubled_edp_change <= 1e-9
        assert found[name].how == "mapping follows"
        assert found[name].elasticity_shrinking is None


def test_twice_the_capacity_is_a_legal_schedule_of_the_same_groups(case):
    evaluation, found = case
    for name in ("l2_bytes", "l1_bytes", "rows", "cols"):
        larger = changed(evaluation.schedule.hardware, name, 2)
        after = remapped(evaluation, larger)
        assert after is not None
        assert violations(after.schedule) == []
        assert after.schedule.groups == evaluation.schedule.groups
        assert after.schedule.hardware == larger
        assert after.edp_uj_cycles / evaluation.edp_uj_cycles - 1 == pytest.approx(found[name].doubled_edp_change)


def test_a_machine_that_is_too_small_has_no_schedule():
    evaluation = evaluate(greedy(NETWORKS["residual"], MACHINE))
    assert remapped(evaluation, machine(l2_bytes=2)) is None


def test_slopes_are_those_of_the_same_formulas_in_numpy(case):
    """JAX differentiates; here the formulas run on NumPy at two points a little way along each direction."""
    evaluation, _ = case
    schedule = evaluation.schedule
    growing = directions(schedule.hardware)
    packed = pack_schedule(schedule)
    fixed = pack_layers(schedule.workload), packed.mapping, packed.fusion, pack_hardware(schedule.hardware)
    near, step = 1e-5, 1e-6
    low, high = (along(*fixed, tangent_of(growing), np.full(len(growing), near + side)) for side in (-step, step))
    found = slopes(evaluation, growing, near)
    for tangent, a, b in zip(found[:5], low, high, strict=True):
        secant = (np.asarray(b) - np.asarray(a)) / (2 * step)
        assert np.allclose(tangent, secant, rtol=1e-6, atol=1e-6 * np.abs(secant).max(initial=1e-9))


def test_a_full_array_makes_a_bound_layer_faster_in_proportion():
    """Compute binds, all rows and columns are in use, channels are left: 1% more rows, 1% fewer cycles."""
    layer = mac("a", "N64 K8 C8")
    evaluation = evaluate(alone(layer, tiled("K4 C4", "N64", "C2 K2", o1="KC")))
    assert evaluation.binding == ("compute",)
    found = {one.name: one for one in what_if(evaluation).sensitivities}
    assert found["rows"].cycles_elasticity == pytest.approx(-1, abs=1e-6)
    assert found["cols"].cycles_elasticity == pytest.approx(-1, abs=1e-6)
    assert found["pes"].cycles_elasticity == pytest.approx(-1, abs=1e-6)
    assert found["rows"].doubled_edp_change < -0.45


def test_an_array_with_room_gains_nothing_from_more():
    layer = mac("a", "N64 K3 C3")
    evaluation = evaluate(alone(layer, tiled("K3 C3", "N64")))
    found = {one.name: one for one in what_if(evaluation).sensitivities}
    assert found["rows"].elasticity == found["cols"].elasticity == found["pes"].elasticity == 0
    assert found["rows"].doubled_edp_change == 0


def dear(level, mapping, **hardware):
    """One matrix product on a machine where accesses of one level cost nearly everything."""
    plan = alone(mac("a", "N64 K64 C16"), mapping, **hardware)
    return replace(plan, hardware=replace(plan.hardware, pj=plan.hardware.pj._replace(**{level: 1000.0})))


CAPACITIES = {
    # Inputs are fetched anew for every tile of K, and those tiles fill L2.
    "l2_bytes": dear("l3", tiled("K4 C4", "N4", "C4", "K2", "N16 K8", o1="C", o2="K", o3="KN"), l2_bytes=192),
    # Registers are loaded anew for every tile of N, and those tiles fill L1.
    "l1_bytes": dear("l2", tiled("K4 C4", "N4", "C4 K16", "N16", "", o1="KC", o2="N"), l1_bytes=1024),
}


@pytest.mark.parametrize("name", CAPACITIES)
def test_capacity_elasticities_agree_with_mapping_anew_at_twice_the_capacity(name):
    """Tiles double with the memory: doubling gains what the derivative says but for curvature, at least half of it."""
    plan = CAPACITIES[name]
    assert violations(plan) == []
    found = {one.name: one for one in what_if(evaluate(plan)).sensitivities}[name]
    assert found.elasticity < -0.1
    gradient = 2**found.elasticity - 1
    assert gradient * 1.05 <= found.doubled_edp_change <= 0.5 * gradient


def test_l1_has_no_price_where_l2_would_do():
    """Inputs are fetched anew for every tile of K. A larger tile of sums would help, and so would one of L2 alone."""
    plan = dear("l3", tiled("K4 C4", "N4", "C4 K2", "", "N16 K8", o1="CK", o3="KN"), l1_bytes=128)
    found = {one.name: one for one in what_if(evaluate(plan)).sensitivities}
    assert found["l2_bytes"].elasticity < -0.1
    assert found["l1_bytes"].elasticity == 0


def fused_pair(u, v):
    """Two products with the whole tensor between them on chip; the second reads a network input beside it."""
    layers = [mac("u", "N64 K16 C16"), mac("v", "N64 K16 C32", "u", None)]
    return evaluate(schedule(layers, [group("u v")], {"u": u, "v": v}, rows=2, cols=2))


def test_every_layer_of_a_group_uses_the_same_byte_in_its_turn():
    """Tiles that pass take turns in L2: what the pair gains from a byte is what each of its layers gains."""
    whole_u, whole_v = (tiled("K2 C2", "N64", f"C{c} K8") for c in (8, 16))
    refetching_u, refetching_v = (tiled("K2 C2", "N8", f"C{c}", "", "K8 N8", o3="KN") for c in (8, 16))
    gains = []
    for mappings in ((refetching_u, whole_v), (whole_u, refetching_v), (refetching_u, refetching_v)):
        evaluation = fused_pair(*mappings)
        assert violations(evaluation.schedule) == []
        found = {one.name: one for one in what_if(evaluation).sensitivities}["l2_bytes"]
        assert found.cycles_elasticity == 0
        gains.append(found.energy_elasticity * evaluation.energy_pj)
    assert gains[2] == pytest.approx(gains[0] + gains[1])
    assert min(map(abs, gains)) > 0


def test_dearer_accesses_follow_the_sram_model(case):
    evaluation, found = case
    hardware, parts = evaluation.schedule.hardware, evaluation.energy_parts_pj()
    for name, level, energy, capacity in (
        ("l2_bytes", "l2", l2_pj, hardware.l2_bytes),
        ("l1_bytes", "l1", l1_pj, hardware.l1_bytes),
    ):
        cols = np.float64(hardware.cols)
        low, high = (np.log(energy(np.float64(capacity * factor), cols)) for factor in (1 - 1e-5, 1 + 1e-5))
        expected = (high - low) / 2e-5 * parts[level] / evaluation.energy_pj
        assert found[name].access_energy_elasticity == pytest.approx(expected, abs=1e-6)
    assert found["rows"].access_energy_elasticity is None


def test_the_strongest_come_first_and_all_is_plain_data():
    small = evaluate(greedy(NETWORKS["separable"], MACHINE))
    once, again = what_if(small), what_if(small)
    assert once == again
    sizes = [abs(one.elasticity) for one in once.sensitivities]
    assert sizes == sorted(sizes, reverse=True)
    assert "local" in once.caveat
    assert json.dumps(asdict(once), allow_nan=False)


def test_a_machine_without_energies_has_no_elasticities():
    free = replace(MACHINE, pj=MACHINE.pj._replace(mac=0.0, l0=0.0, l1=0.0, l2=0.0, l3=0.0))
    plan = replace(greedy(NETWORKS["separable"], MACHINE), hardware=free)
    found = what_if(evaluate(plan))
    assert found.sensitivities == ()
    assert "EDP is 0" in found.caveat
    assert [one.cause for one in why_not(evaluate(plan))] == ["not searched"]


def test_a_network_of_sums_answers_to_bandwidth_and_columns_only():
    layers = (add("s", "K8 P4 Q4", None, None),)
    plan = Schedule(Workload("sums", layers), MACHINE, (group("s"),), {})
    found = {one.name: one.elasticity for one in what_if(evaluate(plan)).sensitivities}
    assert found["l2_bytes"] == found["l1_bytes"] == found["rows"] == found["mac_pj"] == 0
    assert found["l3_words_per_cycle"] == pytest.approx(-1)
