"""Schedules that keep what is asked of them: in every method, told from brute force over their loops."""

from itertools import islice
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fadiff import FadiffError, bound, greedy, load_constraints, optimize
from fadiff.cost import evaluate
from fadiff.schedule.constraints import Constraints
from fadiff.schedule.rules import violations
from fadiff.search.driver import Incumbent
from fadiff.search.objective import EDP
from fadiff.search.optimize import METHODS, UNFUSED_METHODS
from fadiff.search.restrictions import Restrictions, project
from fadiff.search.solver.network_bound import Prover
from search.asked import draw_asked, draw_schedule, kept
from search.exhaustive import least_edp
from search.networks import FLAT, GEMMINI, NETWORKS, mac, network, sized

CHAIN = NETWORKS["conv_chain"]
CHIP = sized(GEMMINI, scratchpad=512, accumulator=256)
SLICE = {"fuse": [["a", "b"]], "split": [["b", "c"]], "mapping": [{"layers": "c", "factors": {"DRAM": {"K": 3}}}]}


def test_edges_and_a_factor_are_as_asked():
    found = greedy(CHAIN, CHIP, constraints=load_constraints(SLICE))
    assert [group.layers for group in found.groups] == [("a", "b"), ("c",)]
    assert found.mappings["c"].factors[0].K == 3


def test_what_breaks_a_constraint_is_no_incumbent():
    asked, free = load_constraints(SLICE), greedy(CHAIN, CHIP)
    assert Incumbent(EDP).offer(free) is not None
    assert Incumbent(EDP, constraints=asked).offer(free) is None
    assert asked.broken(free) == [
        "c: K at DRAM is 3: in c DRAM has 1 of K",
        "a -> b is fused: a -> b is not fused",
    ]
    assert Constraints().broken(free) == []


def test_the_free_schedule_is_not_worse():
    asked = load_constraints({"mapping": SLICE["mapping"]})
    free, kept_to = (evaluate(greedy(CHAIN, CHIP, constraints=one)) for one in (Constraints(), asked))
    assert free.edp_uj_cycles <= kept_to.edp_uj_cycles


WIDE = sized(GEMMINI, scratchpad=16384, accumulator=8192, registers=64)


@settings(max_examples=20)
@given(st.sampled_from(["conv_chain", "residual", "feed_forward"]), st.integers(0, 10**6))
def test_greedy_schedules_keep_what_some_schedule_keeps(name, seed):
    random = Random(seed)
    witness = draw_schedule(random, NETWORKS[name], WIDE)
    told = draw_asked(random, witness)
    asked = load_constraints(told)
    assert asked.broken(witness) == []
    assert kept(told, witness)
    found = greedy(NETWORKS[name], WIDE, constraints=asked)
    assert violations(found) == []
    assert asked.broken(found) == []
    assert kept(told, found)


@settings(max_examples=20)
@given(st.sampled_from(["conv_chain", "residual", "feed_forward"]), st.integers(0, 10**6))
def test_a_mapping_that_is_as_asked_stays_as_it_is(name, seed):
    random = Random(seed)
    witness = draw_schedule(random, NETWORKS[name], WIDE)
    ends = Restrictions(NETWORKS[name], WIDE, load_constraints(draw_asked(random, witness))).asked
    for layer, mapping in witness.mappings.items():
        if len(witness.group_of[layer].layers) == 1 and ends is not None:
            mine = ends.of([NETWORKS[name].number[layer]])
            tile, order = np.array(NETWORKS[name][layer].dims)[:, None], np.zeros((len(WIDE.memories), 1), np.int32)
            near, _ = project(np.array(mapping.factors)[..., None], order, mine, tile, np.ones_like(tile), WIDE)
            assert near[..., 0].astype(int).tolist() == list(map(list, mapping.factors))


