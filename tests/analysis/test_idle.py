"""Why lanes idle: shares against lane-steps counted one by one, and a case of each cause."""

from dataclasses import replace
from itertools import product
from math import prod

import pytest

from fadiff.analysis.idle import array_use
from fadiff.cost import evaluate
from fadiff.schedule import Mapping
from fadiff.schedule.rules import Examined
from fadiff.search import greedy
from fadiff.workload import DIMS
from oracle.nest import Lanes, Loop, Part, nest
from oracle.schedules import KINDS, draw
from search.networks import GEMMINI, add, dims, group, mac, network, sized


def walked(levels, dim, parts):
    """All iterations of the temporal loops over one dim that have work: in each, the parts that lanes get."""
    if not levels:
        yield parts
        return
    first, *inner = levels
    if isinstance(first, Loop) and first.dim == dim:
        for number in range(first.trips):
            if mine := first.iteration(parts, number):
                yield from walked(inner, dim, mine)
    elif isinstance(first, Lanes):
        yield from walked(inner, dim, first.deal({d: parts if d == dim else () for d in DIMS})[dim])
    else:
        yield from walked(inner, dim, parts)


def counted(schedule, name):
    """Steps of a layer, lane-steps that multiply, and those lost on each axis and at the cut ends of each dim."""
    levels = nest(schedule, name).levels
    used = [prod(level.lanes.values()) for level in levels if isinstance(level, Lanes)]
    sizes = [axis.size for axis in schedule.machine.axes]
    steps, work, dealt = 1, 1, {}
    for dim, size in schedule.workload[name].dims._asdict().items():
        turns = list(walked(levels, dim, (Part((), 0, size),)))
        lanes = prod(level.lanes[dim] for level in levels if isinstance(level, Lanes))
        busy = sum(part.size for parts in turns for part in parts)
        steps, work = steps * len(turns), work * busy
        dealt[dim] = busy, len(turns) * lanes
    lost = dict.fromkeys([axis.name for axis in schedule.machine.axes], 0)
    for lane in product(*map(range, sizes)):
        idle = [axis for axis, at, most in zip(lost, lane, used, strict=True) if at >= most]
        if idle:
            lost[idle[0]] += steps
    ends, left = {}, steps * prod(used)
    for dim, (busy, all_) in dealt.items():
        ends[dim] = left - left * busy // all_
        left = left * busy // all_
    assert left == work == schedule.workload[name].macs
    return steps, work, lost, ends


@pytest.mark.parametrize("kind", KINDS)
def test_shares_are_those_of_lane_steps_counted_one_by_one(kind: str):
    looked = 0
    for seed in range(12):
        schedule = draw(kind, seed)
        cycles = evaluate(schedule).terms[0]
        peak = schedule.machine.peak_macs
        if peak > 4096:
            continue
        for i, (layer, use) in enumerate(zip(schedule.layers, array_use(Examined(schedule)), strict=True)):
            if not layer.is_mac:
                assert use == (0.0, ())
                continue
            steps, work, lost, ends = counted(schedule, layer.name)
            assert steps == cycles[i]
            assert use.pe_use == pytest.approx(work / (steps * peak), rel=1e-12)
            assert sum(one.share for one in use.idle) == pytest.approx(1 - use.pe_use, abs=1e-12)
            told = dict.fromkeys(lost, 0.0)
            for one in use.idle:
                told[one.axis] += one.share * steps * peak
                assert 0 < one.lanes_used <= one.lanes
            # Cut ends are told with the axis that a dim unrolls over.
            assert sum(told.values()) == pytest.approx(sum(lost.values()) + sum(ends.values()), abs=1e-6)
            for axis, steps_lost in lost.items():
                assert told[axis] >= steps_lost - 1e-6
            looked += 1
    assert looked > 5


