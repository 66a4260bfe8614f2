"""Tiles of groups and their buffers, against the rows themselves: made, read and forgotten one by one."""

from itertools import product
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fadiff.schedule import Trips
from fadiff.schedule.arrays import buffer_values, waiting_trips
from fadiff.schedule.ir import SHARED_LOOPS
from fadiff.schedule.tiling import group_tiling, inner_edges, leads
from fadiff.workload import Dims, Input, Layer, Workload
from schedule.toys import add, conv, mac


@st.composite
def convolutions(draw, name, source, stored):
    """A convolution that stores so many rows, and the rows of its source that it reads."""
    rows, epilogue, out = stored, (), None
    change = draw(st.sampled_from(("", "", "max_pool", "upsample")))
    if change == "max_pool":
        rows = 2 * stored + draw(st.integers(0, 1))
    elif change == "upsample" and stored % 2 == 0:
        rows = stored // 2
    if rows != stored:
        epilogue, out = (change,), (stored, 1)
    kernel, stride, dilation = (draw(st.integers(1, 3)) for _ in range(3))
    reach = (kernel - 1) * dilation
    read = (rows - 1) * stride + reach + 1
    pad, behind = draw(st.integers(0, reach)), draw(st.integers(1 - stride, reach))
    if read - pad - behind < 1:
        pad = behind = 0
    layer = Layer(
        name,
        "mac",
        Dims(P=rows, R=kernel),
        (Input(source),),
        stride=(stride, 1),
        dilation=(dilation, 1),
        epilogue=epilogue,
        out=out,
        pad=(pad, 0),
    )
    return layer, read - pad - behind


@st.composite
def chains(draw):
    """Two or three convolutions in a row, or a residual, along rows."""
    stored, layers = draw(st.integers(1, 14)), []
    names = "abc"[: draw(st.integers(2, 3))]
    for i in reversed(range(len(names))):
        layer, stored = draw(convolutions(names[i], names[i - 1] if i else None, stored))
        layers.insert(0, layer)
    last = layers[-1]
    if draw(st.booleans()) and last.stored == layers[0].stored:
        layers.append(add("s", last.name, layers[0].name, P=last.stored[0]))
    return Workload("drawn", tuple(layers))


def tiling_of(workload, **trips):
    """The tiling of all layers as one group, under one candidate of trips for each value of a list."""
    names = [layer.name for layer in workload.layers]
    lists = {loop: trips.get(loop, [1]) for loop in SHARED_LOOPS}
    width = max(len(values) for values in lists.values())
    candidates = np.array([np.broadcast_to(lists[loop], width) for loop in SHARED_LOOPS])
    return group_tiling(workload, names, inner_edges(workload, names), candidates)


def rows_done(workload, name, tiling, candidate, trip):
    """(computed, stored) rows that a layer has made by the end of a trip: its lead, and a tile per trip."""
    layer = workload[name]
    if name not in tiling.stored_tile:
        done = min(layer.dims.P, (trip + 1) * int(tiling.tile[name]["P"][candidate]))
        return done, done
    lead, tile = tiling.ahead[name][0].lead, int(tiling.stored_tile[name][0][candidate])
    own_lead = ceil(lead * layer.dims.P / layer.stored[0])
    return (
        min(layer.dims.P, own_lead + (trip + 1) * int(tiling.tile[name]["P"][candidate])),
        min(layer.stored[0], lead + (trip + 1) * tile),
    )


def rows_read(consumer, port, source, row):
    """Stored rows of a producer that one row of a consumer reads."""
    if port == "addend":
        return [row]
    first = row * consumer.stride[0] - consumer.pad_before(0, source.stored[0])
    taps = (first + tap * consumer.dilation[0] for tap in range(consumer.dims.R))
    return [line for line in taps if 0 <= line < source.stored[0]]


TRIPS = list(range(1, 9))


@settings(max_examples=150)
@given(chains())
def test_an_aligned_group_makes_every_row_once_and_before_it_is_read(workload):
    tiling = tiling_of(workload, P=TRIPS)
    for candidate, trips in enumerate(TRIPS):
        if not tiling.aligned[candidate]:
            continue
        for layer in workload.layers:
            done = [rows_done(workload, layer.name, tiling, candidate, trip) for trip in range(trips)]
            assert done[-1][0] == layer.dims.P, "everything is made by the last trip, and nothing twice"
            assert done[-1][1] == layer.stored[0] or layer.name not in tiling.stored_tile
            for edge in workload.producers[layer.name]:
                source = workload[edge.source]
                for trip in range(trips):
                    made = rows_done(workload, edge.source, tiling, candidate, trip)[1]
                    lines = [rows_read(layer, edge.port, source, row) for row in range(done[trip][0])]
                    assert max((max(line, default=-1) for line in lines), default=-1) < made


