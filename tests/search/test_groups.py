"""Plans for groups: what they promise about L2 holds, and none that could fit is overlooked."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fadiff.schedule import Group, Trips
from fadiff.schedule.legality import violations
from fadiff.search.assemble import fill, seat, to_schedule
from fadiff.search.conditions import Problem
from fadiff.search.groups import Plan, Run, plans
from fadiff.search.options import from_dram, scattered
from oracle import schedules
from search.exhaustive import buffer_bytes, may_be_group, trip_counts
from search.networks import NETWORKS, add, group, mac, machine, network
from search.rows import as_options

BROAD = machine(l2_bytes=1 << 20)
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


@pytest.mark.parametrize("name", MORE_NETWORKS)
def test_a_run_may_share_exactly_the_trip_counts_that_the_rules_allow(name):
    workload = MORE_NETWORKS[name]
    for names in runs(workload):
        run = Run(workload, names)
        allowed = {trips for trips in trip_counts(workload, names) if trips.X == 1}
        assert {Trips(*map(int, counts)) for counts in run.trips.T} == allowed, names


@pytest.mark.parametrize("name", MORE_NETWORKS)
def test_a_run_may_be_a_group_where_the_rules_say_so(name):
    workload = MORE_NETWORKS[name]
    for names in runs(workload):
        assert Run(workload, names).may_be_group == may_be_group(workload, names), names


@pytest.mark.parametrize("l2_bytes", [64, 256, 1 << 20])
@pytest.mark.parametrize("name", MORE_NETWORKS)
def test_live_bytes_are_the_buffers_that_the_rules_count(name, l2_bytes):
    workload, hardware = MORE_NETWORKS[name], machine(l2_bytes=l2_bytes)
    for plan in plans(workload, hardware):
        assert plan.live_bytes == tuple(buffer_bytes(workload, hardware, plan.group))
        assert max(plan.live_bytes) <= l2_bytes


def test_plans_cover_pairs_blocks_and_channel_loops():
    found = {(plan.group.layers, plan.group.trips.X > 1) for name in NETWORKS for plan in plans(NETWORKS[name], BROAD)}
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
    found = {plan.group.loops for plan in plans(NETWORKS["feed_forward"], BROAD) if plan.group.trips.X > 1}
    assert found == {"GNPQX", "GXNPQ"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"epilogue": ("layer_norm",)}, "it needs all channels"),
        ({"epilogue": ("softmax",)}, "it needs whole rows on a machine without online softmax"),
    ],
    ids=["layer_norm", "softmax"],
)
def test_no_channel_loop_is_planned_where_an_operator_forbids_it(change, why):
    up, down = NETWORKS["feed_forward"].layers
    workload = network(replace(up, **change), down)
    assert all(plan.group.trips.X == 1 for plan in plans(workload, machine(online_softmax=False))), why


def buffers_fit(workload, hardware, names):
    """Whether any legal trip counts, with or without a channel loop, make the buffers of a run fit."""
    ways = trip_counts(workload, names) if may_be_group(workload, names) else []
    groups = [Group(names, trips, "GNPQX") for trips in ways]
    return any(max(buffer_bytes(workload, hardware, one)) <= hardware.usable_l2_bytes for one in groups)


@pytest.mark.parametrize("l2_bytes", [8, 24, 48, 96, 200])
@pytest.mark.parametrize("name", MORE_NETWORKS)
def test_a_run_has_plans_exactly_where_its_buffers_can_fit(name, l2_bytes):
    workload, hardware = MORE_NETWORKS[name], machine(l2_bytes=l2_bytes)
    planned = {plan.group.layers for plan in plans(workload, hardware)}
    assert planned == {names for names in runs(workload) if buffers_fit(workload, hardware, names)}


def test_the_nearest_plan_has_the_trip_counts_nearest_to_those_wanted():
    run = Run(NETWORKS["residual"], tuple("absc"))
    assert run.nearest_plan(BROAD, np.log([1, 1, 4, 2])).group == group("a b s c", "P4 Q2")
    assert run.nearest_plan(BROAD, np.log([1, 1, 1.2, 2.7])).group == group("a b s c", "Q2")


def test_the_nearest_plan_fits_or_is_none():
    run = Run(NETWORKS["residual"], tuple("absc"))
    whole = run.nearest_plan(BROAD, np.zeros(4))
    assert whole.group.trips == Trips()
    chip = machine(l2_bytes=max(whole.live_bytes) - 1)
    assert max(run.nearest_plan(chip, np.zeros(4)).live_bytes) <= chip.l2_bytes
    assert run.nearest_plan(machine(l2_bytes=1), np.zeros(4)) is None
    assert Run(MORE_NETWORKS["forked"], tuple("abc")).nearest_plan(BROAD, np.zeros(4)) is None


networks = st.one_of(
    schedules.chains(), schedules.residuals(), schedules.channel_loops(), schedules.weight_ports(),
    schedules.concatenations(), schedules.unfusible(),
).map(lambda schedule: schedule.workload)  # fmt: skip


@settings(max_examples=30)
@given(networks, st.sampled_from([60, 120, 500]), st.integers(0, 2**31))
def test_every_filled_plan_is_a_legal_schedule(workload, l2_bytes, seed):
    hardware = machine(l2_bytes=l2_bytes, rows=8, cols=8, l1_bytes=512)
    random = np.random.default_rng(seed)
    problem = Problem(workload, hardware)
    singles = [seat(problem, Plan(Group((name,)), (0,))) for name in workload.topological]
    seats = singles + [seat(problem, plan) for plan in plans(workload, hardware)]
    conditions = list(dict.fromkeys(condition for one in seats for condition in one.conditions))
    starts = {c: [from_dram(problem, c), *(scattered(problem, c, random) for _ in range(4))] for c in conditions}
    options = as_options(problem, starts, (1e-4, 1e-3))
    fitting = 0
    for one in seats[len(singles) :]:
        filled = fill(problem, one, options, (1e-4, 1e-3), worth=np.inf)
        if filled is None:
            continue
        fitting += 1
        others = [fill(problem, o, options, (1e-4, 1e-3), worth=np.inf) for o in singles]
        rest = [o for o in others if o.seat.plan.group.layers[0] not in one.plan.group.layers]
        place = workload.depth
        cut = sorted([filled, *rest], key=lambda f: place[f.seat.plan.group.layers[0]])
        assert violations(to_schedule(problem, cut)) == []
    event(f"{min(fitting, 5)} plans or more" if fitting >= 5 else f"{fitting} plans")
