"""Whether constraints can be kept: schedules that no climb meets, proofs that there is none, and what is neither."""

from random import Random

import pytest

from fadiff import FadiffError, greedy, load_constraints, optimize, violations
from fadiff.schedule import Group, Schedule, Trips
from fadiff.schedule.constraints import Constraints
from fadiff.search.exact import witness
from fadiff.search.solver.contradiction import contradiction
from search.asked import draw_asked, kept
from search.networks import GEMMINI, PLAIN, at_dram, mac, network, sized
from search.solver.tight import tight

PAIR = network(mac("a", "N6 K16 C8"), mac("b", "N6 K8 C16", "a"))
CHIP = sized(GEMMINI, rows=4, cols=16, scratchpad=200)


def test_a_mapping_that_no_start_leads_to_is_found(monkeypatch):
    """A machine that just holds one mapping: its loops in that order, weights and sums once, are met by no climb."""
    there = tight("single", 500_003)
    told = {"mapping": [{"once": ["W", "O"], "order": {"m0": "QSPKCRGN"}}]}
    asked = load_constraints(told)
    assert asked.broken(there) == []
    found = greedy(there.workload, there.machine, constraints=asked)
    assert violations(found) == []
    assert kept(told, found)
    monkeypatch.setattr(witness, "witness", lambda *_: None)
    with pytest.raises(FadiffError, match=r"^no mapping of layer 'a' was found that keeps what is asked of it$"):
        greedy(there.workload, there.machine, constraints=asked)


@pytest.mark.parametrize(
    ("machine", "told", "sentence"),
    [
        (PLAIN, {"fuse": [["a", "b"]]}, "keeps this: a -> b is fused (a -> b cannot be fused on plain)"),
        (
            CHIP,
            {"groups": [{"layers": ["a", "b"], "trips": {"N": 4}}]},
            "keeps this: a+b is a group that shares N 4 (layer 'a' fits toy in no way that keeps what is asked of it)",
        ),
        (
            sized(CHIP, scratchpad=64),
            {"groups": [{"layers": ["a", "b"], "trips": {}}]},
            "keeps this: a+b is a group that shares nothing "
            "(layer 'a' fits toy in no way that keeps what is asked of it)",
        ),
        (
            CHIP,
            {"mapping": [{"layers": "a", "order": {"DRAM": "N*"}, "factors": {"DRAM": {"N": 6, "K": 2}}, "once": "W"}]}
            | {"split": [["a", "b"]]},
            "keeps these together: a: N at DRAM is 6; a: K at DRAM is 2; a: loops at DRAM nest as N*; "
            "a: weights are fetched once; a -> b is not fused (layer 'a' fits toy in no way that keeps what is asked "
            "of it): leave one of them out",
        ),
        (
            CHIP,
            {"mapping": [{"layers": "a", "factors": {"cols": {"K": {"least": 5}}}}, {"factors": {"cols": {"G": 4}}}]},
            "keeps these together: a: K at cols is at least 5; all layers: G at cols is 4 (cols has 16 lanes): "
            "leave one of them out",
        ),
        (
            CHIP,
            {"mapping": [{"extents": {"scratchpad": {"K": {"least": 16}}}}]},
            "keeps this: all layers: scratchpad holds at least 16 of K (K of b is 8)",
        ),
        (
            CHIP,
            {
                "mapping": [
                    {"layers": "a", "order": {"scratchpad": "K*"}},
                    {"order": {"scratchpad": "*K"}},
                    {"factors": {"scratchpad": {"K": 2, "C": 2}}},
                ]
            },
            "keeps these together: a: loops at scratchpad nest as K*; all layers: loops at scratchpad nest as *K; "
            "all layers: K at scratchpad is 2; all layers: C at scratchpad is 2 (in a loops over K and C run at "
            "scratchpad, each outside of the other): leave one of them out",
        ),
        (
            CHIP,
            {"groups": [{"layers": ["a", "b"], "trips": {"N": 2}}, {"layers": ["b", "a"], "trips": {"N": 3}}]},
            "keeps these together: a+b is a group that shares N 2; b+a is a group that shares N 3 "
            "(a and b cannot be in two groups that differ): leave one of them out",
        ),
        (
            CHIP,
            {"groups": [{"layers": ["a", "b"], "trips": {"P": 2, "Q": 2}, "loops": "Q"}]},
            "keeps this: a+b is a group that shares Q 2, P 2 nested in this order "
            "(a+b: loops 'Q' nest P inside Q: P is always outside)",
        ),
    ],
    ids=[
        "no memory that fuses",
        "trips that are not legal",
        "too little room",
        "an order against weights once",
        "more lanes than there are",
        "more than there is of a dim",
        "an order against an order",
        "a group against a group",
        "a nesting that no group has",
    ],
)
def test_what_is_impossible_is_proven(machine, told, sentence):
    with pytest.raises(FadiffError) as error:
        optimize(PAIR, machine, method="greedy", constraints=load_constraints(told))
    assert str(error.value) == f"no schedule of small on {machine.name} {sentence}"


