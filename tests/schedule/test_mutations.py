"""Every priced schedule with one thing changed: the rule that the change breaks is the one that is reported."""

import json
from dataclasses import replace
from math import ceil, inf

import numpy as np
import pytest

from examples import FIRST, SECOND_FILES
from fadiff.cost.checked import load_schedule
from fadiff.files import FileError
from fadiff.hardware import Axis, Memory, pack_machine
from fadiff.schedule.capacity import needs
from fadiff.schedule.file import read_schedule
from fadiff.schedule.rules import Examined, violations
from fadiff.workload import DIMS, Workload
from schedule.toys import on, remapped

SMALL = sorted((FIRST / "small").glob("*.json"))
every_example = pytest.mark.parametrize("path", SECOND_FILES, ids=lambda path: path.stem)
GROUPS = [path for path in SECOND_FILES if any(len(group.layers) > 1 for group in read_schedule(path)[0].groups)]
every_group = pytest.mark.parametrize("path", GROUPS, ids=lambda path: path.stem)


def rules(schedule):
    return {violation.rule for violation in violations(schedule)}


def grouped(schedule):
    """The groups of several layers."""
    return [group for group in schedule.groups if len(group.layers) > 1]


def with_group(schedule, old, new):
    return replace(schedule, groups=tuple(new if group == old else group for group in schedule.groups))


def with_layer(schedule, changed):
    layers = tuple(changed if layer.name == changed.name else layer for layer in schedule.workload.layers)
    return replace(schedule, workload=Workload(schedule.workload.name, layers))


def bytes_needed(schedule):
    """The most that any layer needs of each memory, by its name."""
    examined = Examined(schedule)
    total = needs(examined.nest, examined.placement, pack_machine(schedule.machine)).total
    return {schedule.machine.nodes[node].name: float(np.max(held)) for node, held in total.items()}


def outermost_factors(schedule):
    """Of every dim of every layer the outermost factor above 1: layer, node, dim, factor, and trips shared outside."""
    examined = Examined(schedule)
    for layer, mapping in examined.mapped():
        for d, dim in enumerate(DIMS):
            shared = round(examined.shared[d, examined.number[layer.name]])
            factors = [f[d] for f in mapping.factors]
            factors[0] //= shared
            at = next((i for i, factor in enumerate(factors) if factor > 1), None)
            if at is not None:
                yield layer.name, schedule.machine.nodes[at].name, dim, factors[at], shared if at == 0 else 1


@pytest.mark.parametrize("path", [*SECOND_FILES, *SMALL], ids=lambda path: path.stem)
def test_a_memory_of_exactly_the_bytes_needed_is_enough_and_one_less_is_not(path):
    schedule = read_schedule(path)[0]
    for name, needed in bytes_needed(schedule).items():
        node = schedule.machine.nodes[schedule.machine.number[name]]
        assert isinstance(node, Memory)
        assert 0 < needed <= node.usable_bytes
        for double in (False, True):
            enough = ceil(needed) * (2 if double else 1)
            assert violations(on(schedule, {name: {"bytes": enough, "double_buffered": double}})) == []
            if enough > 1:
                broken = violations(on(schedule, {name: {"bytes": enough - 1, "double_buffered": double}}))
                assert {violation.rule for violation in broken} == {"fits"}
                assert all(f"bytes of {name} at step " in violation.message for violation in broken)


@every_example
def test_the_parts_that_a_full_memory_is_told_to_hold_sum_to_what_it_needs(path):
    schedule = read_schedule(path)[0]
    for name, needed in bytes_needed(schedule).items():
        if ceil(needed) == 1:
            continue
        for violation in violations(on(schedule, {name: {"bytes": ceil(needed) - 1, "double_buffered": False}})):
            told, parts = violation.message.split(" are there: ")
            total, sizes = _number(told.split(" bytes of ")[0]), [_number(part) for part in parts.split(", ")]
            assert sum(sizes) == pytest.approx(total, abs=0.01 * len(sizes))


def _number(text):
    """The number that a text ends with."""
    return float(text.rsplit(" ", 1)[1].replace(",", ""))


@every_example
def test_an_outermost_factor_that_is_one_off_is_refused(path):
    schedule = read_schedule(path)[0]
    for layer, node, dim, factor, shared in outermost_factors(schedule):
        more = violations(remapped(schedule, layer, **{node: {dim: (factor + 1) * shared}}))
        told = [violation for violation in more if violation.rule == "factors"]
        assert [violation.layers for violation in told] == [(layer,)]
        assert "leave some idle" in told[0].message
        assert {violation.rule for violation in more} <= {"factors", "spatial", "fits", "complete"}
        fewer = violations(remapped(schedule, layer, **{node: {dim: (factor - 1) * shared}}))
        told = [violation for violation in fewer if violation.rule == "factors"]
        assert [violation.layers for violation in told] == [(layer,)]
        assert "its factors multiply to" in told[0].message


