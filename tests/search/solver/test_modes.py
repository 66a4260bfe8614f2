"""Modes of layers: what a group forces on its layers, tiles under shared trips, and the program in which all agree."""

from dataclasses import replace

import numpy as np
import pytest

from fadiff import greedy, load_machine
from fadiff.schedule import Group, Trips
from fadiff.schedule.ir import SHARED_LOOPS
from fadiff.schedule.tiling import group_tiling, inner_edges, leads
from fadiff.search.exact.sets import Growing
from fadiff.search.solver.grid import Cells
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.modes import Modes
from fadiff.search.solver.place import Links, places
from fadiff.search.solver.sharing import Tilings, halves
from fadiff.workload.layer import DIMS
from search.networks import add, mac, network

MACHINE = load_machine("gemmini-small")
CHAIN = network(mac("a", "K4 C4 P12 Q6 R3 S3"), mac("b", "K4 C4 P12 Q6 R3 S3", "a"), mac("c", "K4 C4 P12 Q6", "b"))
BLOCK = network(
    mac("a", "K4 C4 P8 Q8"),
    mac("b", "K4 C4 P8 Q8 R3 S3", "a"),
    mac("c", "K4 C4 P8 Q8", "b"),
    add("s", "K4 P8 Q8", "c", "a"),
)
FORK = network(mac("a", "K4 C4 P8 Q8"), mac("b", "K4 C4 P8 Q8", "a"), mac("c", "K4 C4 P8 Q8", "a"))


def modes_of(workload) -> Modes:
    links = Links(workload, MACHINE)
    return Modes(links, [places(links, layer) for layer in workload.layers])


def fused_sets(workload, name) -> set[frozenset[tuple[str, str]]]:
    return {fused for fused, _ in places(Links(workload, MACHINE), workload[name])}


def test_with_a_tensor_go_the_layers_that_run_between_its_ends():
    assert Links(BLOCK, MACHINE).passed["a", "s"] == ["b", "c"]
    # a stays on chip for s only together with b and c, which then are in the group as well.
    assert frozenset({("a", "s")}) not in fused_sets(BLOCK, "a")
    assert frozenset({("a", "s"), ("a", "b")}) in fused_sets(BLOCK, "a")
    assert frozenset({("a", "s"), ("b", "c"), ("c", "s")}) in fused_sets(BLOCK, "c")
    assert frozenset({("a", "s")}) not in fused_sets(BLOCK, "c")


def test_a_tensor_that_passes_a_layer_takes_room_beside_it():
    found = dict(places(Links(BLOCK, MACHINE), BLOCK["c"]))
    tile = modes_of(BLOCK).tilings.tile(BLOCK["c"], frozenset(), found[frozenset()], ((1, 1),) * 5)
    assert tile is not None
    near = frozenset({("b", "c"), ("c", "s")})
    without, beside = (found[links].least_bytes(tile, BLOCK["c"].dims, 8) for links in (near, near | {("a", "s")}))
    assert beside - without == 4 * 8 * 8


TALL = network(
    mac("t", "K4 C4 P16 Q16 R3 S3"),
    mac("a", "K4 C4 P16 Q16 R5 S5", "t", epilogue=("max_pool",), out=(8, 8)),
    mac("b", "K4 C4 P4 Q4 R3 S3", "a", stride=(2, 2)),
    mac("c", "K4 C4 P4 Q4 R5 S1", "b", dilation=(2, 1)),
    mac("d", "K4 C4 P4 Q4", "a", stride=(2, 2)),
    add("s", "K4 P4 Q4", "c", "d"),
    mac("e", "K4 C4 P4 Q4 R3 S3", "s"),
    mac("f", "K4 C8 P4 Q4", "s", "e"),
)
"""Strides, pooling, gaps, a shortcut with a convolution of its own, and a concatenation."""


def test_a_shortcut_waits_for_as_many_rows_as_what_it_passes_runs_ahead():
    links = Links(BLOCK, MACHINE)
    # b reads a row that c has not made yet: until it has, the shortcut keeps one row more than a tile.
    assert links.halo(("a", "b")) == (2, 2)
    assert links.halo(("a", "s")) == (1, 1)
    assert links.halo(("b", "c")) == (0, 0)


