"""Some groups of a schedule, and one of each kind: both cost what they do in the whole."""

from dataclasses import replace

import numpy as np
import pytest

from examples import FILES, SECOND_FILES
from fadiff.cost import evaluate
from fadiff.schedule import Group, Schedule, Trips
from fadiff.schedule.file import read_schedule
from fadiff.schedule.folding import folded, group_kinds
from fadiff.schedule.ir import ScheduleError
from fadiff.schedule.rules import Examined, violations
from fadiff.search import greedy
from fadiff.search.explain.unfused import distinct_layers
from fadiff.workload import Workload
from fadiff.workload.layer import MAX_SIZE
from search.networks import GEMMINI, NETWORKS, add, mac, network

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@each_file
def test_a_group_alone_costs_and_holds_what_it_does_in_the_whole(path):
    schedule = read_schedule(path)[0]
    whole, examined = evaluate(schedule), Examined(schedule)
    for group in schedule.groups:
        excerpt = schedule.excerpt([group])
        part, mine = evaluate(excerpt), [examined.number[layer.name] for layer in excerpt.layers]
        assert {layer.name for layer in excerpt.layers} == set(group.layers)
        assert np.array_equal(part.words, whole.words[:, mine])
        assert np.array_equal(part.terms, whole.terms[:, mine])
        assert np.array_equal(part.layer_energy_pj, whole.layer_energy_pj[mine])
        for memory, held in Examined(excerpt).needs.total.items():
            assert np.array_equal(held, np.asarray(examined.needs.total[memory])[mine])
        assert violations(excerpt) == []


def beside_itself(schedule: Schedule, times: int) -> Schedule:
    """A schedule of so many copies of its network, none of which knows the others."""

    def named(name: str | None, copy: int) -> str | None:
        return name and f"{name}#{copy}"

    layers, groups, mappings = [], [], {}
    for copy in range(times):
        for layer in schedule.workload.layers:
            inputs = tuple(replace(operand, source=named(operand.source, copy)) for operand in layer.inputs)
            layers.append(replace(layer, name=f"{layer.name}#{copy}", inputs=inputs))
        groups += [replace(g, layers=tuple(f"{name}#{copy}" for name in g.layers)) for g in schedule.groups]
        mappings |= {f"{name}#{copy}": mapping for name, mapping in schedule.mappings.items()}
    return replace(
        schedule, workload=Workload("copies", tuple(layers)), groups=tuple(groups), mappings=mappings, bound=None
    )


@pytest.mark.parametrize("path", SECOND_FILES, ids=lambda path: path.stem)
def test_a_folded_schedule_costs_what_the_whole_does(path):
    schedule = beside_itself(read_schedule(path)[0], 3)
    kinds, once = group_kinds(schedule), folded(schedule)
    assert len(once.groups) == len(set(kinds)) <= len(schedule.groups) // 3
    whole, small = evaluate(schedule), evaluate(once)
    assert (small.energy_pj, small.cycles) == pytest.approx((whole.energy_pj, whole.cycles), rel=1e-12)
    assert small.utilization == pytest.approx(whole.utilization, rel=1e-12)
    assert violations(once) == []


CHAIN = network(*(mac(f"l{i}", "K4 C4 P4 Q4", f"l{i - 1}" if i else None) for i in range(4)))


def test_groups_differ_by_their_readers_mappings_and_loops():
    schedule = greedy(CHAIN, GEMMINI)
    assert group_kinds(schedule) == [0, 1, 1, 3]  # l0 reads the network's input, and nobody reads l3
    pair = replace(schedule, groups=(Group(("l0",)), Group(("l1", "l2"), Trips(P=2)), Group(("l3",))))
    assert group_kinds(pair) == [0, 1, 2]
    factors = [*schedule.mappings["l1"].factors]
    factors[0], factors[-1] = factors[-1], factors[0]
    other = replace(schedule.mappings["l1"], factors=tuple(factors))
    assert group_kinds(replace(schedule, mappings={**schedule.mappings, "l1": other})) == [0, 1, 2, 3]


def test_what_cannot_be_repeated_more_often_is_not_folded():
    layers = [replace(layer, repeat=MAX_SIZE) for layer in CHAIN.layers]
    schedule = greedy(replace(CHAIN, layers=tuple(layers)), GEMMINI)
    assert folded(schedule) is schedule
    assert len(distinct_layers(schedule.workload).layers) == 4


def test_only_an_excerpt_may_leave_out_layers():
    schedule = greedy(CHAIN, GEMMINI)
    with pytest.raises(ScheduleError, match="groups leave out"):
        replace(schedule, groups=schedule.groups[:2])
    assert [layer.name for layer in schedule.excerpt(schedule.groups[1:2]).layers] == ["l1"]


@pytest.mark.parametrize("name", NETWORKS)
def test_different_layers_repeated_cost_what_the_network_does_unfused(name):
    workload = NETWORKS[name]
    twice = Workload("twice", (*workload.layers, add("more", "N2 K2", None, None), add("again", "N2 K2", None, None)))
    few = distinct_layers(twice)
    assert len(few.layers) < len(twice.layers)
    whole, small = (evaluate(greedy(one, GEMMINI)) for one in (twice, few))
    assert (small.energy_pj, small.cycles) == pytest.approx((whole.energy_pj, whole.cycles), rel=1e-12)
