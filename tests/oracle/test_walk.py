"""The oracle itself: cases counted by hand, and random layers counted once more with plain sets."""

from itertools import pairwise, product
from math import prod

import pytest

from fadiff.hardware import Axis, Bits, Machine, Memory
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.workload import DIMS, Dims, Input, Layer, Workload
from oracle import bill, walk
from oracle.nest import Lanes, Loop, nest
from oracle.schedules import KINDS, draw

RELEVANT = {"W": "GKCRS", "I": "GNCPQRS", "O": "GNKPQ"}
HUGE = 2**40


def machine(*nodes, **settings):
    """Nodes from "name keeps" and "name size dims"; all words are 8 bits."""
    made = []
    for node in nodes:
        name, *what = node.split()
        if len(what) == 2:
            made.append(Axis(name, int(what[0]), what[1]))
        else:
            made.append(Memory(name, what[0], 1.0, 1.0, bytes=HUGE if made else None, fuses=name == "F"))
    return Machine("test", tuple(made), 1.0, **settings)


def alone(on, dims, factors, orders=None, **layer):
    """The schedule of one layer on its own."""
    workload = Workload("test", (Layer("a", "mac", Dims(**dims), (Input(None),), **layer),))
    mapping = Mapping.of(on, {node: Dims(**f) for node, f in factors.items()}, orders)
    return Schedule(workload, on, (Group(("a",)),), {"a": mapping})


def moved(schedule, name="a"):
    """Values by tensor, memory and way, whatever their kind."""
    found = {}
    for (tensor, memory, way, _), values in bill(schedule, name).moves.items():
        found[tensor, memory, way] = found.get((tensor, memory, way), 0) + values
    return found


def test_a_thousand_outputs_on_32_lanes_take_32_steps():
    on = machine("DRAM WIO", "lanes 32 K", "sums O")
    found = walk(alone(on, {"K": 1000}, {"DRAM": {"K": 32}, "lanes": {"K": 32}}), "a")
    assert (found.steps, found.macs, found.instances[2]) == (32, 1000, 32)


def test_a_tile_stays_while_only_irrelevant_loops_turn():
    on = machine("DRAM WIO", "sp W", "sums O")
    pinned = alone(on, {"N": 3, "K": 4}, {"DRAM": {"N": 3, "K": 2}, "sp": {"K": 2}}, {"DRAM": "KNGCPQRS"})
    assert moved(pinned)["W", "sp", "write"] == 4
    again = alone(on, {"N": 3, "K": 4}, {"DRAM": {"N": 3, "K": 2}, "sp": {"K": 2}}, {"DRAM": "NKGCPQRS"})
    assert moved(again)["W", "sp", "write"] == 12


def test_a_relevant_loop_that_a_cut_left_a_single_trip_brings_its_tile_again():
    """K = 3 as 2 x 2: in the second outer trip the inner loop has one, yet every N finds it turned."""
    on = machine("DRAM WIO", "l2 WIO", "sp W", "sums O")
    factors = {"DRAM": {"K": 2}, "l2": {"N": 5, "K": 2}}
    found = moved(alone(on, {"N": 5, "K": 3}, factors, {"l2": "NKGCPQRS"}))
    assert found["W", "l2", "write"] == 3
    assert found["W", "sp", "write"] == 5 * 2 + 5 * 1


def test_lanes_that_want_the_same_weight_share_a_read():
    on = machine("DRAM WIO", "sp WI", "lanes 4 NK", "reg W", "sums O")
    found = moved(alone(on, {"N": 2, "K": 2}, {"lanes": {"N": 2, "K": 2}}))
    assert found["W", "reg", "write"] == 4
    assert found["W", "sp", "read"] == 2
    assert found["I", "sp", "read"] == 2


def test_a_window_that_slides_brings_the_fresh_rows_only():
    on = machine("DRAM WIO", "sp I", "sums O")
    dims, factors = {"P": 8, "R": 3}, {"DRAM": {"P": 4}, "sums": {"P": 2, "R": 3}}
    assert moved(alone(on, dims, factors))["I", "sp", "write"] == 10
    # An irrelevant loop inside stops it: four windows of four rows, twice.
    stopped = alone(on, {**dims, "K": 2}, {**factors, "DRAM": {"P": 4, "K": 2}}, {"DRAM": "PKGNCQRS"})
    assert moved(stopped)["I", "sp", "write"] == 16
    # So do strides that leave rows out.
    assert moved(alone(on, dims, factors, stride=(4, 1)))["I", "sp", "write"] == 4 * 7


