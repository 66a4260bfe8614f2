"""Schedules whose names can be shown: cut, still different, and otherwise the same."""

from dataclasses import replace

from fadiff.cost import evaluate
from fadiff.schedule.asked import Asked, AskedOne
from fadiff.schedule.naming import LONGEST_FACT, LONGEST_NAME, short_named
from fadiff.schedule.rules import violations
from fadiff.search import greedy
from search.networks import GEMMINI, add, group, mac, network

LONG = "n" * 20_000


def long_named():
    """A fused block in which every name is long; two differ in their middle alone."""
    a, b = f"{LONG}a{LONG}", f"{LONG}b{LONG}"
    workload = network(mac(a, "K4 C4 P4 Q4"), mac(b, "K4 C4 P4 Q4", a), add("s", "K4 P4 Q4", b, a))
    nodes = tuple(replace(node, name=f"{LONG}{node.name}") for node in GEMMINI.nodes)
    machine = replace(GEMMINI, name=LONG, nodes=nodes)
    schedule = greedy(replace(workload, name=LONG), machine)
    groups = (replace(group("s"), layers=(a, b, "s")),)
    asked = Asked((AskedOne(f"{a} -> {b} is fused"),))
    return replace(schedule, groups=groups, made_by={"command": LONG, "seed": 3}, asked=asked)


def test_every_name_is_cut_and_layers_stay_different():
    short = short_named(long_named())
    layers, nodes = ([one.name for one in some] for some in (short.workload.layers, short.machine.nodes))
    assert max(map(len, [short.workload.name, short.machine.name, *layers, *nodes])) <= LONGEST_NAME
    assert len(set(layers)) == 3
    assert layers[1].endswith("~2")
    assert len(set(nodes)) == len(nodes)
    assert len(short.made_by["command"]) == LONGEST_FACT
    assert short.made_by["seed"] == 3
    assert [len(one.constraint) for one in short.asked.constraints] == [LONGEST_FACT]


def test_the_schedule_is_the_same_but_for_names():
    given = long_named()
    short = short_named(given)
    assert violations(short) == violations(given) == []
    before, after = evaluate(given), evaluate(short)
    assert (after.energy_pj, after.cycles) == (before.energy_pj, before.cycles)
    assert len(short.fused_edges) == len(given.fused_edges) == 3
    assert short_named(short) == short


def test_names_that_can_be_shown_are_left_alone():
    schedule = greedy(network(mac("a", "K4 C4")), GEMMINI)
    assert short_named(schedule) is schedule