@pytest.mark.parametrize("workload", [CHAIN, BLOCK, TALL], ids=["chain", "block", "tall"])
def test_no_group_has_less_of_a_halo_than_its_links(workload):
    links, growing, found = Links(workload, MACHINE), Growing(workload), 0
    for layers in growing:
        growing.grow(layers)
        edges = inner_edges(workload, layers)
        for name, ahead in leads(workload, edges).items():
            needed = [links.halo((name, edge.target)) for edge in edges if edge.source == name]
            for axis, sides in enumerate(zip(*needed, strict=True)):
                assert ahead[axis].halo >= max(sides)
                found += ahead[axis].halo == max(sides) > 0
    assert found > 3


@pytest.mark.parametrize("workload", [CHAIN, BLOCK], ids=["chain", "block"])
def test_tiles_under_trips_are_those_of_groups(workload):
    links = Links(workload, MACHINE)
    tilings, names = Tilings(links), workload.topological
    for start in range(len(names)):
        for stop in range(start + 2, len(names) + 1):
            run = names[start:stop]
            fused = inner_edges(workload, run)
            if {edge.source for edge in fused} != set(run[:-1]):
                continue
            for trips in (Trips(P=2), Trips(P=4), Trips(P=3, Q=2), Trips(Q=6)):
                tiling = group_tiling(workload, run, fused, np.array(trips)[:, None])
                if not tiling.aligned[0]:
                    continue
                box = tuple((count, count) for count in trips)
                for name in run:
                    mine = frozenset((e.source, e.target) for e in fused if name in (e.source, e.target))
                    place = next(place for found, place in places(links, workload[name]) if found >= mine)
                    cells = tilings.tile(workload[name], mine, place, box)
                    assert cells is not None
                    for dim, tile in tiling.tile[name].items():
                        cell = cells[DIMS.index(dim)]
                        assert cell.low[0] <= tile[0] <= cell.high[0]


def test_layers_that_disagree_cost_what_agreeing_costs():
    modes = modes_of(FORK)
    # Each layer would rather be fused than not, but a group has one sink: b and c cannot both follow a.
    cost = np.array([1.0 if mode.fused else 2.0 for mode in modes.modes])
    assert modes.agree(cost).least.sum() == pytest.approx(4.0)
    # Without prices of agreements it would be one each.
    assert min(cost) * 3 == 3.0


PASSED = network(
    mac("a", "K4 C4 P8 Q8"),
    mac("f", "K4 C4 P8 Q8 R3 S3", "a"),
    mac("e", "K4 C4 P8 Q8", "a"),
    mac("g", "K4 C4 P8 Q8", "e"),
    add("s", "K4 P8 Q8", "g", "a"),
    add("t", "K4 P8 Q8", "s", "f"),
)
"""While g runs, a waits for s; because of f its rows outlast an iteration, as a tells."""


def test_what_passes_a_layer_is_not_told_twice():
    modes = modes_of(PASSED)
    number = next(i for i, box in enumerate(modes.boxes) if box[SHARED_LOOPS.index("P")][0] > 1)
    mode = next(m for m in modes.modes if m.box == number and m.fused == {("e", "g"), ("g", "s"), ("a", "s")})
    place = modes.places[mode.layer][mode.place][1]
    _, passing = place.waiting
    assert not passing.retained(mode.tile, PASSED["g"].dims)
    assert place.passing_bytes(mode.tile, PASSED["g"].dims, 8) == place.waiting[0].least_values(
        mode.tile, PASSED["g"].dims, place.cut
    )


PAIRS = network(
    mac("a", "K256 C16 P8 Q8"),
    mac("b", "K16 C256 P8 Q8", "a"),
    mac("c", "K4 C4 P8 Q8"),
    mac("d", "K4 C4 P8 Q8", "c"),
)
"""The weights of a and of b need more than half of the memory that keeps them."""


