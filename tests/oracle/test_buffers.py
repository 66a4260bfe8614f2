"""Buffers of fused intermediates against the elements that stand in them at every moment."""

import math

from hypothesis import given, settings

from fadiff.cost import evaluate
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.schedule.footprint import group_steps
from fadiff.schedule.legality import violations
from fadiff.workload import Dims, Input, Layer, Workload
from oracle import buffers, schedules


def halos_wait(group):
    """Whether images or groups run inside the rows: the model lets all halos wait for them, some need not."""
    inside = group.nesting[group.nesting.index("P") :]
    return any(group.trips._asdict()[loop] > 1 for loop in "GNX" if loop in inside)


def assert_buffers_are_large_enough(schedule):
    """No buffer is ever fuller than the model says; one away from all borders is exactly as full."""
    need = evaluate(schedule).needs
    number = {layer.name: i for i, layer in enumerate(schedule.workload.layers)}
    for group in schedule.groups:
        held = buffers(schedule, group)
        waits = halos_wait(group)
        kept = sum(need.kept[number[name]] for name in group.layers)
        parts = {step.layer: step.l2_parts for step in group_steps(schedule, group)}
        for name, buffer in held.items():
            assert buffer.words <= need.buffer[number[name]]
            assert need.buffer[number[name]] == parts[name][f"buffer of {name}"]
            if buffer.interior and not waits:
                assert buffer.words == need.buffer[number[name]], name
        for name in group.layers:
            i, live = number[name], sum(buffer.words_at[name] for buffer in held.values())
            assert kept + need.passing[i] + live <= need.l2_bytes[i] + 1e-9
            if not waits and group.trips.P == group.trips.Q == 1 and all(buffer.interior for buffer in held.values()):
                assert math.isclose(kept + need.passing[i] + live, need.l2_bytes[i], abs_tol=1e-9)


@settings(max_examples=80)
@given(schedules.chains(images_inside=True))
def test_a_chain_fits_its_buffers(schedule):
    assert_buffers_are_large_enough(schedule)


@settings(max_examples=80)
@given(schedules.chains())
def test_a_chain_fits_its_buffers_whatever_runs_inside_the_rows(schedule):
    assert_buffers_are_large_enough(schedule)


@settings(max_examples=80)
@given(schedules.chains(plain=True, most_trips=6, images_inside=True))
def test_a_chain_of_same_padded_convolutions_holds_exactly_its_halo(schedule):
    assert_buffers_are_large_enough(schedule)


@settings(max_examples=80)
@given(schedules.residuals(images_inside=True))
def test_a_residual_fits_its_buffers(schedule):
    assert_buffers_are_large_enough(schedule)


@settings(max_examples=80)
@given(schedules.residuals(plain=True, most_trips=6, images_inside=True))
def test_a_same_padded_residual_holds_exactly_its_halo(schedule):
    assert_buffers_are_large_enough(schedule)


@settings(max_examples=80)
@given(schedules.chains(plain=True, least_trips=4, most_trips=6, images_inside=True))
def test_tiles_of_rows_and_columns_hold_exactly_their_line_buffer(schedule):
    assert_buffers_are_large_enough(schedule)


@settings(max_examples=60)
@given(schedules.channel_loops())
def test_a_channel_loop_buffers_the_channels_of_one_trip(schedule):
    assert_buffers_are_large_enough(schedule)


@settings(max_examples=60)
@given(schedules.weight_ports())
def test_a_weight_port_buffers_the_whole_tensor(schedule):
    assert_buffers_are_large_enough(schedule)


@settings(max_examples=60)
@given(schedules.concatenations(images_inside=True))
def test_a_concatenation_fits_its_buffers(schedule):
    assert_buffers_are_large_enough(schedule)


def test_a_lead_through_an_upsampling_is_rounded_up_to_whole_rows():
    """The sum runs one row ahead; a layer stored at twice its height cannot run half a row ahead."""
    image = {"P": 16, "K": 1}
    layers = (
        Layer("a", "mac", Dims(**image), (Input(None),)),
        Layer("b", "mac", Dims(P=8, R=3), (Input("a"),), stride=(2, 1), epilogue=("upsample",), out=(16, 1)),
        Layer("s", "add", Dims(**image), (Input("a", "addend"), Input("b", "addend"))),
        Layer("d", "mac", Dims(P=16, R=3), (Input("s"),)),
    )
    mappings = {x.name: Mapping(l3=Dims(P=8), l1=x.dims._replace(P=x.dims.P // 8)) for x in layers if x.is_mac}
    schedule = Schedule(
        Workload("skip", layers), schedules.MACHINE, (Group(("a", "b", "s", "d"), Trips(P=8)),), mappings
    )
    assert violations(schedule) == []
    assert_buffers_are_large_enough(schedule)
    held = buffers(schedule, schedule.groups[0])
    assert held["a"].interior
    assert held["a"].words == evaluate(schedule).needs.buffer[0] == 2 + 1