@settings(max_examples=150)
@given(chains())
def test_tiles_cover_every_layer_exactly(workload):
    tiling = tiling_of(workload, P=TRIPS)
    assert all(ahead.lead >= 0 for pair in tiling.ahead.values() for ahead in pair)
    sink = workload.layers[-1]
    for candidate, trips in enumerate(TRIPS):
        empty = (trips - 1) * ceil(sink.dims.P / trips) >= sink.dims.P
        assert not (empty and tiling.aligned[candidate])
        if not tiling.aligned[candidate]:
            continue
        for layer in workload.layers:
            tile = int(tiling.tile[layer.name]["P"][candidate])
            assert 1 <= tile <= layer.dims.P
            if layer.name in tiling.stored_tile:
                stored = int(tiling.stored_tile[layer.name][0][candidate])
                assert 1 <= stored <= layer.stored[0]
                assert ceil(layer.dims.P / tile) == ceil(layer.stored[0] / stored)
            if trips == 1:
                assert tile == layer.dims.P
        assert tiling.tile[sink.name]["P"][candidate] == ceil(sink.dims.P / trips)


@given(chains(), st.integers(0, len(TRIPS) - 1))
def test_many_candidates_are_tiled_as_each_is_alone(workload, which):
    many, one = tiling_of(workload, P=TRIPS), tiling_of(workload, P=[TRIPS[which]])
    assert many.aligned[which] == one.aligned[0]
    if one.aligned[0]:
        for name, tiles in one.tile.items():
            assert {dim: values[0] for dim, values in tiles.items()} == {
                dim: many.tile[name][dim][which] for dim in tiles
            }


@given(chains())
def test_rows_and_columns_are_tiled_alike(workload):
    def turned(pair):
        return None if pair is None else pair[::-1]

    layers = tuple(
        Layer(
            layer.name,
            layer.kind,
            layer.dims._replace(P=1, R=1, Q=layer.dims.P, S=layer.dims.R),
            layer.inputs,
            turned(layer.stride),
            turned(layer.dilation),
            layer.epilogue,
            turned(layer.out),
            pad=turned(layer.pad),
        )
        for layer in workload.layers
    )
    rows, cols = tiling_of(workload, P=TRIPS), tiling_of(Workload("turned", layers), Q=TRIPS)
    assert rows.aligned.tolist() == cols.aligned.tolist()
    for name, (ahead, none) in rows.ahead.items():
        assert cols.ahead[name] == (none, ahead)
        assert rows.stored_tile[name][0].tolist() == cols.stored_tile[name][1].tolist()


def test_same_padded_convolutions_lead_by_half_a_kernel_each():
    layers = (conv("a", P=16), conv("b", "a", P=16, R=3), conv("c", "b", P=16, R=5))
    workload = Workload("chain", layers)
    found = leads(workload, workload.edges)
    # c reads 2 rows further down than it makes, b one more; a buffer holds R - stride rows beside a tile.
    assert {name: (rows.lead, rows.halo) for name, (rows, _) in found.items()} == {"b": (2, 4), "a": (3, 2)}
    assert all((cols.lead, cols.halo) == (0, 0) for _, cols in found.values())


def test_a_strided_consumer_takes_twice_the_rows_of_its_producer():
    tiling = tiling_of(Workload("down", (conv("a", P=14), conv("b", "a", P=7, R=3, stride=(2, 1)))), P=[1, 2, 3, 4, 7])
    assert tiling.aligned.tolist() == [True, True, True, True, True]
    assert tiling.tile["b"]["P"].tolist() == [7, 4, 3, 2, 1]
    assert tiling.tile["a"]["P"].tolist() == tiling.stored_tile["a"][0].tolist() == [14, 8, 6, 4, 2]


def test_pooled_rows_are_tiled_as_they_are_stored():
    a = conv("a", P=14, epilogue=("max_pool",), out=(7, 4))
    tiling = tiling_of(Workload("pool", (a, conv("b", "a", P=7, R=3))), P=[3, 7])
    assert tiling.stored_tile["a"][0].tolist() == [3, 1]
    assert tiling.tile["a"]["P"].tolist() == [6, 2]


def test_every_layer_of_a_group_has_the_batch_of_its_sink():
    tiling = tiling_of(Workload("chain", (mac("a", N=197, K=4), mac("b", "a", N=197, C=4))), N=[1, 12, 13, 197])
    assert tiling.tile["a"]["N"].tolist() == tiling.tile["b"]["N"].tolist() == [197, 17, 16, 1]
    assert tiling.aligned.tolist() == [True, True, True, True]


def test_the_channel_loop_is_a_part_of_k_and_c():
    tiling = tiling_of(Workload("ffn", (mac("up", N=2, K=10), mac("down", "up", N=2, C=10))), X=[3, 4])
    assert tiling.tile["up"]["K"].tolist() == tiling.tile["down"]["C"].tolist() == [4, 3]


# Buffers.