TINY = {
    "products": network(mac("a", "N4 K3 C2"), mac("b", "N4 K2 C3", "a")),
    "convolutions": network(mac("a", "K2 C2 P3 R2"), mac("b", "K2 C2 P2 R2", "a")),
}
CHIPS = {
    "tight": sized(GEMMINI, rows=2, cols=2, accumulator=16, scratchpad=24),
    "flat": sized(FLAT, lanes=2, buffer=40, spad=8),
}
ASKED = {
    "fused": ("products tight", {"fuse": [["a", "b"]]}),
    "apart in an order": (
        "convolutions tight",
        {"split": [["a", "b"]], "mapping": [{"layers": "a", "order": {"DRAM": "K*"}}]},
    ),
    "a factor at DRAM": ("products flat", {"mapping": [{"layers": "b", "factors": {"DRAM": {"K": 2}}}]}),
    "a factor on chip": ("products tight", {"mapping": [{"layers": "a", "factors": {"scratchpad": {"C": 2}}}]}),
    "a small extent": ("convolutions flat", {"mapping": [{"extents": {"buffer": {"K": {"most": 1}}}}]}),
    "a large extent": ("convolutions tight", {"mapping": [{"extents": {"accumulator": {"P": {"least": 2}}}}]}),
    "lanes": ("products tight", {"mapping": [{"layers": "b", "unroll": {"cols": ""}}]}),
    "a group": ("convolutions tight", {"groups": [{"layers": ["a", "b"], "trips": {"P": 2}}]}),
    "weights once": ("products tight", {"mapping": [{"once": "W"}]}),
    "sums once in a group": ("products flat", {"fuse": [["a", "b"]], "mapping": [{"once": ["W", "O"], "layers": "b"}]}),
    "an order": ("products flat", {"mapping": [{"order": {"DRAM": "*(KC)", "buffer": "NK*"}}]}),
}


def tiny(name):
    place, told = ASKED[name]
    network_name, chip = place.split()
    return TINY[network_name], CHIPS[chip], told


@pytest.mark.parametrize("name", ASKED)
def test_no_schedule_that_keeps_constraints_is_below_their_bound(name):
    workload, machine, told = tiny(name)
    asked = load_constraints(told)
    found = greedy(workload, machine, constraints=asked)
    assert kept(told, found)
    proven = list(islice(Prover(evaluate(found), constraints=asked).run(float("inf")), 24))[-1].least
    least, free = least_edp(workload, machine, asked=told), least_edp(workload, machine)
    assert proven.edp_uj_cycles <= least * (1 + 1e-9)
    assert free <= least * (1 + 1e-9)
    assert evaluate(found).edp_uj_cycles >= least * (1 - 1e-9)


def test_a_bound_uses_what_is_asked_and_says_what():
    workload, machine, told = tiny("apart in an order")
    asked = load_constraints(told)
    found = greedy(workload, machine, constraints=asked)
    free, bound_of = bound(greedy(workload, machine)), bound(found, constraints=asked)
    assert free.least.among == ()
    assert bound_of.least.among == ("a: loops at DRAM nest as K*", "a -> b is not fused")
    assert bound_of.least.edp_uj_cycles > 1.05 * free.least.edp_uj_cycles
    fused = load_constraints({"fuse": [["a", "b"]]})
    with pytest.raises(FadiffError, match=r"the schedule does not keep what is asked \(a -> b is fused: a -> b is not"):
        bound(found, constraints=fused)


SPLIT = {"split": [["a", "b"]]}


@pytest.mark.parametrize(
    ("name", "without", "more"),
    [
        ("small", SPLIT, {"mapping": [{"order": {"DRAM": "*N"}}]}),
        ("small", SPLIT, {"mapping": [{"once": "W"}]}),
        ("small", SPLIT, {"mapping": [{"factors": {"DRAM": {"N": {"least": 3}}}}]}),
        ("tight", {"fuse": [["a", "b"]]}, {"groups": [{"layers": ["a", "b"], "trips": {"N": 4}}]}),
    ],
    ids=["an order", "weights once", "a factor of the first memory", "trips"],
)
def test_a_bound_rises_with_an_order_with_trips_and_with_what_passes_once(name, without, more):
    """Each is the only thing that is asked besides, and what no schedule with it undercuts is more than without."""
    chips = CHIPS | {"small": sized(GEMMINI, rows=2, cols=2, accumulator=8, scratchpad=8)}
    workload, machine = TINY["products"], chips[name]

    def proven(told):
        asked = load_constraints(told)
        found = evaluate(greedy(workload, machine, constraints=asked))
        return list(islice(Prover(found, constraints=asked).run(float("inf")), 24))[-1].least.edp_uj_cycles

    least = least_edp(workload, machine, asked=without | more)
    assert 1.03 * proven(without) < proven(without | more) <= least * (1 + 1e-9)
    assert proven(without | more) > least * 0.99


def test_the_best_schedule_that_keeps_constraints_is_found():
    workload, machine, told = tiny("a factor at DRAM")
    found = optimize(workload, machine, constraints=load_constraints(told))
    assert kept(told, found.schedule)
    assert found.best.edp_uj_cycles == pytest.approx(least_edp(workload, machine, asked=told), rel=1e-6)


