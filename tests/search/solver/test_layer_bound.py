"""The bound of a layer: the optimum of tiny layers, and never raised by a better machine."""

from dataclasses import replace
from itertools import product
from math import ceil, inf

import numpy as np
import pytest

from fadiff.hardware import Axis, Machine, Memory, Vector, load_machine
from fadiff.schedule import Group, Trips
from fadiff.search.optimize import optimize
from fadiff.search.solver import layer_bound
from fadiff.search.solver.counts import Lanes, facts, most_pieces, most_shared
from fadiff.search.solver.fitting import too_large, widths
from fadiff.search.solver.grid import Cells
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.parts import row_of
from fadiff.search.solver.place import ON_ITS_OWN
from fadiff.search.solver.prices import ALONE, UNKNOWN, Prices
from fadiff.search.space import trip_counts
from search.exhaustive import all_nodes, every_mapping
from search.networks import DRAM, EYERISS, FLAT, GEMMINI, mac, memory, network, sized

LAYERS = {
    "product": mac("a", "N6 K5 C4"),
    "convolution": mac("a", "K3 C2 P5 R3"),
    "strided": mac("a", "K2 C2 P5 Q2 R2", stride=(2, 1)),
    "gaps": mac("a", "K4 C2 P6", stride=(3, 1)),
    "depthwise": mac("a", "G4 P5 R3"),
}
CHIPS = {
    "small": sized(GEMMINI, rows=2, cols=2, accumulator=32, scratchpad=64),
    "tight": sized(GEMMINI, rows=2, cols=2, accumulator=16, scratchpad=24),
    "flat": sized(FLAT, lanes=2, buffer=40, spad=8),
    "split": Machine(
        "split",
        (DRAM, memory("glb", "WIO", 40), Axis("x", 2, "C"), memory("sums", "O", 16), memory("sum", "O", 4, pj=0.5)),
        mac_pj=0.5,
    ),
}
WEIGHTS = ((1.0, 0.0), (0.0, 1.0), (1.0, 100.0))


def bound(layer, machine, weights, passes=300) -> float:
    return LayerBound(layer, machine, (ON_ITS_OWN,)).at(weights, passes=passes)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", LAYERS)
def test_tiny_layers_are_solved(name, chip):
    layer, machine = LAYERS[name], CHIPS[chip]
    every = every_mapping(network(layer), machine, Group(("a",)), "a", all_nodes(machine))
    for weights in WEIGHTS:
        least, best = bound(layer, machine, weights), every.best(weights)
        assert least <= best * (1 + 1e-9)
        assert best / least < (1.04 if weights[1] else 1 + 1e-8), "time is bounded by means of its terms"


@pytest.mark.parametrize("rows", [10, 13])
def test_loops_that_a_layer_shares_with_nobody_may_cut_its_tiles(rows):
    """Five rows on four lanes, the second turn cut, fit where two full turns do not."""
    layer, (_, _, weights) = mac("a", f"N{rows} K4"), WEIGHTS
    nodes = DRAM, memory("glb", "WIO", 11), Axis("x", 4, "N"), memory("sum", "O", 8, pj=0.5)
    machine = Machine("rows", nodes, mac_pj=0.5)
    every = [
        every_mapping(network(layer), machine, Group(("a",), Trips(N=trips)), "a", all_nodes(machine)).best(weights)
        for trips in trip_counts(rows)
    ]
    assert min(every) < 0.96 * every[0]
    assert 0.999 * min(every) < bound(layer, machine, weights) <= min(every) * (1 + 1e-9)


def test_the_time_of_a_layer_is_found_where_it_is_not_charged_at_first():
    """A product of attention waits for DRAM, though its bound thinks that computing takes the time."""
    layer, machine = mac("a", "G32 N2048 K128 C2048"), load_machine("gemmini-small")
    found = optimize(network(layer), machine, exact_factors=True, objective="energy + 500*latency").best
    proven = LayerBound(layer, machine, (ON_ITS_OWN,), exact=True).at((1.0, 500.0), passes=100)
    assert 0.9995 < proven / (found.energy_pj + 500 * found.cycles) <= 1 + 1e-9