def test_groups_do_not_lend_each_other_room():
    nodes = [replace(node, bytes=6000) if node.name == "scratchpad" else node for node in MACHINE.nodes]
    links = Links(PAIRS, replace(MACHINE, nodes=tuple(nodes)))
    modes = Modes(links, [places(links, layer) for layer in PAIRS.layers])
    # Everybody would rather keep its weights, in one box; the small pair has room left, but none for the large one.
    box = ((1, 1), (1, 1), (2, 8), (1, 1), (1, 1))
    wanted = [
        m.box is not None and modes.boxes[m.box] == box and modes.places[m.layer][m.place][1].keeps for m in modes.modes
    ]
    cost = np.where(wanted, 1.0, 2.0)
    agreed = modes.agree(cost)
    assert agreed.least.sum() == pytest.approx(4.0)
    assert modes.crowd(agreed.share)
    assert modes.agree(cost).least.sum() > 4.1
    assert not modes.crowd(modes.agree(cost).share)


def test_sums_that_stay_agree():
    pair = network(mac("a", "K8 C4 P4 Q4"), mac("b", "K4 C8 P4 Q4", "a"))
    modes = modes_of(pair)
    stay = np.array([modes.places[m.layer][m.place][1].sums_stay for m in modes.modes])
    cost = np.array([1.0 if stay[i] is (m.layer == 0) else 2.0 for i, m in enumerate(modes.modes)])
    assert modes.agree(cost).least.sum() == pytest.approx(3.0)
    shares = {
        modes.boxes[m.box][SHARED_LOOPS.index("X")] for m, s in zip(modes.modes, stay, strict=True) if s is not None
    }
    assert shares == {(2, 8)}


def test_sums_that_fill_their_home_leave_none_to_the_producer():
    for channels, full in ((16, False), (64, True)):
        pair = network(mac("a", "K32 C4 P8 Q8"), mac("b", f"K{channels} C32 P8 Q8", "a"))
        layer, modes = pair["a"], modes_of(pair)
        mode = next(m for m in modes.modes if m.layer == 0 and modes.places[0][m.place][1].sums is not None)
        # 64 places of the image in 16 columns, 4 bytes a sum, 512 bytes a column.
        place = modes.places[0][mode.place][1]
        tile = [
            Cells((16 if d == "K" else size,), (16 if d == "K" else size,)) for d, size in layer.dims._asdict().items()
        ]
        assert place.sums.least_bytes(tile, 32) == 64 * channels * 4 / 16
        assert LayerBound(layer, MACHINE, (place,)).barren((0, tuple(tile))) is full


def test_a_program_that_all_agree_on_costs_the_sum():
    modes = modes_of(CHAIN)
    cost = np.array([1.0 if mode.fused and mode.box == 0 else 2.0 for mode in modes.modes])
    agreed = modes.agree(cost)
    assert agreed.least.sum() == pytest.approx(3.0)
    assert agreed.share[cost == 1].sum() == pytest.approx(3.0)


def meaning(modes, trips):
    """A box with trips over P, and two fused layers that mean these trips of it."""
    number = next(i for i, box in enumerate(modes.boxes) if dict(zip(SHARED_LOOPS, box, strict=True))["P"][0] > 1)
    link = frozenset({("a", "b")})
    ends = [next(m for m in modes.modes if m.layer == i and m.fused == link and m.box == number) for i in (0, 1)]
    meant = []
    for mode, count in zip(ends, trips, strict=True):
        meant.append((mode, modes_tile(modes, mode, count)))
    return number, meant


def modes_tile(modes, mode, count):
    """The tile of a mode under so many trips over P."""
    box = list(modes.boxes[mode.box])
    box[SHARED_LOOPS.index("P")] = (count, count)
    place = modes.places[mode.layer][mode.place][1]
    return modes.tilings.tile(CHAIN.layers[mode.layer], mode.fused, place, tuple(box))


def test_neighbours_that_mean_other_trips_part_their_box():
    modes, trips = modes_of(CHAIN), (3, 6)
    number, meant = meaning(modes, trips)
    (cut,) = modes.disagreements(meant)
    assert cut.box == number
    assert SHARED_LOOPS[cut.loop] == "P"
    assert trips[0] <= cut.after < trips[1]
    modes.part([cut])
    assert list(modes.tree.leaves("a", number)) == list(modes.tree.leaves("b", number)) != [number]


