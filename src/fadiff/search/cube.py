"""Genomes as points of the unit cube, for methods that vary real numbers.

Every *distinct* layer of the network has, in each of its dims of more than one trip, one number for each of these that
its slots leave open: the extent held in L2, the part of it held in L1, the part of that which unrolls, and the part of
the L3 factor that its group would share. A number picks one of the divisors that are possible after the picks before
it, all with equal shares of [0, 1]. Three numbers put the loop classes K, NPQ, CRS of a layer's L3 order into an order,
one says whether P or Q runs inside; one number is the strength of each edge that may be fused, one the place of X in
each pair that may share it. ResNet-18 on gemmini-large has 236 dims, GPT-3 6.7B has 85.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.genome import STRENGTHS, Encoding, Genomes
from fadiff.search.gradient.candidates import SHARED, SLOTS, T3
from fadiff.search.space import ORDERS3, SPATIAL, T0, T1, T2, divisors
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]
    FloatArray = NDArray[np.float64]

_ORDER_NUMBERS = 4


class _Cell(NamedTuple):
    """A dim of a distinct layer: where its numbers stand, and what they pick."""

    dim: int
    layers: IntArray
    """All layers that are alike."""
    first: int
    tables: _Divisors
    in_l2: bool
    in_l1: bool
    unrolls: int
    """What unrolls at most; 0 where nothing does."""
    shares: bool
    held_slot: int
    """Where a loop below L2 goes: t0 or t1."""


class Cube:
    """The unit cube of an encoding. `twin` numbers each layer's first equal."""

    def __init__(self, encoding: Encoding, twin: Sequence[int]) -> None:
        self.encoding = encoding
        hardware = encoding.hardware
        limits = dict.fromkeys(hardware.spatial_rows, hardware.rows)
        limits |= dict.fromkeys(hardware.spatial_cols, hardware.cols)
        alike = {first: np.flatnonzero(np.array(twin) == first) for first in dict.fromkeys(twin)}
        self._cells: list[_Cell] = []
        self._orders: list[tuple[int, IntArray]] = []
        at = 0
        for first, layers in alike.items():
            slots: NDArray[np.bool_] = np.logical_or.reduce(encoding.slots[:, :, layers], axis=2)
            is_mac = encoding.workload.layers[first].is_mac
            for d, dim in enumerate(DIMS):
                size = int(encoding.size[d, first])
                if size == 1:
                    continue
                cell = _Cell(
                    dim=d,
                    layers=layers,
                    first=at,
                    tables=_divisor_tables(size, limits.get(dim, 0)),
                    in_l2=is_mac,
                    in_l1=bool(slots[T2, d]),
                    unrolls=limits.get(dim, 0) if slots[SPATIAL, d] else 0,
                    shares=bool(slots[SHARED, d]),
                    held_slot=T0 if slots[T0, d] else T1,
                )
                self._cells.append(cell)
                at += cell.in_l2 + cell.in_l1 + bool(cell.unrolls) + cell.shares
            if is_mac:
                self._orders.append((at, layers))
                at += _ORDER_NUMBERS
        self._edges = np.flatnonzero(encoding.fusible)
        self._first_edge = at
        at += self._edges.size
        self._pairs = np.flatnonzero(encoding.x_producer)
        self._first_pair = at
        self.dims = at + self._pairs.size

    def genomes(self, points: FloatArray) -> Genomes:
        """The genomes of points ``[individuals, dims]``."""
        code, count = self.encoding, len(points)
        layers = len(code.workload.layers)
        factors = np.ones((count, SLOTS, len(DIMS), layers), dtype=np.int64)
        for cell in self._cells:
            factors[:, :, cell.dim, cell.layers] = _picked(cell, points)[:, :, None]
        # A slot that only some of the equal layers have is given up in the others.
        missing = ~code.slots[SHARED]
        factors[:, T3] *= np.where(missing, factors[:, SHARED], 1)
        factors[:, SHARED] = np.where(missing, 1, factors[:, SHARED])
        order = np.zeros((count, layers), dtype=np.int64)
        for first, mine in self._orders:
            classes = np.argsort(points[:, first : first + 3], axis=1, kind="stable")
            inside = points[:, first + 3] >= 0.5
            order[:, mine] = (_ORDER_OF[tuple(classes.T)] + len(ORDERS3) * inside)[:, None]
        strength = np.zeros((count, code.fusible.size), dtype=np.int64)
        strength[:, self._edges] = _pick(points[:, self._first_edge : self._first_pair], STRENGTHS)
        x_outside = np.zeros((count, layers), dtype=np.int64)
        x_outside[:, self._pairs] = points[:, self._first_pair :] >= 0.5
        return Genomes(factors, order, strength, x_outside)

    def points(self, genomes: Genomes) -> FloatArray:
        """A point for each genome, in the middle of what decodes to it; of equal layers it says what the first does."""
        points = np.full((genomes.individuals, self.dims), 0.5)
        for cell in self._cells:
            _place(cell, genomes.factors[:, :, cell.dim, cell.layers[0]], points)
        for first, mine in self._orders:
            order = genomes.order[:, mine[0]]
            points[:, first : first + 3] = (_RANK_OF[order % len(ORDERS3)] + 0.5) / 3
            points[:, first + 3] = (order // len(ORDERS3) + 0.5) / 2
        points[:, self._first_edge : self._first_pair] = (genomes.strength[:, self._edges] + 0.5) / STRENGTHS
        points[:, self._first_pair :] = (genomes.x_outside[:, self._pairs] + 0.5) / 2
        return points


class _Divisors(NamedTuple):
    """The divisors of a number, and those of each of them, all as places in the first list."""

    value: IntArray
    """``[divisors]``, increasing."""
    place: IntArray
    """``[divisors, most]`` the divisors of each, increasing; padded."""
    counts: IntArray
    """``[divisors]`` how many there are of each."""
    counts_unrolled: IntArray
    """``[divisors]`` how many of them may unroll."""
    quotient: IntArray
    """``[divisors, divisors]`` the place of a/b where b divides a, else 0."""


@lru_cache(maxsize=512)
def _divisor_tables(size: int, unrolled: int) -> _Divisors:
    value = np.array(divisors(size))
    at = {int(v): i for i, v in enumerate(value)}
    of_each = [[at[d] for d in divisors(int(v))] for v in value]
    place = np.array([places + [0] * (len(value) - len(places)) for places in of_each])
    count = np.array([len(places) for places in of_each])
    fits = np.array([sum(value[i] <= unrolled for i in places) for places in of_each])
    quotient = np.array([[at[int(a // b)] if a % b == 0 else 0 for b in value] for a in value])
    return _Divisors(value, place, count, fits, quotient)


def _pick(points: FloatArray, count: int | IntArray) -> IntArray:
    """Which of `count` equal parts of [0, 1] each number is in."""
    return np.minimum((points * count).astype(np.int64), np.asarray(count) - 1)


def _picked(cell: _Cell, points: FloatArray) -> IntArray:
    """``[individuals, 6]`` factors of a cell."""
    of = cell.tables
    whole = np.full(len(points), of.value.size - 1)
    factors = np.ones((len(points), SLOTS), dtype=np.int64)
    at = cell.first

    def divisor(number: IntArray, counts: IntArray) -> IntArray:
        nonlocal at
        picked = of.place[number, _pick(points[:, at], counts[number])]
        at += 1
        return picked

    held2 = divisor(whole, of.counts) if cell.in_l2 else np.zeros_like(whole)
    held1 = divisor(held2, of.counts) if cell.in_l1 else held2
    unrolled = divisor(held1, of.counts_unrolled) if cell.unrolls else np.zeros_like(whole)
    outside = of.quotient[whole, held2]
    shared = divisor(outside, of.counts) if cell.shares else np.zeros_like(whole)
    factors[:, SPATIAL] = of.value[unrolled]
    factors[:, cell.held_slot] = of.value[of.quotient[held1, unrolled]]
    factors[:, T2] = of.value[of.quotient[held2, held1]]
    factors[:, T3] = of.value[of.quotient[outside, shared]]
    factors[:, SHARED] = of.value[shared]
    return factors


def _place(cell: _Cell, factors: IntArray, points: FloatArray) -> None:
    """The inverse of :func:`_picked`, written into `points`."""
    of = cell.tables
    whole = np.full(len(points), of.value.size - 1)
    unrolled, shared = factors[:, SPATIAL], factors[:, SHARED]
    held1 = unrolled * factors[:, cell.held_slot]
    held2 = held1 * factors[:, T2]
    at = cell.first

    def put(number: IntArray, part: IntArray, counts: IntArray) -> IntArray:
        """Where the divisor `part` of a number stands among those that could be picked."""
        nonlocal at
        picked = np.searchsorted(of.value, part)
        among = (of.place[number] == picked[:, None]) & (np.arange(of.value.size) < of.counts[number][:, None])
        points[:, at] = (among.argmax(axis=1) + 0.5) / counts[number]
        at += 1
        return picked

    place2 = put(whole, held2, of.counts) if cell.in_l2 else np.zeros_like(whole)
    place1 = put(place2, held1, of.counts) if cell.in_l1 else place2
    if cell.unrolls:
        put(place1, unrolled, of.counts_unrolled)
    if cell.shares:
        put(of.quotient[whole, place2], shared, of.counts)


def _orders() -> tuple[IntArray, FloatArray]:
    """The number of each order of the three loop classes ``[3, 3, 3]``, and each order's ranks ``[orders, 3]``."""
    number, ranks = np.zeros((3, 3, 3), dtype=np.int64), np.zeros((len(ORDERS3), 3))
    for i, classes in enumerate(permutations(range(3))):
        number[classes] = i
        ranks[i, list(classes)] = range(3)
    return number, ranks


_ORDER_OF, _RANK_OF = _orders()