def mapped(layer, machine=GEMMINI, **nodes):
    """One layer with such factors, the rest of its loops at the first memory."""
    factors = {name: dims(sizes) for name, sizes in nodes.items()}
    rest = [-(-size // prod(f[d] for f in factors.values())) for d, size in enumerate(layer.dims)]
    mapping = Mapping.of(machine, {**factors, machine.nodes[0].name: type(layer.dims)(*rest)})
    schedule = greedy(network(layer), machine)
    return replace(schedule, mappings={layer.name: mapping})


def idle(schedule, number=0):
    use = array_use(Examined(schedule))[number]
    return use.pe_use, [(one.cause, one.axis, one.dims, one.lanes_used, one.share) for one in use.idle]


WIDE = sized(GEMMINI, cols=32, rows=32)


def test_a_size_that_is_too_small_fills_a_part_of_an_axis():
    schedule = mapped(mac("a", "K32 C3 P4 Q4"), WIDE, cols="K32", rows="C3")
    assert idle(schedule) == (3 / 32, [("small size", "rows", "C", 3, 29 / 32)])
    assert array_use(Examined(schedule))[0].idle[0].sentence == "C is 3: 3 of 32 lanes of rows work"


def test_a_depthwise_layer_has_one_channel_for_an_axis_of_channels():
    schedule = mapped(mac("a", "G32 P4 Q4 R3 S3"), WIDE, cols="G32")
    assert idle(schedule) == (1 / 32, [("small size", "rows", "C", 1, 31 / 32)])
    assert array_use(Examined(schedule))[0].idle[0].sentence == "C is 1: 1 of 32 lanes of rows work"


def test_groups_on_one_column_leave_the_others_unused():
    schedule = mapped(mac("a", "G32 C32 P4 Q4"), WIDE, rows="C32")
    assert idle(schedule) == (1 / 32, [("unused lanes", "cols", "G", 1, 31 / 32)])
    assert array_use(Examined(schedule))[0].idle[0].sentence == "the mapping uses 1 of 32 lanes of cols, though G is 32"


def test_a_cut_end_idles_in_the_last_turn():
    schedule = mapped(mac("a", "K40 C32 P4 Q4"), WIDE, cols="K32", rows="C32")
    assert idle(schedule) == (40 / 64, [("cut end", "cols", "K", 8, 24 / 64)])
    told = "K is 40: 2 turns of 32 lanes (cols has 32), 8 in the last"
    assert array_use(Examined(schedule))[0].idle[0].sentence == told


def test_a_size_that_is_dealt_out_evenly_over_its_turns_is_a_cut_end_too():
    schedule = mapped(mac("a", "K34 C32 P4 Q4"), WIDE, cols="K17", rows="C32")
    share, reasons = idle(schedule)
    assert share == 34 / 64
    assert reasons == [("cut end", "cols", "K", 17, 30 / 64)]


def test_tiles_of_shared_loops_may_be_too_small_for_an_axis():
    layers = mac("a", "N64 K32 C32"), mac("b", "N64 K32 C32", "a")
    rows = replace(WIDE, nodes=tuple(replace(n, dims="N") if n.name == "rows" else n for n in WIDE.nodes))
    schedule = greedy(network(*layers), rows)
    tiled = Mapping.of(rows, {"DRAM": dims("N16 C32"), "cols": dims("K32"), "rows": dims("N4")})
    schedule = replace(schedule, groups=(group("a b", "N16"),), mappings={"a": tiled, "b": tiled})
    assert idle(schedule, 1) == (4 / 32, [("small tile", "rows", "N", 4, 28 / 32)])
    assert array_use(Examined(schedule))[1].idle[0].sentence == "N is 64, in tiles of 4: 4 of 32 lanes of rows work"


def test_an_add_layer_has_no_lane_steps():
    schedule = greedy(network(add("s", "K4 P4 Q4", None, None)), GEMMINI)
    assert array_use(Examined(schedule)) == [(0.0, ())]