def test_a_dim_is_cut_at_one_tile_only(monkeypatch):
    layer, machine = mac("a", "N512 K1024 C4096"), load_machine("meta-proto-like-df")
    parted = bound(layer, machine, (1.0, 500.0), passes=40)
    monkeypatch.setattr(layer_bound, "split_ends", lambda *_: [])
    assert parted > (1 + 5e-4) * bound(layer, machine, (1.0, 500.0), passes=40)


def test_lanes_that_idle_at_the_end_of_a_dim_take_time(monkeypatch):
    layer, machine = mac("a", "N16 K13 C40"), sized(EYERISS, glb=256)
    busy, prices = bound(layer, machine, (0.0, 1.0), passes=150), LayerBound._prices
    monkeypatch.setattr(LayerBound, "_prices", lambda *given: prices(*given)._replace(idle=0.0))
    assert busy > 1.05 * bound(layer, machine, (0.0, 1.0), passes=150)


def test_what_is_certain_to_take_the_time_is_charged_first():
    # The first memory moves at least 2 * 128 * 64 + 128 * 128 values of each of 12 groups, sixteen a cycle.
    layer, machine = mac("a", "G12 N128 K128 C64"), load_machine("simba")
    assert bound(layer, machine, (0.0, 1.0), passes=0) == pytest.approx(24_576, rel=1e-3)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", ["product", "convolution"])
def test_the_work_of_a_vector_unit_is_in_the_bound(name, lanes):
    layer, machine = replace(LAYERS[name], epilogue=("gelu",)), replace(CHIPS["small"], vector=Vector(lanes, 3.0))
    every = every_mapping(network(layer), machine, Group(("a",)), "a", all_nodes(machine))
    for weights in WEIGHTS:
        least, best = bound(layer, machine, weights), every.best(weights)
        assert least <= best * (1 + 1e-9)
        assert best / least < 1.04
        assert least > bound(layer, replace(machine, vector=None), weights) or not weights[0]


def test_more_passes_never_lower_a_bound():
    layer, machine = LAYERS["product"], CHIPS["flat"]
    looked = LayerBound(layer, machine, (ON_ITS_OWN,))
    found = [looked.at(WEIGHTS[2], passes=1) for _ in range(16)]
    assert found == sorted(found)
    assert found[-1] > found[0]


def changed(machine, name, **settings):
    nodes = [replace(node, **settings) if node.name == name else node for node in machine.nodes]
    return replace(machine, nodes=tuple(nodes))


