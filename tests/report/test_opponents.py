"""What a schedule is held against: two schedules of the same network that fuse nothing."""

import pytest

from fadiff import evaluate, greedy
from fadiff.report.opponents import opponents
from report.html.samples import small
from search.rows import use_few_programs


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FADIFF_CACHE_DIR", "")
    use_few_programs(monkeypatch)


def test_opponents_fuse_nothing_and_the_search_is_no_worse_than_the_heuristic():
    schedule = small()
    assert schedule.fused_edges
    found = opponents(schedule)
    assert found.greedy.schedule.fused_edges == found.unfused.schedule.fused_edges == ()
    assert found.greedy.schedule.hardware == found.unfused.schedule.hardware == schedule.hardware
    assert found.greedy.edp_uj_cycles == evaluate(greedy(schedule.workload, schedule.hardware)).edp_uj_cycles
    assert found.unfused.edp_uj_cycles <= found.greedy.edp_uj_cycles
    assert opponents(schedule).unfused.schedule.mappings == found.unfused.schedule.mappings


def test_a_schedule_without_fusion_is_no_better_than_its_unfused_opponent():
    found = opponents(small()).unfused
    again = opponents(found.schedule)
    assert again.unfused.edp_uj_cycles <= found.edp_uj_cycles
