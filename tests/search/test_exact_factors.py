"""Schedules whose factors divide what they cut: only those are found where they are asked for, and the best of them."""

from dataclasses import replace

import pytest

from examples import second
from fadiff import greedy, load_machine, load_model, optimize
from fadiff.cost import evaluate, load_schedule, save_schedule
from fadiff.errors import FadiffError
from fadiff.files import FileError
from fadiff.schedule.ir import LowerBound
from fadiff.schedule.rules import violations
from fadiff.search.driver import Incumbent
from fadiff.search.objective import EDP
from search.exhaustive import least_edp
from search.networks import FLAT, GEMMINI, mac, network, sized

ODD = network(mac("a", "N14 K15 C9"), mac("b", "N14 K6 C15", "a"))
"""Sizes that no power of two divides well."""
CHIPS = {
    "small": sized(GEMMINI, rows=2, cols=2, accumulator=32, scratchpad=64),
    "flat": sized(FLAT, lanes=2, buffer=40, spad=8),
}
TINY = {
    "products": network(mac("a", "N3 K4 C3"), mac("b", "N3 K3 C4", "a")),
    "convolutions": network(mac("a", "K2 C2 P3 Q2 R3"), mac("b", "K2 C2 P3 Q2 R3", "a")),
}


@pytest.mark.parametrize("name", ["gemmini-small", "eyeriss", "simba", "nvdla-small"])
def test_greedy_schedules_keep_to_factors_that_divide(name):
    machine = load_machine(name)
    exact = greedy(ODD, machine, exact_factors=True)
    assert exact.exact_factors
    assert violations(exact) == []


def test_cut_ends_are_told_from_factors_that_divide():
    machine = load_machine("gemmini-small")
    network_197 = network(mac("a", "N197 K768 C768"))
    free = optimize(network_197, machine)
    exact = optimize(network_197, machine, exact_factors=True)
    assert exact.schedule.exact_factors
    assert not free.schedule.exact_factors
    assert free.best.edp_uj_cycles < exact.best.edp_uj_cycles


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", TINY)
def test_the_best_schedule_with_exact_factors_is_found(name, chip):
    found = optimize(TINY[name], CHIPS[chip], exact_factors=True)
    assert found.schedule.exact_factors
    assert found.best.edp_uj_cycles == pytest.approx(least_edp(TINY[name], CHIPS[chip], exact=True), rel=1e-6)


def test_a_fused_network_keeps_to_factors_that_divide():
    found = optimize(load_model("mobilenet_v1:size=32"), "gemmini-small", exact_factors=True)
    assert found.schedule.exact_factors
    assert found.schedule.fused_edges


def test_what_does_not_divide_is_no_incumbent():
    cut = second("gemmini_gemm197")
    assert not cut.exact_factors
    assert Incumbent(EDP).offer(cut) is not None
    assert Incumbent(EDP, exact_factors=True).offer(cut) is None


@pytest.mark.parametrize("method", ["joint", "descent", "genetic", "random", "layerwise"])
def test_methods_that_cut_tiles_are_refused(method):
    with pytest.raises(FadiffError, match=f"method '{method}' may cut tiles .*: for exact factors use one of exact"):
        optimize(ODD, "gemmini-small", method=method, exact_factors=True)


def test_a_file_tells_of_which_schedules_its_bound_speaks(tmp_path):
    machine, path = load_machine("gemmini-small"), tmp_path / "schedule.json"
    exact, cut = greedy(ODD, machine, exact_factors=True), second("gemmini_gemm197")
    for schedule, is_exact in ((exact, True), (exact, False), (cut, False)):
        cost = evaluate(schedule)
        bound = LowerBound(cost.energy_pj / 2, cost.cycles / 2, cost.edp_uj_cycles / 2, is_exact)
        save_schedule(path, replace(schedule, bound=bound))
        assert load_schedule(path).bound == bound
        assert ("exact_factors" in path.read_text(encoding="utf-8")) == is_exact
    save_schedule(path, replace(cut, bound=LowerBound(1.0, 1.0, 1e-6, exact_factors=True)))
    with pytest.raises(FileError, match=r"bound.exact_factors: .* not all of the file divide"):
        load_schedule(path)


def test_a_group_that_fits_to_the_byte_is_found_among_exact_factors():
    found = optimize(load_model("resnet18"), "gemmini-large", exact_factors=True)
    assert found.best.edp_uj_cycles < 1.3699e10