def test_a_sweep_is_one_tall_tile_also_where_the_kernel_is_cut():
    """R = 3 as 2 + 1: the second sweep has taps of one row, two rows apart, and brings those in between."""
    on = machine("DRAM WIO", "sp I", "sums O")
    factors = {"DRAM": {"R": 2, "P": 4}, "sums": {"R": 2}}
    found = moved(alone(on, {"P": 4, "R": 3}, factors, {"DRAM": "RPGNKCQS"}, stride=(2, 1)))
    assert found["I", "sp", "write"] == 8 + 7


def test_lanes_of_a_row_stationary_array_share_whole_rows():
    """Output rows across, kernel rows down: nine lanes want five rows along the diagonals."""
    on = machine("DRAM WIO", "glb IO", "rows 3 R", "cols 3 P", "spad I", "sums O")
    found = moved(alone(on, {"P": 3, "R": 3, "Q": 4}, {"rows": {"R": 3}, "cols": {"P": 3}, "spad": {"Q": 4}}))
    assert found["I", "spad", "write"] == 9 * 4
    assert found["I", "glb", "read"] == 5 * 4
    # A loop over rows below the lanes takes their tiles apart.
    looped = {"rows": {"R": 3}, "cols": {"P": 3}, "loops": {"P": 2}}
    on = machine("DRAM WIO", "glb IO", "rows 3 R", "cols 3 P", "loops O", "spad I")
    assert moved(alone(on, {"P": 6, "R": 3}, looped))["I", "glb", "read"] == 18


def test_cut_tiles_of_lanes_are_not_shared():
    """Five rows as 2 + 2 + 1, three taps as 2 + 1: two lanes want image rows 4 and 5, both with cut tiles."""
    on = machine("DRAM WIO", "glb IO", "rows 2 R", "cols 3 P", "spad I", "sums O")
    found = moved(alone(on, {"P": 5, "R": 3}, {"rows": {"R": 2}, "cols": {"P": 3}, "sums": {"P": 2, "R": 2}}))
    assert found["I", "spad", "write"] == found["I", "glb", "read"] == (3 + 2) + (3 + 2) + (2 + 1)


def test_sums_that_leave_unfinished_come_back():
    on = machine("DRAM WIO", "sums O", bits=Bits(8, 8, 8, 32, 16))
    found = bill(alone(on, {"C": 6, "K": 5}, {"DRAM": {"C": 3, "K": 5}, "sums": {"C": 2}}, {"DRAM": "CKGNPQRS"}), "a")
    assert found.moves["O", "DRAM", "write", "finished"] == 5
    assert found.moves["O", "DRAM", "write", "sum"] == found.moves["O", "DRAM", "read", "sum"] == 10
    assert found.moves["O", "sums", "write", "sum"] == 30 + 10  # updates, reloads
    assert found.moves["O", "sums", "read", "sum"] == (30 - 5) + 15  # all but first updates read, all sums leave
    assert found.words["DRAM", "write"] == 5 + 10 * 2
    assert found.words["sums", "read"] == 40 * 4


def test_of_lanes_that_add_up_one_goes_on_with_the_old_sum():
    """Two cores with half of C each: both leave their part, one of them takes the sum back."""
    on = machine("DRAM WIO", "l2 O", "cores 2 C", "l1 O")
    factors = {"DRAM": {"C": 3, "K": 4}, "cores": {"C": 2}}
    found = walk(alone(on, {"C": 6, "K": 4}, factors, {"DRAM": "CKGNPQRS"}), "a")
    outwards, inwards = found.passages["O", 1], found.passages["O", 3]
    assert (inwards.inner, inwards.outer, inwards.reloaded, inwards.finished) == (24, 12, 8, 4)
    assert (outwards.inner, outwards.outer, outwards.reloaded, outwards.finished) == (12, 12, 8, 4)
    assert found.passages["O", 4].finished == 0  # a core never has all terms


def two_convolutions_and_their_sum():
    """The example of the documentation of edition 1: rows in two tiles, on a Gemmini."""
    dims = {"K": 8, "C": 8, "P": 8, "Q": 8, "R": 3, "S": 3}
    layers = (
        Layer("a", "mac", Dims(**{**dims, "C": 4}), (Input(None),)),
        Layer("b", "mac", Dims(**dims), (Input("a"),)),
        Layer("s", "add", Dims(K=8, P=8, Q=8), (Input("b", "addend"), Input("a", "addend"))),
    )
    on = machine("DRAM WIO", "F WI", "cols 8 K", "acc O", "rows 8 C", "reg W", bits=Bits(8, 8, 8, 32, 32))
    mappings = {
        x.name: Mapping.of(
            on,
            {
                "DRAM": Dims(P=2),
                "cols": Dims(K=8),
                "acc": Dims(R=3, S=3),
                "rows": Dims(C=x.dims.C),
                "reg": Dims(P=4, Q=8),
            },
        )
        for x in layers[:2]
    }
    return Schedule(Workload("example", layers), on, (Group(("a", "b", "s"), Trips(P=2)),), mappings)


