"""What the model counts otherwise: pieces of layers that lead, and padding that nobody reads."""

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from examples import SECOND_FILES, second
from execute.builders import accounted, alone, group, mac, machine, run, schedule, tiled, words
from execute.test_random_schedules import walked_bits
from fadiff.execute import Access
from fadiff.execute.plan import Plan
from fadiff.schedule import Group, Schedule
from fadiff.workload import Workload

ON = machine()
CONV = "K4 C4 P8 Q6 R3 S3"
PAIR = [mac("u", CONV), mac("v", CONV, "u")]
ROWS = tiled(ON, dram="P4", acc="R3 S3", cols="K4", rows="C4", reg="P2 Q6")
WEIGHTS = 4 * 4 * 3 * 3


def test_a_layer_that_leads_computes_its_first_rows_before_the_first_iteration():
    plan = Plan(Workload("w", tuple(PAIR)), group("u v", "P4"))
    assert [(p.block.starts[4], p.block.lens[4][0]) for p in plan.pieces("u")] == [
        (0, 1),
        (1, 2),
        (3, 2),
        (5, 2),
        (7, 1),
    ]
    assert [(p.block.starts[4], p.block.lens[4][0]) for p in plan.pieces("u", leads=False)] == [
        (0, 2),
        (2, 2),
        (4, 2),
        (6, 2),
    ]
    assert plan.pieces("v") == plan.pieces("v", leads=False)


def test_one_piece_more_fetches_the_weights_once_more():
    result = run(schedule(ON, PAIR, [group("u v", "P4")], dict.fromkeys("uv", ROWS)))
    filled = result.layers["u"].counts[Access("reg", "W", "write")]
    assert filled.bits == 5 * WEIGHTS * 8
    assert (filled.lead_bits, filled.padding_bits) == (-WEIGHTS * 8, 0)
    assert result.layers["v"].counts[Access("reg", "W", "write")].lead_bits == 0


def test_a_lead_of_whole_tiles_makes_no_difference():
    rows = tiled(ON, dram="P8", acc="R3 S3", cols="K4", rows="C4", reg="Q6")
    result = run(schedule(ON, PAIR, [group("u v", "P8")], dict.fromkeys("uv", rows)))
    assert all(count.lead_bits == 0 for ran in result.layers.values() for count in ran.counts.values())


def test_pinned_weights_are_fetched_once_however_many_pieces():
    result = run(schedule(ON, PAIR, [group("u v", "P4")], dict.fromkeys("uv", ROWS)))
    assert words(result, "u", "dram", "W", "read") == words(result, "v", "dram", "W", "read") == WEIGHTS


@pytest.mark.parametrize(
    "path", [p for p in SECOND_FILES if "fused" in p.stem or "chain" in p.stem], ids=lambda p: p.stem
)
def test_pieces_of_a_layer_move_what_layers_of_their_size_move(path):
    """Inside a group nothing is left in the inner memories from one piece to the next: each is like a layer alone."""
    whole = second(path.stem)
    result = run(whole)
    for fused in (g for g in whole.groups if len(g.layers) > 1):
        plan = Plan(whole.workload, fused)
        for layer in (whole.workload[name] for name in fused.layers if whole.workload[name].is_mac):
            found = Counter()
            for piece in plan.pieces(layer.name):
                found += walked_bits(stand_alone(whole, plan, layer, piece.block), layer.name)
            counts, structure = result.layers[layer.name].counts, whole.machine.structure
            for kind, count in counts.items():
                node = whole.machine.number[kind.memory]
                written_again = kind.way == "write" and node != structure.home(kind.tensor)
                if node > structure.fuses and (kind.tensor == "O" or written_again):
                    assert count.bits == found[tuple(kind)], (layer.name, kind)


def stand_alone(whole, plan, layer, block) -> Schedule:
    """A layer of the size of a block, with the loops that are the layer's own."""
    size = layer.dims._replace(P=block.lens[4][0], Q=block.lens[5][0], N=block.lens[1][0])
    size = size._replace(G=block.lens[0][0])
    small = replace(layer, dims=size, inputs=(replace(layer.inputs[0], source=None),), epilogue=(), out=None, pad=None)
    mapping = whole.mappings[layer.name]
    shared = [-(-all_ // part) for all_, part in zip(layer.dims, plan.tile(layer.name), strict=True)]
    first = type(size)(*(f // n for f, n in zip(mapping.factors[0], shared, strict=True)))
    own = replace(mapping, factors=(first, *mapping.factors[1:]))
    return Schedule(Workload("w", (small,)), whole.machine, (Group((layer.name,)),), {layer.name: own})


def test_padding_is_written_on_chip_but_not_read_outside():
    layers = [mac("u", "K4 P6 Q6"), mac("v", "K4 C4 P6 Q6 R3 S3", "u")]
    on_chip = tiled(ON, acc="R3 S3", cols="K4", rows="C4", reg="P6 Q6")
    maps = {"u": tiled(ON, cols="K4", reg="P6 Q6"), "v": on_chip}
    result = run(schedule(ON, layers, [group("u"), group("v")], maps))
    read = result.layers["v"].counts[Access("dram", "I", "read")]
    assert (read.words, read.padding_bits) == (4 * 6 * 6, 8 * 4 * (8 * 8 - 6 * 6))
    assert words(result, "v", "spad", "I", "write") == 4 * 8 * 8


def test_padding_of_a_fused_tensor_is_not_read_where_it_lies():
    layers = [mac("u", "K4 P6 Q6"), mac("v", "K4 C4 P6 Q6 R3 S3", "u")]
    maps = {
        "u": tiled(ON, cols="K4", reg="P6 Q6"),
        "v": tiled(ON, acc="R3 S3", cols="K4", rows="C4", reg="P6 Q6"),
    }
    result = run(schedule(ON, layers, [group("u v")], maps))
    read = result.layers["v"].counts[Access("spad", "I", "read")]
    inside = sum(
        0 <= p + r - 1 < 6 and 0 <= q + s - 1 < 6 for p, q, r, s in product(range(6), range(6), *[range(3)] * 2)
    )
    assert read.words == 4 * inside
    assert accounted(read) == 8 * 4 * 36 * 9


def test_a_network_input_comes_padded():
    result = run(alone(ON, mac("c", CONV, pad=(1, 1)), tiled(ON, acc="R3 S3", cols="K4", rows="C4", reg="P8 Q6")))
    read = result.layers["c"].counts[Access("dram", "I", "read")]
    assert (read.words, read.padding_bits) == (4 * 10 * 8, 0)


def test_a_window_that_slides_is_brought_every_row_once():
    rows = tiled(ON, dram="P8", acc="R3 S3", cols="K4", rows="C4", reg="Q6")
    assert words(run(alone(ON, mac("c", CONV), rows)), "c", "dram", "I", "read") == 4 * 10 * 8
    stops = tiled(ON, "dram:PC", dram="P8 C2", acc="R3 S3", cols="K4", rows="C2", reg="Q6")
    assert words(run(alone(ON, mac("c", CONV), stops)), "c", "dram", "I", "read") == 8 * 4 * 3 * 8