def most_values(stored, tile, lead, low, images=1, between=False):
    """The most values of an image that wait at a time, and the trips of a consumer that runs over it tile by tile.

    In trip s it wants the rows from s*tile + low up to (s+1)*tile + lead, and columns likewise. Values are made in the
    first trip that wants them or what follows them, and forgotten after the last trip that wants them; what is wanted
    ahead of the first trip, or of the first in a row of tiles, is made in trips before it. Several images take turns
    at every tile, or `between` rows of tiles.
    """
    made, last, early, trips = [], [], [], []
    for size, step, ahead, under in zip(stored, tile, lead, low, strict=True):
        trips.append(max(1, ceil((size - ahead) / step)))
        if trips[-1] == 1:  # not tiled: everything at once
            step, ahead, under = size, 0, 0
        early.append(-ceil(ahead / step))
        numbers = range(early[-1], trips[-1])
        made.append([min(s for s in numbers if i < (s + 1) * step + ahead) for i in range(size)])
        last.append([max((s for s in numbers if s * step + under <= i), default=early[-1]) for i in range(size)])
    width = trips[1] - early[1]

    def moment(row_trip, column_trip, image):
        row, column = row_trip - early[0], column_trip - early[1]
        return (row * images + image) * width + column if between else (row * width + column) * images + image

    held = np.zeros((trips[0] - early[0]) * width * images + 1)
    for i, j, image in product(range(stored[0]), range(stored[1]), range(images)):
        start, end = moment(made[0][i], made[1][j], image), moment(last[0][i], last[1][j], image)
        held[start] += 1
        held[max(start, end) + 1] -= 1
    return int(np.cumsum(held).max()), trips


@settings(max_examples=250)
@given(st.data())
def test_a_buffer_holds_what_waits_for_consumers(data):
    """Never less; and exactly as much where the image is large and no other one waits."""
    stored = data.draw(st.tuples(st.integers(1, 14), st.integers(1, 14)))
    tile = tuple(data.draw(st.integers(1, size)) for size in stored)
    lead = data.draw(st.tuples(st.integers(0, 4), st.integers(0, 4)))
    low = tuple(data.draw(st.integers(ahead - 6, ahead)) for ahead in lead)
    images = data.draw(st.sampled_from((1, 1, 2, 3)))
    most, trips = most_values(stored, tile, lead, low, images, between=data.draw(st.booleans()))
    tile = tuple(step if count > 1 else size for step, count, size in zip(tile, trips, stored, strict=True))
    halo = [ahead - under for ahead, under in zip(lead, low, strict=True)]
    values, retained = buffer_values(*(np.array(v, dtype=float) for v in (stored, tile, halo, trips, images, 1)))
    assert most <= values <= images * stored[0] * stored[1]
    assert retained == any(count > 1 and wide > 0 for count, wide in zip(trips, halo, strict=True))
    interior = all(
        count == 1 or (size - ahead >= 3 * step + wide and under <= 0)
        for count, size, step, ahead, under, wide in zip(trips, stored, tile, lead, low, halo, strict=True)
    )
    if interior and images == 1:
        assert most == values


@given(st.integers(1, 30), st.integers(1, 9), st.integers(0, 9), st.integers(1, 5), st.integers(1, 7))
def test_halos_of_other_images_wait_beside_a_buffer(rows, tile, halo, waiting, channels):
    def values(waiting, channels):
        pairs = ([rows, 6], [min(tile, rows), 6], [halo, 3], [2, 1])
        found, _ = buffer_values(
            *(np.array(p, dtype=float) for p in pairs), np.array(float(waiting)), np.array(float(channels))
        )
        return float(found)

    one = values(1, 1)
    assert one == 6 * min(rows, min(tile, rows) + halo)
    assert values(1, channels) == channels * one
    assert values(waiting, 1) == one + (waiting - 1) * 6 * min(rows, halo)


def test_images_that_wait_take_no_more_than_they_are():
    sides = [np.array(pair, dtype=float) for pair in ([3, 4], [1, 2], [6, 6], [3, 2])]
    assert buffer_values(*sides, np.array(5.0), np.array(1.0))[0] == 5 * 3 * 4


def test_a_dim_that_is_not_tiled_has_no_halo():
    sides = [np.array(pair, dtype=float) for pair in ([8, 6], [8, 6], [3, 3], [1, 1])]
    values, retained = buffer_values(*sides, np.array(4.0), np.array(5.0))
    assert (values, retained) == (8 * 6 * 5, False)


@pytest.mark.parametrize(
    ("nesting", "trips", "first", "expected"),
    [
        ("GNPQX", Trips(G=2, N=3, P=4), True, 1),
        ("GPNQX", Trips(G=2, N=3, P=4), True, 3),
        ("PQGNX", Trips(G=2, N=3, P=4), False, 6),
        ("PQXGN", Trips(P=4, X=5), True, 5),
        ("PQXGN", Trips(P=4, X=5), False, 1),
        ("PNQGX", Trips(N=3, Q=4, G=2), True, 2),
    ],
)
def test_loops_inside_those_over_an_image_make_its_halos_wait(nesting, trips, first, expected):
    assert int(waiting_trips(nesting, trips._asdict(), first=first)) == expected