def test_the_example_of_the_documentation():
    schedule = two_convolutions_and_their_sum()
    a, b, s = (bill(schedule, name).moves for name in "abs")
    assert a["W", "F", "write", "operand"] == 288
    assert a["I", "F", "write", "operand"] == 400  # 240, then 160 fresh
    assert a["W", "reg", "write", "operand"] == 576  # nine taps, twice: b has had the registers in between
    assert a["I", "F", "read", "operand"] == 2304
    assert a["O", "acc", "write", "sum"] + a["O", "acc", "read", "sum"] == 8704 + 512
    assert a["O", "F", "write", "finished"] == 512
    assert ("O", "DRAM", "write", "finished") not in a
    assert ("I", "DRAM", "read", "operand") not in b
    assert b["I", "F", "read", "finished"] == 4608
    assert s["O", "F", "read", "finished"] == s["O", "acc", "write", "sum"] == 2 * 512
    assert s["O", "acc", "read", "sum"] == s["O", "DRAM", "write", "finished"] == 512


def test_an_unpadded_producer_has_more_trips_than_its_group():
    """Ten rows in tiles of two are five pieces in a group of four trips: the registers are filled five times."""
    on = machine("DRAM WIO", "F WI", "acc O", "reg W")
    layers = (
        Layer("a", "mac", Dims(K=2, P=10), (Input(None),)),
        Layer("b", "mac", Dims(C=2, P=8, R=3), (Input("a"),)),
    )
    mappings = {
        "a": Mapping.of(on, {"DRAM": Dims(P=5), "acc": Dims(K=2), "reg": Dims(P=2)}),
        "b": Mapping.of(on, {"DRAM": Dims(P=4), "acc": Dims(C=2, R=3, P=2)}),
    }
    schedule = Schedule(Workload("unpadded", layers), on, (Group(("a", "b"), Trips(P=4)),), mappings)
    assert moved(schedule, "a")["W", "reg", "write"] == 5 * 2
    assert moved(schedule, "a")["W", "F", "write"] == 2


def test_a_tensor_wanted_outside_too_leaves_twice():
    schedule = two_convolutions_and_their_sum()
    layers = (*schedule.workload.layers, Layer("r", "mac", Dims(C=8, P=8, Q=8), (Input("a"),)))
    mappings = {**schedule.mappings, "r": Mapping.of(schedule.machine, {"acc": Dims(C=8, P=8, Q=8)})}
    both = Schedule(Workload("read outside", layers), schedule.machine, (*schedule.groups, Group(("r",))), mappings)
    once, twice = moved(schedule), moved(both)
    assert twice["O", "acc", "read"] == once["O", "acc", "read"] + 512
    assert twice["O", "DRAM", "write"] == twice["O", "F", "write"] == 512


def test_an_addend_passes_the_keepers_of_sums():
    on = machine("DRAM WIO", "l2 IO", "cores 2 K", "acc O", bits=Bits(8, 8, 16, 32, 32))
    layer = Layer("s", "add", Dims(K=5, P=2), (Input(None, "addend"), Input(None, "addend")))
    schedule = Schedule(Workload("sum", (layer,)), on, (Group(("s",)),), {})
    found = bill(schedule, "s")
    assert found.words == {
        ("DRAM", "read"): 40,
        ("DRAM", "write"): 20,
        ("l2", "read"): 40 + 20,
        ("l2", "write"): 40 + 20,
        ("acc", "read"): 40,
        ("acc", "write"): 80,
    }
    assert found.instances["acc"] == 2


