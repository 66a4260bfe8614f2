from dataclasses import replace

import pytest

from fadiff.cost import evaluate
from fadiff.hardware import machine_area
from fadiff.schedule.rules import violations
from fadiff.search import greedy
from fadiff.search.codesign import Question
from fadiff.search.codesign.moves import needed_values, neighbours, single_moves, swap_moves
from search.codesign.tiny import FREE, SPACE, TOY

NAMES = [number.name for number in FREE.numbers]
MIDDLE = FREE.rounded([8192, 8192, 8, 8])


def of(values: tuple[float, ...], name: str) -> float:
    return values[NAMES.index(name)]


def test_a_single_move_changes_one_number_to_one_that_can_be_built():
    moves = list(single_moves(FREE, MIDDLE))
    assert len(moves) == 2 * len(FREE.numbers)
    for move in moves:
        assert sum(a != b for a, b in zip(move.values, MIDDLE, strict=True)) == 1
        assert FREE.rounded(move.values) == move.values
    ends = list(single_moves(SPACE, SPACE.largest))
    assert len(ends) == len(SPACE.numbers)  # nothing can grow


def test_lanes_are_swapped_at_a_constant_product():
    swaps = [move for move in swap_moves(Question((TOY,), FREE), MIDDLE) if move.name == "rows.size for cols.size"]
    assert [(of(m.values, "rows.size"), of(m.values, "cols.size")) for m in swaps] == [(16, 4)]


def test_one_memory_is_traded_for_another_at_no_more_area():
    trades = [move for move in swap_moves(Question((TOY,), FREE), MIDDLE) if move.name == "l1 for scratchpad.bytes"]
    assert len(trades) == 1
    traded = trades[0].values
    assert of(traded, "l1") > of(MIDDLE, "l1")
    assert of(traded, "scratchpad.bytes") < of(MIDDLE, "scratchpad.bytes")
    before, after = (machine_area(FREE.at(values)).total for values in (MIDDLE, traded))
    assert 0.9 * before < after <= before


def test_neighbours_keep_to_the_area_and_come_once():
    area_mm2 = machine_area(FREE.at(MIDDLE)).total
    question = Question((TOY,), FREE, area_mm2)
    found = [move.values for move in neighbours(question, MIDDLE)]
    assert len(set(found)) == len(found) >= 6
    assert MIDDLE not in found
    assert all(question.fits(values) for values in found)


def test_lanes_that_no_memory_makes_room_for_are_not_added():
    frugal = FREE.rounded([FREE.smallest[0], FREE.smallest[1], 8, 8])
    question = Question((TOY,), FREE, machine_area(FREE.at(frugal)).total)
    found = neighbours(question, frugal)
    assert not {move.name for move in found} & {"more rows.size", "more cols.size"}
    roomy = FREE.rounded([FREE.largest[0], FREE.largest[1], 8, 8])
    found = neighbours(Question((TOY,), FREE, machine_area(FREE.at(roomy)).total), roomy)
    assert {"more rows.size", "more cols.size"} <= {move.name for move in found}


@pytest.mark.parametrize("kilobytes", [4, 16, 64])
def test_shrunk_memories_are_the_smallest_that_hold_the_schedule(kilobytes: int):
    values = FREE.rounded([kilobytes * 1024, kilobytes * 1024, 4, 4])
    found = evaluate(greedy(TOY, FREE.at(values)))
    shrunk = needed_values(FREE, values, (found,))
    assert not violations(replace(found.schedule, machine=FREE.at(shrunk)))
    for i, number in enumerate(FREE.numbers):
        less = number.next(shrunk[i], -1) if number.unit == "bytes" else None
        if less is not None:
            smaller = FREE.at((*shrunk[:i], less, *shrunk[i + 1 :]))
            assert violations(replace(found.schedule, machine=smaller))
