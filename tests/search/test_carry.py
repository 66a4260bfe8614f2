"""What carries over from a schedule to another batch, size, network or machine."""

from dataclasses import replace
from functools import cache

import pytest

from examples import SECOND_FILES
from fadiff import Schedule, evaluate, greedy, load_constraints, load_model, optimize, violations
from fadiff.schedule.file import read_schedule
from fadiff.search.carry import carry, matched
from fadiff.search.carry.adapting import adapted
from fadiff.search.carry.batches import repeated
from fadiff.search.driver import Incumbent, Settings
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.method import ExactSearch
from fadiff.search.objective import EDP
from fadiff.workload import Workload, WorkloadError
from oracle.schedules import draw
from search.networks import FLAT, GEMMINI, MACHINES, NETWORKS, at_dram, group, mac, network, sized
from search.solver.tight import tight

CHIP = sized(GEMMINI, rows=2, cols=2, accumulator=64, scratchpad=128)
PAIR = network(mac("a", "K4 C2 P6 Q4 R3"), mac("b", "K2 C4 P6 Q4", "a"))


def times(workload, m):
    """The same network of m times the batch: images in N, and attention's products in G."""
    ports = {layer.name: any(operand.port == "weight" for operand in layer.inputs) for layer in workload.layers}
    grown = (
        replace(one, dims=one.dims._replace(**({"G": one.dims.G * m} if ports[one.name] else {"N": one.dims.N * m})))
        for one in workload.layers
    )
    return Workload(workload.name, tuple(grown))


@cache
def priced(path):
    return evaluate(read_schedule(path)[0])


@pytest.mark.parametrize("path", SECOND_FILES, ids=lambda path: path.stem)
def test_a_multiple_of_the_batch_costs_at_most_the_multiple(path):
    """Fused groups and layers alone, channel loops, cut ends and attention; on all kinds of machines."""
    for m in (2, 3):
        assert_at_most(priced(path), m)


def assert_at_most(before, m):
    """So many times the batch is legal, and costs at most so many times as much."""
    found = repeated(before.schedule, times(before.schedule.workload, m), before.schedule.machine)
    assert found is not None
    assert violations(found) == []
    after = evaluate(found)
    assert after.energy_pj <= m * before.energy_pj * (1 + 1e-12)
    assert after.cycles <= m * before.cycles * (1 + 1e-12)


@pytest.mark.parametrize("kind", ["single", "image_lanes", "chain", "residual", "concatenation", "channel_loop"])
def test_a_multiple_of_the_batch_of_random_schedules_costs_at_most_the_multiple(kind):
    """Batches that are cut at their ends, shared at any place of a nesting or by nobody."""
    counted = 0
    for seed in range(12):
        schedule = draw(kind, 700_000 + seed)
        if violations(schedule):
            continue
        counted += 1
        assert_at_most(evaluate(schedule), 2)
    assert counted > 6


@pytest.mark.parametrize("kind", ["chain", "residual", "concatenation"])
def test_on_memories_full_to_the_last_byte_only_groups_that_share_nothing_may_cost_more(kind):
    """There the weights of one layer made room for the next, which they do not where they stay for the next image."""
    counted = 0
    for seed in range(14):
        schedule = tight(kind, 820_000 + seed)
        if violations(schedule) or any(len(one.layers) > 1 and max(one.trips) == 1 for one in schedule.groups):
            continue
        counted += 1
        assert_at_most(evaluate(schedule), 2)
    assert counted > 6


@pytest.mark.parametrize("path", SECOND_FILES, ids=lambda path: path.stem)
def test_once_is_the_schedule_itself(path):
    schedule = priced(path).schedule
    again = repeated(schedule, schedule.workload, schedule.machine)
    assert (again.groups, again.mappings) == (schedule.groups, schedule.mappings)
    assert carry(schedule, schedule).notes == ("all of it",)