@every_example
def test_an_axis_that_lacks_a_lane_or_a_dim_is_refused(path):
    schedule = read_schedule(path)[0]
    for node in schedule.machine.nodes:
        if not isinstance(node, Axis):
            continue
        factors = [mapping.factors[schedule.machine.number[node.name]] for mapping in schedule.mappings.values()]
        most = max(int(np.prod(f)) for f in factors)
        assert rules(on(schedule, {node.name: {"size": most}})) == set()
        if most > 1:
            assert rules(on(schedule, {node.name: {"size": most - 1}})) == {"spatial"}
        used = {dim for f in factors for dim, lanes in f._asdict().items() if lanes > 1}
        for dim in node.dims:
            broken = rules(on(schedule, {node.name: {"dims": node.dims.replace(dim, "")}}))
            assert "spatial" in broken if dim in used else not broken


@every_example
def test_an_order_that_is_dropped_is_missed_exactly_where_several_loops_run(path, tmp_path):
    data = json.loads(path.read_text())
    machine = read_schedule(path)[0].machine
    for layer, keys in data["mappings"].items():
        for memory, order in dict(keys.get("order", {})).items():
            del keys["order"][memory]
            (tmp_path / "dropped.json").write_text(json.dumps(data))
            running = [dim for dim, factor in keys.get(memory, {}).items() if factor > 1]
            if len(running) > 1 and memory != machine.memories[-1].name:
                with pytest.raises(FileError) as refused:
                    load_schedule(tmp_path / "dropped.json")
                assert f"mappings.{layer}.order.{memory}: more than one loop runs there" in str(refused.value)
            else:
                load_schedule(tmp_path / "dropped.json")
            keys["order"][memory] = order


@every_group
def test_shared_trips_that_leave_the_last_one_empty_are_not_aligned(path):
    schedule = read_schedule(path)[0]
    for group in grouped(schedule):
        sink = schedule.workload[group.layers[-1]].dims._asdict()
        for loop, trips in group.trips._asdict().items():
            if trips > 1:
                size = sink["C" if loop == "X" else loop]
                for empty in (t for t in (trips + 1, size + 1) if (t - 1) * -(-size // t) >= size):
                    changed = replace(group, trips=group.trips._replace(**{loop: empty}))
                    assert rules(with_group(schedule, group, changed)) == {"aligned"}


@every_group
def test_a_group_on_a_machine_that_does_not_fuse_is_refused(path):
    schedule = read_schedule(path)[0]
    name = schedule.machine.fused_in().name
    broken = [v for v in violations(on(schedule, {name: {"fuses": False}})) if v.rule == "fuses"]
    assert [violation.layers for violation in broken] == [group.layers for group in grouped(schedule)]


@every_group
def test_layers_in_another_order_than_their_data_flows_are_refused(path):
    schedule = read_schedule(path)[0]
    for group in grouped(schedule):
        backwards = replace(group, layers=group.layers[::-1])
        assert "ordered" in rules(with_group(schedule, group, backwards))
    apart = [replace(group, layers=(name,)) for group in schedule.groups for name in group.layers]
    backwards = replace(schedule, groups=tuple(reversed(apart)))
    told = {v.layers for v in violations(backwards) if v.rule == "ordered"}
    assert told == {(edge.source, edge.target) for edge in schedule.workload.edges}


@every_group
def test_a_layer_that_repeats_more_often_than_its_group_is_refused(path):
    schedule = read_schedule(path)[0]
    for group in grouped(schedule):
        for name in group.layers:
            layer = schedule.workload[name]
            assert rules(with_layer(schedule, replace(layer, repeat=layer.repeat + 1))) == {"repeat"}


@every_group
def test_an_operand_that_is_not_fusible_is_refused_in_a_group(path):
    schedule = read_schedule(path)[0]
    for edge in schedule.fused_edges:
        layer = schedule.workload[edge.target]
        inputs = tuple(
            replace(o, fusible=o.fusible and (o.source, o.port) != (edge.source, edge.port)) for o in layer.inputs
        )
        found = violations(with_layer(schedule, replace(layer, inputs=inputs)))
        assert {(v.rule, v.layers) for v in found} == {("fusible", (edge.source, edge.target))}


@every_group
def test_a_layer_that_leaves_its_group_may_take_its_sink_away(path):
    """Without its last layer a group still has one sink, or layers that reach none are named."""
    schedule = read_schedule(path)[0]
    for group in grouped(schedule):
        *rest, last = group.layers
        parts = (replace(group, layers=tuple(rest), trips=type(group.trips)()), replace(group, layers=(last,)))
        at = schedule.groups.index(group)
        cut = replace(schedule, groups=(*schedule.groups[:at], *parts, *schedule.groups[at + 1 :]))
        inside = {edge.source for edge in schedule.workload.edges if {edge.source, edge.target} <= set(rest)}
        lost = [name for name in rest[:-1] if name not in inside]
        told = [v for v in violations(cut) if v.rule == "one sink"]
        assert bool(told) == bool(lost)


def test_a_machine_without_limits_refuses_no_tile():
    for path in [*SECOND_FILES, *SMALL]:
        schedule = read_schedule(path)[0]
        roomy = {memory.name: {"bytes": 2**40} for memory in schedule.machine.memories[1:]}
        assert rules(on(schedule, roomy)) == set()
        assert schedule.machine.memories[0].usable_bytes == inf
