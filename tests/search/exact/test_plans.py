"""Plans for groups: what they promise holds, and none that could fit is overlooked."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from fadiff.hardware import builtin_machines, load_machine
from fadiff.schedule import Group, Trips, rules
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.plans import Members, alone, plans
from oracle import schedules
from search.exact.rows import conditions_in
from search.exhaustive import buffer_bytes, may_be_group, may_be_groups, trip_counts_allowed
from search.networks import (
    EYERISS,
    FLAT,
    GEMMINI,
    NETWORKS,
    PLAIN,
    SIMBA,
    add,
    at_dram,
    group,
    mac,
    machine_with,
    network,
    sized,
)  # fmt: skip

BROAD = sized(GEMMINI, scratchpad=1 << 20)
FUSING = (GEMMINI, FLAT, EYERISS, SIMBA)
MORE_NETWORKS = {
    **NETWORKS,
    "grouped concatenation": network(
        mac("a", "G2 K2 C2 P2"), mac("b", "G2 K2 C2 P2"), mac("c", "G2 K2 C4 P2", "a", "b")
    ),
    "flattened": network(mac("a", "K4 C2 P4 Q4", epilogue=("flatten",)), mac("b", "K4 C64", "a")),
    "pooled": network(mac("a", "K4 C2 P4 Q4", epilogue=("global_pool",), out=(1, 1)), mac("b", "K4 C4", "a")),
    "normalized": network(mac("a", "G2 N4 K4 C2", epilogue=("layer_norm",)), mac("b", "G2 N4 K2 C4", "a")),
    "reshaped": network(mac("a", "N8 K4 C2", epilogue=("reshape",)), mac("b", "N4 K4 C8", "a")),
    "repeated": network(mac("a", "N4 K4 C2", repeat=2), mac("b", "N4 K4 C4", "a")),
    "forked": network(mac("a", "N4 K4 C2"), mac("b", "N4 K4 C4", "a"), mac("c", "N4 K2 C4", "a")),
    "transposed": network(mac("a", "N4 K8 C2", epilogue=("transpose",)), mac("b", "N4 K2 C8", "a")),
    "unpadded": network(mac("a", "K2 C2 P9 Q4"), mac("b", "K2 C2 P7 Q4 R3", "a"), mac("c", "K2 C2 P5 Q4 R3", "b")),
    "padded above": network(mac("a", "K2 C2 P8 Q4"), mac("b", "K2 C2 P8 Q4 R3", "a", pad=(2, 0))),
    "part": network(
        mac("a", "K8 C2 P4 Q4"), mac("b", "K4 C4 P4 Q2", ("a", "input", False)), mac("c", "K4 C4 P4 Q2", "b")
    ),
    "part of a shortcut": network(
        mac("a", "K4 C2 P4 Q4"),
        mac("b", "K4 C4 P4 Q4", "a"),
        mac("c", "K4 C7 P4 Q4", "b", ("a", "input", False)),
        mac("d", "K2 C4 P4 Q4", "c"),
    ),
    "sums": network(add("a", "K4 P4 Q4", None, None), add("b", "K4 P4 Q4", "a", None)),
}


def runs(workload):
    names = workload.topological
    return [names[a:b] for a in range(len(names)) for b in range(a + 2, len(names) + 1)]


def broken(schedule):
    """Rules that a plan promises to keep, whatever mappings its layers get."""
    examined = rules.Examined(schedule)
    kept = (rules.aligned, rules.fusible, rules.fuses, rules.one_sink, rules.ordered, rules.repeat)
    whole = [v for v in rules.whole(examined) if "softmax under X" not in v.message]
    return [*(violation for rule in kept for violation in rule(examined)), *whole]


def promises(task, plan) -> bool:
    """Asserts what a plan says of its group, against the rules; returns whether it tiles anything."""
    schedule = at_dram(task.workload, task.machine, plan.group)
    assert broken(schedule) == []
    assert plan.live_bytes == pytest.approx(buffer_bytes(task.workload, task.machine, plan.group), rel=1e-12)
    assert max(plan.live_bytes) <= task.all_room.running[task.fusing]
    conditions = conditions_in(task, schedule)
    for name, condition in zip(plan.group.layers, plan.conditions, strict=True):
        assert name not in conditions or condition == conditions[name]
    return plan.group.iterations > 1


@pytest.mark.parametrize("machine", [*FUSING, sized(GEMMINI, scratchpad=96)], ids=lambda machine: machine.name)
def test_every_plan_keeps_the_rules_and_tells_the_bytes_of_its_buffers(machine):
    tiled = 0
    for workload in MORE_NETWORKS.values():
        task = Task(workload, machine)
        found = list(plans(task))
        assert len(set(found)) == len(found)
        # Of the many plans of a run that differ in trip counts, some.
        tiled += sum(promises(task, plan) for plan in found[:: 1 + len(found) // 12])
    assert tiled > 30


@pytest.mark.parametrize("kind", ["chain", "residual", "concatenation", "weight_port", "channel_loop", "unfusible"])
def test_every_plan_of_a_random_network_on_a_random_machine_keeps_its_promises(kind):
    random = Random(kind)
    for seed in range(6):
        drawn = schedules.draw(kind, seed)
        machine = drawn.machine
        if machine.structure.fuses is not None:
            fusing = machine.nodes[machine.structure.fuses]
            machine = sized(machine, **{fusing.name: random.choice([60, 120, 500, 10000])})
        task = Task(drawn.workload, machine)
        found = list(plans(task))
        for plan in random.sample(found, min(len(found), 8)):
            promises(task, plan)


@pytest.mark.parametrize("name", MORE_NETWORKS)
def test_a_run_may_share_exactly_the_trip_counts_that_the_rules_allow(name):
    workload = MORE_NETWORKS[name]
    task = Task(workload, GEMMINI)
    for names in runs(workload):
        allowed = {trips for trips in trip_counts_allowed(workload, GEMMINI, names) if trips.X == 1}
        found = {Trips(*map(int, counts)) for counts in Members(task, names).tiling.trips.T}
        assert found <= allowed, names
        # Of trip counts that do not divide, only some are tried.
        sizes = workload[names[-1]].dims
        even = {trips for trips in allowed if not any(getattr(sizes, loop) % getattr(trips, loop) for loop in "GNPQ")}
        assert even <= found, names


def test_where_divisors_are_far_apart_other_trip_counts_are_tried():
    run = Members(Task(NETWORKS["feed_forward"], BROAD), ("up", "down"))
    assert {int(n) for n in run.tiling.trips[1]} >= {1, 2, 4, 7}


@pytest.mark.parametrize("name", MORE_NETWORKS)
def test_a_run_may_be_a_group_where_the_rules_say_so(name):
    workload = MORE_NETWORKS[name]
    task = Task(workload, GEMMINI)
    for names in runs(workload):
        assert Members(task, names).may_be_group == may_be_group(workload, GEMMINI, names), names


@pytest.fixture(scope="module")
def least_buffers():
    """By network and set of layers that may be a group: the least that their buffers take at once, however tiled."""
    found = {}
    for name, workload in MORE_NETWORKS.items():
        for names in may_be_groups(workload, GEMMINI):
            if len(names) > 1:
                groups = [Group(names, trips, "GNPQX") for trips in trip_counts_allowed(workload, GEMMINI, names)]
                found[name, names] = min(max(buffer_bytes(workload, GEMMINI, one)) for one in groups)
    return found


@pytest.mark.parametrize("scratchpad", [8, 24, 48, 96, 200])
def test_a_set_has_plans_exactly_where_its_buffers_can_fit(scratchpad, least_buffers):
    machine = sized(GEMMINI, scratchpad=scratchpad)
    for name, workload in MORE_NETWORKS.items():
        planned = {plan.group.layers for plan in plans(Task(workload, machine))}
        assert planned == {
            names for of, names in least_buffers if of == name and least_buffers[of, names] <= scratchpad
        }


def test_plans_cover_pairs_blocks_and_channel_loops():
    found = {
        (plan.group.layers, plan.group.trips.X > 1) for name in NETWORKS for plan in plans(Task(NETWORKS[name], BROAD))
    }
    for layers, x in (
        ("a b", 0),
        ("a b c", 0),
        ("a b s c", 0),
        ("dw pw", 0),
        ("k qk", 0),
        ("qk av", 1),
        ("up down", 1),
    ):
        assert (tuple(layers.split()), bool(x)) in found


def test_a_channel_loop_is_planned_inside_and_outside_the_other_loops():
    task = Task(NETWORKS["feed_forward"], BROAD)
    assert {plan.group.loops for plan in plans(task) if plan.group.trips.X > 1} == {"GNPQX", "GXNPQ"}


@pytest.mark.parametrize("operator", ["layer_norm", "softmax"])
def test_no_channel_loop_is_planned_where_an_operator_forbids_it(operator):
    up, down = NETWORKS["feed_forward"].layers
    task = Task(network(replace(up, epilogue=(operator,)), down), machine_with(BROAD, online_softmax=False))
    found = list(plans(task))
    assert found
    assert all(plan.group.trips.X == 1 for plan in found)


def test_a_machine_without_a_memory_that_fuses_has_no_plans():
    for workload in NETWORKS.values():
        task = Task(workload, PLAIN)
        assert list(plans(task)) == []
        plan = alone(task, workload.topological[0])
        assert (plan.group, plan.live_bytes) == (Group(workload.topological[:1]), (0.0,))


@pytest.mark.parametrize("name", builtin_machines())
def test_every_machine_of_the_catalog_that_fuses_has_plans(name):
    machine = load_machine(name)
    found = list(plans(Task(NETWORKS["residual"], machine)))
    assert bool(found) == (machine.fused_in() is not None)


def test_sets_of_the_same_shapes_are_planned_once(monkeypatch):
    looked_at, chosen = [], Members.chosen
    monkeypatch.setattr(Members, "chosen", lambda mine: looked_at.append(mine.names) or chosen(mine))
    layers = [mac(name, "K4 C4 P4 Q4", source) for name, source in zip("abcde", [None, *"abcd"], strict=True)]
    found = {plan.group.layers for plan in plans(Task(network(*layers), BROAD))}
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
    assert set(pairs) <= found
    # The first pair reads a network input. The last is read by nobody, which concerns its conditions only.
    assert [names for names in looked_at if len(names) == 2] == pairs[:2]


# The nearest plan.


def test_the_nearest_plan_has_the_trip_counts_nearest_to_those_wanted():
    run = Members(Task(NETWORKS["residual"], BROAD), tuple("absc"))
    assert run.nearest_plan(np.log([1, 1, 4, 2])).group == group("a b s c", "P4 Q2")
    assert run.nearest_plan(np.log([1, 1, 1.2, 2.7])).group == group("a b s c", "Q2")


def test_the_nearest_plan_fits_or_is_none():
    workload = NETWORKS["residual"]
    whole = Members(Task(workload, BROAD), tuple("absc")).nearest_plan(np.zeros(4))
    assert whole.group.trips == Trips()
    chip = sized(GEMMINI, scratchpad=int(max(whole.live_bytes)) - 1)
    task = Task(workload, chip)
    nearest = Members(task, tuple("absc")).nearest_plan(np.zeros(4))
    assert nearest.group.iterations > 1
    promises(task, nearest)
    assert Members(Task(workload, sized(GEMMINI, scratchpad=1)), tuple("absc")).nearest_plan(np.zeros(4)) is None
    assert Members(Task(MORE_NETWORKS["forked"], BROAD), tuple("abc")).nearest_plan(np.zeros(4)) is None