def test_a_shared_loop_that_is_not_there_yet_goes_outside_of_all_others():
    one = group("a b", "P3")
    schedule = at_dram(PAIR, sized(GEMMINI, rows=2, cols=2, accumulator=1024, scratchpad=4096), one)
    assert repeated(schedule, times(PAIR, 5), schedule.machine).groups[0].nesting.startswith("GNP")
    odd = replace(schedule, groups=(replace(one, loops="PQGN"),))
    (found,) = repeated(odd, times(PAIR, 5), odd.machine).groups
    assert (found.nesting[:3], found.trips) == ("NPQ", one.trips._replace(N=5))


@pytest.mark.parametrize(
    "other",
    [
        network(mac("a", "N3 K4 C2 P6 Q4 R3"), mac("b", "N3 K2 C4 P6 Q4", "a")),
        network(mac("a", "K4 C2 P6 Q4 R3"), mac("z", "K2 C4 P6 Q4", "a")),
        network(mac("a", "K4 C2 P8 Q4 R3"), mac("b", "K2 C4 P8 Q4", "a")),
        network(mac("a", "K4 C2 P6 Q4 R3"), mac("b", "K2 C4 P6 Q4", "a"), mac("c", "K2 C2 P6 Q4", "b")),
    ],
    ids=["batch of 2 for 3", "another name", "another size", "one more layer"],
)
def test_what_is_no_multiple_is_not_repeated(other):
    twice = network(*(replace(layer, dims=layer.dims._replace(N=2)) for layer in PAIR.layers))
    assert repeated(greedy(twice, CHIP), other, CHIP) is None
    assert repeated(greedy(other, CHIP), other, FLAT) is None


def test_layers_are_matched_by_name_then_by_shape_then_by_role():
    start = greedy(network(*PAIR.layers, mac("c", "K2 C2 P6 Q4", "b")), CHIP)
    new = network(mac("a", "K8 C2 P6 Q4 R3"), mac("x", "K2 C8 P6 Q4", "a"), mac("y", "K2 C2 P6 Q4 R5", "x"))
    assert {name: old.name for name, old in matched(start, new).items()} == {"a": "a", "x": "b"}


@pytest.mark.parametrize("chip", MACHINES)
@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_adapted_is_legal(name, chip):
    """Each small network from its own schedule on every machine, on a tight one."""
    tight = sized(GEMMINI, rows=2, cols=2, accumulator=16, scratchpad=24)
    start = greedy(NETWORKS[name], MACHINES[chip])
    fallback = greedy(NETWORKS[name], tight)
    found = adapted(start, fallback, matched(start, fallback.workload))
    assert violations(found) == []
    assert found.workload == fallback.workload
    assert found.machine == tight


@pytest.mark.parametrize("path", [path for path in SECOND_FILES if "fused" in path.stem], ids=lambda path: path.stem)
def test_groups_carry_over_to_other_sizes(path):
    """Half the rows and twice the batch: another schedule, but the same groups."""
    start = priced(path).schedule
    layers = (replace(one, dims=one.dims._replace(N=one.dims.N * 2)) for one in start.workload.layers)
    try:
        workload = Workload("other", tuple(layers))
    except WorkloadError:
        pytest.skip("its batch is not in N")
    found = carry(start, greedy(workload, start.machine))
    kept = [{*one.layers} for one in found.schedules[-1].groups]
    assert [{*one.layers} for one in start.groups] == kept


def test_the_sentence_says_what_is_new_and_what_is_other():
    start = at_dram(PAIR, CHIP, group("a b", "P3"))
    grown = network(*PAIR.layers, mac("c", "K2 C2 P2 Q4 R3", "b", stride=(3, 1)))
    told = carry(start, greedy(grown, CHIP)).told("old.json")
    assert told == "2 of 3 layers start from old.json: c is new; 1 of 1 fused groups are kept."
    wider = network(mac("a", "K8 C2 P6 Q4 R3"), mac("b", "K2 C8 P6 Q4", "a"))
    told = carry(greedy(PAIR, CHIP), greedy(wider, CHIP)).told("old.json")
    assert told == "2 of 2 layers start from old.json: a, b have another shape."
    told = carry(start, greedy(times(PAIR, 4), CHIP)).told("old.json")
    assert told == "2 of 2 layers start from old.json: all of it, 4 times in a row."


