"""What a search on one machine teaches about machines alike."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fadiff import Dims, Group, Input, Layer, Machine, Schedule, Workload, evaluate, load_machine, optimize, violations
from fadiff.hardware.variants import read_variant
from fadiff.search.driver import Incumbent, Settings, Status
from fadiff.search.exact.assemble import to_mapping
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.lessons import Lessons, alike, outgrown, recalled
from fadiff.search.exact.menus import key_of, size_of, start_from, starts_of
from fadiff.search.exact.method import ExactSearch
from fadiff.search.objective import EDP

PAIR = Workload(
    "pair",
    (
        Layer("a", "mac", Dims(K=8, C=4, P=8, Q=8, R=3, S=3), inputs=(Input(None),)),
        Layer("b", "mac", Dims(K=8, C=8, P=8, Q=8), inputs=(Input("a"),)),
    ),
)
SMALL = Workload(
    "small",
    (
        Layer("a", "mac", Dims(K=4, C=2, P=4, Q=4), inputs=(Input(None),)),
        Layer("b", "mac", Dims(K=2, C=4, P=4, Q=4), inputs=(Input("a"),)),
    ),
)
"""Few mappings, which are soon searched."""


def machine(kb: int) -> Machine:
    return read_variant("gemmini-small", {"scratchpad.bytes": f"{kb} KB"}).machine


@cache
def taught() -> Lessons:
    lessons = Lessons()
    optimize(PAIR, machine(2), lessons=lessons, budget_seconds=600)
    return lessons


def test_machines_are_alike_that_differ_in_sizes_rates_and_energies():
    task = Task(PAIR, machine(2))
    fast = replace(machine(4).nodes[0], words_per_cycle=99.0, read_pj=1.0)
    assert alike(task, Task(PAIR, replace(machine(4), nodes=(fast, *machine(4).nodes[1:]), mac_pj=9.0)))
    assert not alike(task, Task(PAIR, read_variant("gemmini-small", {"cols": 8}).machine))
    assert not alike(task, Task(PAIR, load_machine("eyeriss")))
    assert not alike(task, Task(PAIR, machine(2), exact_factors=True))
    assert not alike(task, Task(replace(PAIR, layers=(replace(PAIR.layers[0], name="c"),)), machine(2)))


def test_mappings_are_recalled_with_their_price_on_the_other_machine_and_only_where_they_fit():
    learned, task = taught().learned, Task(PAIR, machine(1))
    assert learned is not None
    condition = task.alone("a")
    menu = recalled(learned, task, [condition], (1.0, 1.0))[condition]
    assert 1 <= size_of(menu) <= size_of(learned.menus[condition])
    second = task.alone("b")
    other = to_mapping(task, second, recalled(learned, task, [second], (1.0, 1.0))[second], 0)
    for i in range(size_of(menu)):
        mappings = {"a": to_mapping(task, condition, menu, i), "b": other}
        schedule = Schedule(PAIR, task.machine, (Group(("a",)), Group(("b",))), mappings)
        assert not violations(schedule)
        priced = evaluate(schedule)
        assert priced.layer_energy_pj[0] == pytest.approx(float(menu.energy_pj[i]), rel=1e-5)
        assert priced.layer_cycles[0] == pytest.approx(float(menu.cycles[i]), rel=1e-5)
    left = size_of(learned.menus[condition]) - size_of(menu)
    held = np.asarray(learned.menus[condition].running)
    assert left == (held > np.array(task.all_room.running)[:, None]).any(axis=0).sum()


def test_what_is_known_is_outgrown_where_the_best_mapping_has_no_room():
    learned, weights = taught().learned, (1.0, 1.0)
    assert learned is not None
    seen: set[tuple[bool, bool]] = set()
    for small in (True, False):
        size_bytes = 256 if small else 2048
        task = Task(PAIR, read_variant("gemmini-small", {"scratchpad.bytes": size_bytes}).machine)
        menus = recalled(learned, task, [*learned.menus], weights)
        for condition, menu in menus.items():
            known = learned.menus[condition]
            best = key_of(start_from(known, int((known.energy_pj + known.cycles).argmin())))
            has_room = best in [key_of(one) for one in starts_of(menu)]
            seen.add((small, has_room))
            assert outgrown(learned, task, condition, weights) == (not has_room)
    assert seen == {(True, True), (True, False), (False, True)}


def test_what_is_found_depends_on_the_first_search_alone_and_is_as_good_as_without():
    lessons = taught()
    between = optimize(PAIR, machine(8), lessons=lessons)
    assert between.stopped == "done"
    fresh = Lessons()
    optimize(PAIR, machine(2), lessons=fresh)
    assert (one := optimize(PAIR, machine(4), lessons=lessons).schedule) == optimize(
        PAIR, machine(4), lessons=fresh
    ).schedule
    assert evaluate(one).edp_uj_cycles <= optimize(PAIR, machine(4)).best.edp_uj_cycles * 1.001


def test_a_search_begins_with_the_best_schedule_of_the_first_where_it_is_legal():
    learned = taught().learned
    assert learned is not None
    first = dict[str, float]()

    def note(status: Status, incumbent: Incumbent, seconds: float) -> None:
        assert incumbent.best is not None
        first.setdefault(status.phase, incumbent.best.edp_uj_cycles)

    optimize(PAIR, machine(8), lessons=taught(), watch=note)
    again = evaluate(replace(learned.schedule, machine=machine(8))).edp_uj_cycles
    assert first["map"] <= again < first["greedy"]


def test_a_machine_that_is_not_alike_learns_nothing():
    settings = Settings(lessons=taught())
    for chip, learns in ((read_variant("gemmini-small", {"cols": 8}).machine, False), (machine(4), True)):
        known = ExactSearch(Task(PAIR, chip), settings, Incumbent(EDP))
        assert (known.learned is taught().learned) == learns
        assert (known.lessons is taught()) == learns
    assert taught().learned is not None


def test_a_search_without_groups_teaches_nothing():
    lessons = Lessons()
    assert optimize(SMALL, machine(2), budget_seconds=1e-3, lessons=lessons).stopped == "budget"
    assert lessons.learned is None
    assert optimize(SMALL, machine(4), lessons=lessons).schedule == optimize(SMALL, machine(4)).schedule
    assert lessons.learned is not None


@pytest.mark.parametrize("last", ["map", "fuse"])
def test_a_search_that_is_ended_teaches_what_it_has_and_others_go_on_from_there(last: str):
    def stop(status: Status, incumbent: Incumbent, seconds: float) -> None:
        if status.phase == last:
            raise KeyboardInterrupt

    lessons = Lessons()
    assert optimize(SMALL, machine(2), lessons=lessons, watch=stop).stopped == "interrupt"
    assert lessons.learned is not None
    assert not lessons.learned.whole
    phases: list[str] = []
    found = optimize(SMALL, machine(4), lessons=lessons, watch=lambda status, *_: phases.append(status.phase))
    assert found.best.edp_uj_cycles <= optimize(SMALL, machine(4)).best.edp_uj_cycles * 1.001
    assert "solve" in phases


def test_what_was_done_on_a_machine_alike_is_not_done_again():
    phases: list[str] = []
    optimize(PAIR, machine(2), lessons=taught(), watch=lambda status, *_: phases.append(status.phase))
    assert "solve" not in phases