def test_a_box_is_parted_for_those_that_are_fused_in_it_and_others_follow():
    modes = modes_of(CHAIN)
    number, meant = meaning(modes, (3, 6))
    modes.part(modes.disagreements(meant))
    assert list(modes.tree.leaves("c", number)) == [number]
    few, many = modes.tree.leaves("b", number)
    link = frozenset({("b", "c")})
    whole = next(m for m in modes.modes if m.layer == 2 and m.fused == link and m.box == number)
    part = next(m for m in modes.modes if m.layer == 1 and m.fused == link and m.box == few)
    # Where c means trips that b has in another part, it is parted in the same way.
    (cut,) = modes.disagreements([(part, part.tile), (whole, modes_tile(modes, whole, 6))])
    assert (cut.box, cut.layers) == (number, {"c"})
    modes.part([cut])
    assert list(modes.tree.leaves("c", number)) == [few, many]


def test_layers_agree_on_the_smallest_box_that_both_know():
    modes = modes_of(CHAIN)
    number, meant = meaning(modes, (3, 6))
    modes.part(modes.disagreements(meant))
    few, many = modes.tree.leaves("b", number)
    link = frozenset({("b", "c")})
    # It is cheap to be fused for b in one part, and for c under all trips.
    cost = np.array([1.0 if m.fused == link and m.box in (few, number) else 2.0 for m in modes.modes])
    assert modes.agree(cost).least.sum() == pytest.approx(4.0)
    # And where a and b have it in two parts each, not in different ones.
    other = frozenset({("a", "b")})
    cheap = {(0, few), (1, many)}
    cost = np.array([1.0 if m.fused == other and (m.layer, m.box) in cheap else 2.0 for m in modes.modes])
    assert modes.agree(cost).least.sum() == pytest.approx(5.0)


def test_of_several_modes_of_a_layer_the_one_that_most_of_it_is_in_counts():
    modes = modes_of(CHAIN)
    _, (first, second) = meaning(modes, (3, 6))
    _, (other, _) = meaning(modes, (6, 6))
    assert modes.disagreements([first, second, other]) == modes.disagreements([first, second])
    assert not modes.disagreements([other, second, first])


def test_trips_that_are_meant_are_parted_from_the_others():
    modes, rows = modes_of(CHAIN), SHARED_LOOPS.index("P")
    number, meant = meaning(modes, (3, 3))
    assert not modes.disagreements(meant)
    whole = modes.boxes[number][rows]
    while found := modes.around(meant):
        modes.part(found)
        halves_of_it = modes.tree.leaves("a", number)
        number = next(i for i in halves_of_it if modes.boxes[i][rows][0] <= 3 <= modes.boxes[i][rows][1])
        meant = [(mode._replace(box=number), tile) for mode, tile in meant]
    low, high = modes.boxes[number][rows]
    assert low <= 3 <= high
    assert high - low < whole[1] - whole[0]


def test_halves_of_a_box_are_the_box():
    low, high = halves(((1, 1), (1, 1), (2, 56), (1, 1), (1, 1)), 2)
    assert (low[2], high[2]) == ((2, 10), (11, 56))


def test_the_modes_of_a_schedule_are_found():
    modes, schedule = modes_of(CHAIN), greedy(CHAIN, MACHINE)
    assert [[modes.modes[i].fused for i in mine] for mine in modes.of_schedule(schedule)] == [[frozenset()]] * 3
    pair = replace(schedule, groups=(Group(("a", "b"), Trips(P=3)), Group(("c",))))
    first, second, third = modes.of_schedule(pair)
    assert {modes.modes[i].fused for i in (*first, *second)} == {frozenset({("a", "b")})}
    assert all(modes.boxes[modes.modes[i].box or 0][2][0] > 1 for i in (*first, *second))
    assert [modes.modes[i].fused for i in third] == [frozenset()]