def test_a_layer_of_another_name_is_told_with_the_one_that_it_starts_from():
    new = network(mac("stem", "K4 C2 P6 Q4 R3"), mac("b", "K2 C4 P6 Q4", "stem"))
    told = carry(greedy(PAIR, CHIP), greedy(new, CHIP)).told("old.json")
    assert told == "2 of 2 layers start from old.json: stem from a."


def test_a_start_that_does_not_keep_what_is_asked_is_brought_near_to_it():
    """The group and the orders of a start stay, and a factor, or the group, gives way."""
    start = at_dram(PAIR, GEMMINI, group("a b", "P3"))
    for told, layers in (
        ({"mapping": [{"layers": "b", "factors": {"cols": {"K": 2}}}]}, [("a", "b")]),
        ({"split": [["a", "b"]]}, [("a",), ("b",)]),
    ):
        asked = load_constraints(told)
        carried = carry(start, greedy(PAIR, GEMMINI, constraints=asked), asked)
        (found,) = carried.schedules
        assert asked.broken(start)
        assert asked.broken(found) == violations(found) == []
        assert [one.layers for one in found.groups] == layers
        assert f": it does not keep what is asked now ({asked.broken(start)[0]})" in carried.told("old.json")


def test_a_search_is_never_worse_than_what_it_starts_from():
    """With no time for more than the greedy schedule, of the same batch and of four times as much."""
    best = optimize(PAIR, CHIP, budget_seconds=60).best
    assert best.edp_uj_cycles < evaluate(greedy(PAIR, CHIP)).edp_uj_cycles
    same = optimize(PAIR, CHIP, method="greedy", start=best.schedule)
    assert same.best.edp_uj_cycles == best.edp_uj_cycles
    assert same.found is None
    more = optimize(times(PAIR, 4), CHIP, budget_seconds=0.01, start=best.schedule)
    assert more.best.energy_pj <= 4 * best.energy_pj
    assert more.best.cycles <= 4 * best.cycles
    assert [point.phase for point in more.trace][:2] == ["greedy", "start"]


def test_the_exact_search_goes_on_from_mappings_and_groups():
    """Without plans of its own it keeps the group of the start, and makes it better."""
    start = optimize(PAIR, CHIP, budget_seconds=60).schedule
    assert any(len(one.layers) > 1 for one in start.groups)
    worse = carry(start, greedy(network(*(replace(x, repeat=2) for x in PAIR.layers)), CHIP)).schedules[0]
    task, incumbent = Task(worse.workload, CHIP), Incumbent(EDP)
    incumbent.offer(greedy(worse.workload, CHIP))
    known = ExactSearch(task, Settings(), incumbent)
    for step in (known.map(1, polished=False), known.resume([worse]), known.fuse("fuse")):
        list(step)
    assert [one.layers for one in incumbent.best.schedule.groups] == [one.layers for one in start.groups]
    assert incumbent.best.edp_uj_cycles <= evaluate(worse).edp_uj_cycles * (1 + 1e-6)


def test_starts_may_be_files(tmp_path):
    from fadiff import save_schedule

    save_schedule(tmp_path / "start.json", start := greedy(PAIR, CHIP))
    by_file, by_value = (
        optimize(PAIR, CHIP, method="greedy", start=one) for one in (str(tmp_path / "start.json"), start)
    )
    assert isinstance(by_file.schedule, Schedule)
    assert by_file.carried == by_value.carried


def test_a_zoo_network_of_another_machine_starts_anywhere():
    start = greedy(load_model("mobilenet_v1"), MACHINES[next(iter(MACHINES))])
    fallback = greedy(load_model("mobilenet_v1:batch=2,size=192"), sized(GEMMINI, rows=4, cols=4))
    found = carry(start, fallback)
    assert violations(found.schedules[0]) == []
    assert found.layers == len(fallback.workload.layers)
