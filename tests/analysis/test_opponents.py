"""What a schedule is held against: two schedules of the same network that fuse nothing."""

from dataclasses import replace

import pytest

from fadiff.analysis.opponents import opponents
from fadiff.cost import evaluate
from fadiff.search import greedy
from search.networks import GEMMINI, NETWORKS, group


def test_opponents_fuse_nothing_and_the_search_is_no_worse_than_the_heuristic(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FADIFF_CACHE_DIR", "")
    alone = greedy(NETWORKS["residual"], GEMMINI)
    schedule = replace(alone, groups=(group("a b s c"),))
    assert schedule.fused_edges
    found = opponents(schedule)
    assert found.greedy.schedule.fused_edges == found.unfused.schedule.fused_edges == ()
    assert found.greedy.schedule.machine == found.unfused.schedule.machine == GEMMINI
    assert found.greedy.edp_uj_cycles == evaluate(alone).edp_uj_cycles
    assert found.unfused.edp_uj_cycles <= found.greedy.edp_uj_cycles

    again = opponents(found.unfused.schedule)
    assert again.unfused.edp_uj_cycles <= found.unfused.edp_uj_cycles
    assert again.greedy.schedule.mappings == found.greedy.schedule.mappings
