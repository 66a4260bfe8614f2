"""The simulated buffers: cases counted by hand."""

import pytest

from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.workload import Dims, Input, Layer, Workload
from oracle import buffers
from oracle.machines import known_machines
from oracle.schedules import KINDS, draw


def pair(rows, reader, trips, loops="GNPQ", cols=1, batch=1, pad=None, stride=(1, 1)):
    """What the buffer between two convolutions holds; the second computes `reader` rows with a kernel of three."""
    layers = (
        Layer("a", "mac", Dims(N=batch, P=rows, Q=cols), (Input(None),)),
        Layer("b", "mac", Dims(N=batch, P=reader, Q=cols, R=3), (Input("a"),), stride=stride, pad=pad),
    )
    on = known_machines()[0]
    group = Group(("a", "b"), Trips(**trips), loops)
    schedule = Schedule(Workload("pair", layers), on, (group,), {name: Mapping.of(on, {}) for name in "ab"})
    return buffers(schedule, group)["a"]


def test_without_shared_loops_the_whole_tensor_waits():
    assert pair(8, 8, {}).values == 8


def test_a_padded_convolution_needs_its_tile_and_two_rows():
    held = pair(12, 12, {"P": 4})
    assert held.values == 3 + 2
    assert held.values_at == {"a": 5, "b": 5}


def test_an_unpadded_convolution_needs_no_more():
    assert pair(14, 12, {"P": 4}).values == 3 + 2


def test_a_stride_steps_over_a_part_of_the_halo():
    assert pair(16, 8, {"P": 4}, stride=(2, 1), pad=(0, 0)).values == 4 + 1


def test_rows_of_odd_number_are_cut_at_the_end():
    """Seven rows in tiles of three: the last tile is one row, the buffer that of the others."""
    assert pair(7, 7, {"P": 3}).values == 3 + 2


def test_tiles_of_rows_and_columns_leave_a_line_of_halo_behind():
    """Kernels of one column: the tile and its halo, two rows high over the other columns."""
    assert pair(12, 12, {"P": 4, "Q": 4}, cols=8).values == (3 + 2) * 2 + 2 * 6


def test_halos_of_images_that_run_inside_the_rows_wait_for_their_turn():
    outside = pair(12, 12, {"P": 4, "N": 3}, "NPQG", batch=3)
    inside = pair(12, 12, {"P": 4, "N": 3}, "PNQG", batch=3)
    assert outside.values == 5
    assert inside.values == 5 + 2 * 2


def test_a_tensor_without_halo_is_gone_when_its_reader_is_done():
    layers = tuple(
        Layer(name, "mac", Dims(P=6), (Input(source),)) for name, source in (("a", None), ("b", "a"), ("c", "b"))
    )
    on = known_machines()[0]
    group = Group(("a", "b", "c"), Trips(P=3))
    schedule = Schedule(Workload("row", layers), on, (group,), {name: Mapping.of(on, {}) for name in "abc"})
    assert buffers(schedule, group)["a"].values_at == {"a": 2, "b": 2, "c": 0}


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"single", "image_lanes"}))
def test_every_reader_of_a_drawn_group_finds_its_rows(kind):
    """The simulation itself refuses a row that is read before it is made, or not made in time."""
    for seed in range(40):
        schedule = draw(kind, seed)
        for group in schedule.groups:
            for name, buffer in buffers(schedule, group).items():
                layer = schedule.workload[name]
                assert 0 < buffer.values <= layer.stored_words, (seed, name)