def test_the_fused_share_of_a_concatenation_is_not_fetched():
    """Two of three channels are made in the group; they are read from where they are, in the width of outputs."""
    on = machine("DRAM WIO", "F WI", "acc O", bits=Bits(8, 8, 16, 32, 32))
    layers = (
        Layer("a", "mac", Dims(K=2, P=4), (Input(None),)),
        Layer("c", "mac", Dims(C=3, P=4), (Input(None), Input("a"))),
    )
    mappings = {
        "a": Mapping.of(on, {"DRAM": Dims(P=2), "acc": Dims(K=2, P=2)}),
        "c": Mapping.of(on, {"DRAM": Dims(P=2), "acc": Dims(C=3, P=2)}),
    }
    schedule = Schedule(Workload("side by side", layers), on, (Group(("a", "c"), Trips(P=2)),), mappings)
    found = bill(schedule, "c").moves
    assert found["I", "DRAM", "read", "operand"] == found["I", "F", "write", "operand"] == 4
    assert (found["I", "F", "read", "operand"], found["I", "F", "read", "finished"]) == (4, 8)


@pytest.mark.parametrize("kind", KINDS)
def test_iterations_that_are_counted_are_like_those_that_are_walked(kind):
    for seed in range(8):
        schedule = draw(kind, seed)
        for layer in schedule.workload.layers:
            quick = bill(schedule, layer.name)
            assert quick == bill(schedule, layer.name, skip=False), (seed, layer.name)
            assert quick.macs == layer.macs


def every_mac(schedule):
    """All multiplications of a nest: the iteration of its loops, the lane on every axis, the index of every dim."""
    levels = [level for level in nest(schedule, "a").levels if isinstance(level, Loop | Lanes)]
    numbers = [range(level.trips) if isinstance(level, Loop) else _lanes(level) for level in levels]
    for place in product(*numbers):
        index, left = dict.fromkeys(DIMS, 0), schedule.workload["a"].dims._asdict()
        for level, number in zip(levels, place, strict=True):
            moves = {level.dim: (number, level.step)} if isinstance(level, Loop) else _steps(level, number)
            for dim, (count, step) in moves.items():
                index[dim] += count * step
                left[dim] = min(left[dim] - count * step, step)
        if min(left.values()) > 0:
            times = tuple(n for level, n in zip(levels, place, strict=True) if isinstance(level, Loop))
            lanes = tuple(n for level, n in zip(levels, place, strict=True) if isinstance(level, Lanes))
            yield times, lanes, index


def _lanes(level):
    return list(product(*(range(level.lanes[d]) for d in DIMS)))


def _steps(level, numbers):
    return {d: (number, level.steps[d]) for d, number in zip(DIMS, numbers, strict=True)}


def test_the_walk_counts_what_sets_of_coordinates_hold():
    """A tile is what its values are: distinct (time, instance, coordinate) triples. Images without kernels only."""
    looked_at = 0
    for seed in range(150):
        schedule = draw("single", seed)
        layer = schedule.workload.layers[0]
        found, loops = walk(schedule, "a"), nest(schedule, "a").loops
        if layer.dims.R * layer.dims.S * prod(layer.stride) > 1 or layer.macs > 600:
            continue
        looked_at += 1
        macs = list(every_mac(schedule))
        axes = schedule.machine.structure.axes
        assert len({times for times, _, _ in macs}) == found.steps
        assert len({tuple(index.values()) for _, _, index in macs}) == len(macs) == layer.macs
        for tensor, chain in found.keepers.items():
            for parent, node in pairwise(chain):
                above = [i for i, loop in enumerate(loops, 1) if loop.node < node]
                turning = [i for i in above if loops[i - 1].dim in RELEVANT[tensor] or node == chain[-1]]
                until = max(turning, default=0)
                inside, outside = (sum(axis < place for axis in axes) for place in (node, parent))
                at = [(t[:until], lanes, tuple(x[d] for d in RELEVANT[tensor])) for t, lanes, x in macs]
                passage = found.passages[tensor, node]
                if tensor == "O" or node != chain[-1]:
                    assert passage.inner == len({(t, lanes[:inside], x) for t, lanes, x in at})
                assert passage.outer == len({(t, lanes[:outside], x) for t, lanes, x in at})
    assert looked_at > 20


def test_a_sum_is_fetched_back_whenever_its_child_goes_on_with_it():
    """What arrives at a memory was begun there, or was fetched before: nothing is lost and nothing invented."""
    spilling = 0
    for seed in range(150):
        schedule = draw("single", seed)
        layer = schedule.workload.layers[0]
        found = walk(schedule, "a")
        begun, chain = layer.output_words, found.keepers["O"]
        for node in chain[1:]:
            passage = found.passages["O", node]
            assert passage.reloaded == passage.outer - begun
            begun = passage.inner - passage.reloaded
            spilling += passage.reloaded > 0 and node != chain[-1]
            assert passage.finished in (0, layer.output_words)
        assert found.passages["O", chain[1]].finished == layer.output_words
    assert spilling > 20