def test_a_group_needs_what_is_between_its_layers():
    chain = network(*PAIR.layers, mac("c", "N6 K4 C8", "b"))
    told = load_constraints({"groups": [{"layers": ["a", "c"]}]})
    with pytest.raises(FadiffError, match=r"keeps this: a\+c is a group \(groups a\+c and b wait for each other\)$"):
        optimize(chain, CHIP, method="greedy", constraints=told)


def test_orders_that_contradict_each_other_leave_the_mappings_in_which_not_both_loops_run():
    """K outermost and innermost: it has no loop, or no other has one, or N, of which there is one, stands anywhere."""
    told = {"mapping": [{"order": {"DRAM": "K*"}}, {"order": {"DRAM": "*KN"}}]}
    for more in ({}, {"mapping": [{"layers": "a", "factors": {"DRAM": {"K": 2}}}]}):
        asked = {"mapping": [*told["mapping"], *more.get("mapping", ())]}
        found = greedy(PAIR, CHIP, constraints=load_constraints(asked))
        assert violations(found) == []
        assert kept(asked, found)


def test_a_group_that_is_asked_for_twice_is_as_both_ask():
    told = {"groups": [{"layers": ["a", "b"], "trips": {"N": 2}}, {"layers": ["b", "a"]}]}
    for order in (told["groups"], told["groups"][::-1]):
        found = greedy(PAIR, GEMMINI, constraints=load_constraints({"groups": order}))
        assert [(group.layers, group.trips.N) for group in found.groups] == [(("a", "b"), 2)]


def test_what_is_neither_found_nor_impossible_is_told_as_that():
    """Six trips over ten rows: three that the layer shares with nobody, and two of its own in each."""
    rows, told = network(mac("a", "P10 K2")), {"mapping": [{"factors": {"DRAM": {"P": 6}}}]}
    start = at_dram(rows, CHIP, Group(("a",), Trips(P=3)))
    (first, second, *inner), orders = start.mappings["a"].factors, start.mappings["a"].orders
    factors = (first._replace(P=6), second._replace(P=2), *inner)
    there = Schedule(rows, CHIP, start.groups, {"a": type(start.mappings["a"])(factors, orders)})
    asked = load_constraints(told)
    assert violations(there) == asked.broken(there) == []
    with pytest.raises(FadiffError) as error:
        optimize(rows, CHIP, method="greedy", constraints=asked)
    assert str(error.value) == (
        "no schedule of small on toy was found that keeps this: all layers: P at DRAM is 6 (no mapping of layer 'a' "
        "was found that keeps what is asked of it); not proven impossible: ask for less"
    )


@pytest.mark.parametrize("kind", ["single", "residual", "concatenation", "weight_port"])
def test_nothing_is_proven_against_a_schedule_that_is_there(kind):
    """On machines that hold exactly what it needs, under some of what is so in it."""
    schedule = tight(kind, 90_001)
    every = load_constraints(draw_asked(Random(1), schedule)).given
    asked = Constraints(tuple(one for one in every if not Constraints((one,)).broken(schedule)))
    assert contradiction(schedule.workload, schedule.machine, asked) is None