def test_every_method_finds_schedules_that_keep_constraints():
    """Each is stopped as soon as it offers one of its own; one test for all, since they share compiled programs.

    A schedule that breaks what is asked is no candidate: a method that offers only such finds nothing.
    """
    apart = {"split": [["b", "c"]], "mapping": SLICE["mapping"]}
    for method in METHODS:
        told = apart if method in UNFUSED_METHODS else SLICE
        asked, steps = load_constraints(told), iter(range(60))

        def watch(_, incumbent, __, left=steps):
            if incumbent.found is not None or next(left, None) is None:
                raise KeyboardInterrupt

        found = optimize(CHAIN, CHIP, method=method, constraints=asked, budget_seconds=600, watch=watch)
        own = found.greedy if method == "greedy" else found.found
        assert own is not None, method
        assert kept(told, own.schedule), method
        assert kept(told, found.schedule), method


def test_layers_are_kept_as_they_are():
    from fadiff.schedule.constraints import kept as keep

    first = optimize(CHAIN, CHIP, method="greedy", constraints=load_constraints({"fuse": [["a", "b"]]})).schedule
    again = greedy(CHAIN, CHIP, constraints=Constraints(keep(first, ["a", "b"])))
    assert again.groups[0] == first.groups[0]
    assert {name: again.mappings[name].factors for name in "ab"} == {
        name: first.mappings[name].factors for name in "ab"
    }
    one = greedy(CHAIN, CHIP, constraints=Constraints(keep(first, ["c"])))
    assert not one.fused_edges
    assert one.mappings["c"].factors == first.mappings["c"].factors


def test_weights_may_have_to_come_once():
    tight, told = sized(GEMMINI, scratchpad=64, accumulator=128), {"mapping": [{"layers": "a", "once": "W"}]}
    product = network(mac("a", "N16 K32 C8"))
    free, once = greedy(product, tight), greedy(product, tight, constraints=load_constraints(told))
    assert not kept(told, free)
    assert kept(told, once)
    words = evaluate(once).words[:, 0]
    fetched = [words[i] for i, f in enumerate(evaluate(once).flows) if f.memory == 0 and f.tensor == "W"]
    assert np.sum(fetched) == 32 * 8


@pytest.mark.parametrize(
    ("told", "conflict"),
    [
        (
            {"mapping": [{"layers": "c", "factors": {"DRAM": {"K": 3}, "cols": {"K": 3}}}], "split": [["a", "b"]]},
            "c: K at DRAM is 3; c: K at cols is 3",
        ),
        (
            {"fuse": [["a", "b"], ["b", "c"]], "groups": [{"layers": ["b", "c"]}]},
            "a -> b is fused; b+c is a group",
        ),
        ({"fuse": [["a", "b"]], "split": [["a", "*"]]}, "a -> b is fused; the output of a leaves the chip"),
    ],
)
def test_the_smallest_conflict_is_told(told, conflict):
    with pytest.raises(FadiffError) as error:
        optimize(CHAIN, CHIP, method="greedy", constraints=load_constraints(told))
    sentence = "no schedule of small on gemmini keeps these together: "
    assert str(error.value).replace(CHIP.name, "gemmini").startswith(f"{sentence}{conflict} (")
    assert str(error.value).endswith("): leave one of them out")


def test_one_that_cannot_be_kept_is_told_alone():
    told = {"split": [["b", "c"]], "mapping": [{"layers": "c", "factors": {"DRAM": {"K": 7}}}]}
    with pytest.raises(FadiffError, match=r"keeps this: c: K at DRAM is 7 \(layer 'c' fits .* in no way that keeps"):
        optimize(CHAIN, CHIP, method="greedy", constraints=load_constraints(told))


def test_what_constraints_cost_is_told():
    from fadiff.search.asking import priced

    told = {"mapping": [{"layers": "c", "factors": {"DRAM": {"K": 6}}, "unroll": {"cols": "K"}}]}
    asked = load_constraints(told)

    def search(left):
        return evaluate(greedy(CHAIN, CHIP, constraints=left))

    costs = priced(search(asked), asked, search)
    free = evaluate(greedy(CHAIN, CHIP)).edp_uj_cycles
    assert costs.cost == pytest.approx(search(asked).edp_uj_cycles / free - 1)
    assert [(one.constraint, one.cost > 0) for one in costs.constraints] == [
        ("c: K at DRAM is 6", True),
        ("c: cols unrolls only K", False),
    ]
    assert str(costs) == (
        f"Constrained: {costs.cost:.1%} above the best that was found without constraints: "
        f"c: K at DRAM is 6 costs {costs.cost:.1%}."
    )


def test_constraints_and_exact_factors_go_together():
    odd = network(mac("a", "N15 K21 C10"), mac("b", "N15 K6 C21", "a"))
    asked = load_constraints({"mapping": [{"factors": {"DRAM": {"N": {"most": 4}, "K": {"least": 2}}}}]})
    found = greedy(odd, GEMMINI, exact_factors=True, constraints=asked)
    assert found.exact_factors
    assert asked.broken(found) == violations(found) == []