def better(machine):
    """Machines that can do everything that a machine can, and no worse."""
    for node in machine.nodes[1:]:
        if isinstance(node, Axis):
            yield changed(machine, node.name, size=2 * node.size)
            continue
        yield changed(machine, node.name, bytes=3 * node.bytes // 2)
        yield changed(machine, node.name, read_pj=node.read_pj / 2)
        yield changed(machine, node.name, write_pj=node.write_pj / 2)
    for node in machine.nodes:
        if isinstance(node, Memory) and node.words_per_cycle:
            yield changed(machine, node.name, words_per_cycle=2 * node.words_per_cycle)


@pytest.mark.parametrize("name", ["product", "convolution"])
def test_a_better_machine_never_has_a_higher_optimum_than_the_bound_says(name):
    layer, machine = LAYERS[name], CHIPS["tight"]
    for weights in WEIGHTS:
        least = bound(layer, machine, weights)
        for other in better(machine):
            assert bound(layer, other, weights) <= least * (1 + 1e-3)


def test_weights_that_no_memory_holds_are_not_kept_and_no_walk_is_needed_to_know():
    layer, machine = LAYERS["product"], CHIPS["tight"]
    kept = replace(ON_ITS_OWN, grouped=True, keeps=True)
    looked = LayerBound(layer, changed(machine, machine.nodes[1].name, bytes=16), (kept, ON_ITS_OWN))
    whole = tuple(Cells((size,), (size,)) for size in layer.dims)
    rows = np.array([row_of((0, whole)), row_of((1, whole))], dtype=np.float64)
    impossible, possible = looked.least((1.0, 100.0), rows)
    assert impossible == inf
    assert 0 < possible < inf
    assert looked.passes == 0
    assert looked.lowest((1.0, 100.0), (0, whole)) is None


def test_sums_that_come_and_go_take_their_width_in_memories_further_out():
    layer, machine = mac("a", "N16 K16 C32"), sized(EYERISS, glb=272)
    nodes, glb = len(machine.nodes), 1
    free, room = np.zeros(nodes), np.array([getattr(node, "usable_bytes", 0) for node in machine.nodes], dtype=float)
    one, none = np.ones(8), np.full(nodes, UNKNOWN)
    at = facts(layer, machine, Lanes(np.ones((nodes, 8)), np.ones((nodes, 8))), layer.dims)
    width = widths(at, Prices(0.0, 0.0, free, free, room, ALONE, one, one, UNKNOWN, none), glb)
    # Beside 16 inputs, 256 outputs fit into glb at 8 bits, not at the 16 of sums. What is further in holds fewer: if C
    # goes on further out, they come and go.
    tile = np.array([1, 16, 16, 1, 1, 1, 1, 1], dtype=float)
    whole, part = tile.copy(), tile.copy()
    whole[3], part[3] = 32, 31
    assert not too_large(at, width, tile, whole)
    assert too_large(at, width, tile, part)
    assert not too_large(at, width, tile / np.array([1, 4, 1, 1, 1, 1, 1, 1]), part)


def test_sums_that_return_within_a_memory_take_their_width_there(monkeypatch):
    layer, machine = mac("a", "K6 C12 P11 R3"), sized(EYERISS, glb=96)
    told_apart = bound(layer, machine, WEIGHTS[2], passes=80)
    monkeypatch.setattr(layer_bound, "split_sums", lambda *_: [])
    assert told_apart > 1.05 * bound(layer, machine, WEIGHTS[2], passes=80)


@pytest.mark.parametrize("rows", [2, 3, 5])
@pytest.mark.parametrize("taps", [2, 3, 4])
@pytest.mark.parametrize("apart", [(1, 1), (2, 1), (1, 2), (2, 3), (4, 2), (5, 1)])
def test_lanes_share_no_more_of_an_input_than_is_told(apart, rows, taps):
    a, b = apart
    places = [row * a + tap * b for row, tap in product(range(rows), range(taps))]
    shared = 1 - len(set(places)) / len(places)
    told = most_shared(a / b, a / b, float(rows), float(taps))
    assert shared <= told + 1e-9
    assert (told > 0) == (shared > 0)
    assert told <= most_shared(a / b / 2, a / b, float(rows), float(taps))


@pytest.mark.parametrize("end", [1, 3, 7, 20])
@pytest.mark.parametrize("extent", range(1, 21))
def test_a_size_has_no_more_pieces_than_some_tiles_make(extent, end):
    size, pieces = 20, np.zeros((1, 21))
    pieces[0, 0] = end
    tiles = range(max(extent, end), size + 1)
    cut = [sum(ceil(min(tile, size - at) / extent) for at in range(0, size, tile)) for tile in tiles]
    assert most_pieces(pieces, 0, float(size), float(extent)) == max(cut)
    assert pieces[0, extent] == max(cut), "noted for the next time"


@pytest.mark.parametrize("end", [1, 700, 5000])
@pytest.mark.parametrize("extent", [1, 3, 100, 4999])
def test_a_large_size_has_no_more_pieces_than_are_told(extent, end):
    size, pieces = 5000, np.full((1, 2), float(end))
    tiles = np.arange(max(extent, end), size + 1)
    most = (size // tiles * -(-tiles // extent) - (-(size % tiles) // extent)).max()
    assert most <= most_pieces(pieces, 0, float(size), float(extent)) < most + size / max(extent, end) + 2
