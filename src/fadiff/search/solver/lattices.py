"""Lattices, with an axis for every dim of a layer: where they are noted, and what a step does to them."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.solver.closing import ORDER, size_of
from fadiff.search.solver.compiled import compiled_leaf

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


class Notes(NamedTuple):
    """Lattices, and prices that lie along some of their dims, one after the other."""

    numbers: Float[np.ndarray, " numbers"]
    start: Int[np.ndarray, " lattices_and_prices"]
    """Where each begins; -1 of those to which no way leads."""
    shape: Int[np.ndarray, "lattices_and_prices 8"]
    row: Int[np.ndarray, "lattices_and_prices 8"]
    """By dim: the row of extents."""
    end: Int[np.ndarray, " 1"]
    counters: Int[np.ndarray, "3 9"]
    """For whoever counts through a lattice."""


@compiled_leaf
def take(notes: Notes, of: int, to: int) -> None:
    """One lattice is another."""
    notes.start[to] = notes.start[of]
    for d in range(8):
        notes.shape[to, d], notes.row[to, d] = notes.shape[of, d], notes.row[of, d]


@compiled_leaf
def room_for(notes: Notes, to: int) -> int:
    """Room for a lattice of its shape, as far as there is any: how many numbers."""
    size = size_of(notes.shape[to])
    notes.start[to] = notes.end[0]
    notes.end[0] += size
    return size if notes.end[0] <= len(notes.numbers) else 0


@compiled_leaf
def place_in(index: Int[np.ndarray, " 8"], shape: Int[np.ndarray, " 8"]) -> int:
    """Where a cell is in a lattice."""
    found = 0
    for d in ORDER:
        found = found * shape[d] + index[d]
    return found


@compiled_leaf
def to_next(index: Int[np.ndarray, " 8"], shape: Int[np.ndarray, " 8"]) -> None:
    """The cell after one."""
    for i in range(8):
        d = ORDER[7 - i]
        index[d] += 1
        if index[d] < shape[d]:
            return
        index[d] = 0


@compiled_leaf
def move(
    notes: Notes,
    of: int,
    to: int,
    d: int,
    allowed: Bool[np.ndarray, "wanted had"],
    ahead: Int[np.ndarray, " wanted"],
    dearer: Float[np.ndarray, "wanted had"],
) -> None:
    """The cheapest of the cells that may come before each cell of a dim, with what the step costs."""
    wanted, had = notes.shape[to, d], notes.shape[of, d]
    lines, each, inside = 1, 1, False
    for other in ORDER:
        if other == d:
            inside = True
        elif inside:
            each *= notes.shape[of, other]
        else:
            lines *= notes.shape[of, other]
    if room_for(notes, to) == 0:
        return
    numbers, old, new, longest = notes.numbers, notes.start[of], notes.start[to], 0
    for i in range(wanted):
        longest = max(longest, ahead[i])
    # Where the first cells are all allowed, the cheapest so far is taken: it is noted where the next lattice begins.
    # Places are unsigned, since Numba counts negative ones from the end, and then computes one number at a time.
    least, one = notes.end[0], np.uint64(each)
    if least + longest * each > len(numbers):
        notes.end[0] = len(numbers) + 1
        return
    for line in range(lines):
        before = old + line * had * each
        for j in range(longest):
            last, here = np.uint64(least + (j - 1 if j > 0 else j) * each), np.uint64(before + j * each)
            start = np.uint64(least + j * each)
            for k in range(one):
                value = numbers[here + k]
                numbers[start + k] = numbers[last + k] if j > 0 and numbers[last + k] < value else value
        for i in range(wanted):
            start = np.uint64(new + (line * wanted + i) * each)
            if ahead[i] > 0:
                last = np.uint64(least + (ahead[i] - 1) * each)
                for k in range(one):
                    numbers[start + k] = numbers[last + k]
            else:
                for k in range(one):
                    numbers[start + k] = inf
            for j in range(ahead[i], had):
                if allowed[i, j]:
                    here, more = np.uint64(before + j * each), dearer[i, j]
                    for k in range(one):
                        value = numbers[here + k] + more
                        numbers[start + k] = value if value < numbers[start + k] else numbers[start + k]


@compiled_leaf
def add(notes: Notes, of: int, to: int, along: int) -> None:
    """A lattice and a price that lies along some of its dims only."""
    # Dims side by side that the price lies along, or not, are one.
    sizes, strides, index = notes.counters[0], notes.counters[1], notes.counters[2]
    count, stride = 0, 1
    sizes[0], strides[0] = 1, 0
    for i in range(8):
        d = ORDER[7 - i]
        if notes.shape[of, d] > 1:
            step = stride if notes.shape[along, d] > 1 else 0
            stride *= notes.shape[along, d]
            if count > 0 and (strides[count - 1] == 0) == (step == 0):
                sizes[count - 1] *= notes.shape[of, d]
            else:
                sizes[count], strides[count], index[count] = notes.shape[of, d], step, 0
                count += 1
    size = room_for(notes, to) if of != to else size_of(notes.shape[to])
    if notes.end[0] > len(notes.numbers):
        return
    numbers, old, new, more = notes.numbers, notes.start[of], notes.start[to], notes.start[along]
    each, done = np.uint64(sizes[0]), 0
    while done < size:
        start, here, extra = np.uint64(new + done), np.uint64(old + done), np.uint64(more)
        if strides[0] == 0:
            price = numbers[more]
            for k in range(each):
                numbers[start + k] = numbers[here + k] + price
        else:
            for k in range(each):
                numbers[start + k] = numbers[here + k] + numbers[extra + k]
        done += sizes[0]
        for i in range(1, count):
            index[i] += 1
            more += strides[i]
            if index[i] < sizes[i]:
                break
            more -= strides[i] * sizes[i]
            index[i] = 0


@compiled_leaf
def cheapest_of(notes: Notes, to: int, listed: Int[np.ndarray, " listed"], first: int, last: int) -> None:
    """Cell by cell the cheapest of some lattices."""
    there = 0
    for i in range(first, last):
        if notes.start[listed[i]] >= 0:
            there += 1
            if there == 1:
                take(notes, listed[i], to)
    if there < 2:
        return
    numbers, old = notes.numbers, np.uint64(notes.start[to])
    size = np.uint64(room_for(notes, to))
    new = np.uint64(notes.start[to])
    for cell in range(size):
        numbers[new + cell] = numbers[old + cell]
    for i in range(first, last):
        if notes.start[listed[i]] >= 0:
            other = np.uint64(notes.start[listed[i]])
            for cell in range(size):
                value = numbers[other + cell]
                numbers[new + cell] = value if value < numbers[new + cell] else numbers[new + cell]
