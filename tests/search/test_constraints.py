"""Schedules that keep what is asked of them: in every method, told from brute force over their loops."""

from dataclasses import replace

import pytest

from fadiff import greedy, load_constraints, optimize
from fadiff.cost import evaluate
from fadiff.schedule.constraints import Constraints
from fadiff.search.driver import Incumbent
from search.networks import GEMMINI, NETWORKS, sized

CHAIN = NETWORKS["conv_chain"]
CHIP = sized(GEMMINI, scratchpad=512, accumulator=256)
SLICE = {"fuse": [["a", "b"]], "split": [["b", "c"]], "mapping": [{"layers": "c", "factors": {"DRAM": {"K": 3}}}]}


@pytest.mark.parametrize("method", ["greedy", "exact"])
def test_edges_and_a_factor_are_as_asked(method):
    found = optimize(CHAIN, CHIP, method=method, constraints=load_constraints(SLICE)).schedule
    assert [group.layers for group in found.groups] == [("a", "b"), ("c",)]
    assert found.mappings["c"].factors[0].K == 3


def test_what_breaks_a_constraint_is_no_incumbent():
    asked, free = load_constraints(SLICE), greedy(CHAIN, CHIP)
    assert Incumbent("edp").offer(free) is not None
    assert Incumbent("edp", constraints=asked).offer(free) is None
    assert asked.broken(free) == [
        "c: K at DRAM is 3: in c DRAM has 1 of K",
        "a -> b is fused: a -> b is not fused",
    ]
    assert Constraints().broken(free) == []


def test_the_free_optimum_is_not_worse():
    asked = load_constraints(SLICE)
    free, bound = (optimize(CHAIN, CHIP, constraints=one).best for one in (Constraints(), asked))
    assert free.edp_uj_cycles <= bound.edp_uj_cycles
    assert evaluate(replace(bound.schedule)).edp_uj_cycles == bound.edp_uj_cycles
