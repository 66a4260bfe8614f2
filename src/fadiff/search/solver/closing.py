r"""What a layer's flows cost at least, given the extents at which their reuse ends, and which tiles fit.

With *notA* the product of the factors of a dim that are not in a set A of nodes,

.. math:: count(d; A) \ge \lceil size(d) / notA(d) \rceil

(every combination of the others holds at most notA indices), and equal where the nodes outside A are the innermost. So
every flow of the model has a bound that depends on one vector of extents alone. Extents stand in
:class:`~fadiff.search.solver.grid.Cells`, all at once: arrays have one axis for every dim. Everything rounds so that
the result is never above what it bounds.
"""

from __future__ import annotations

from functools import reduce
from math import ceil, inf, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.hardware import Memory
from fadiff.schedule.nest import IMAGE_DIMS, IRRELEVANT_DIMS, PLAIN_DIMS, RELEVANT_DIMS, C, G, N, P, Q, R, S
from fadiff.search.solver.counts import along, product_of
from fadiff.search.solver.grid import Cells

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from jaxtyping import Bool, Float

    from fadiff.hardware import Machine
    from fadiff.search.solver.counts import Counts
    from fadiff.workload import Layer

    Lattice = Float[np.ndarray, "*cells"]

Flow = tuple[str, int]
"""A tensor on its way to one of its keepers."""
Closed = tuple[Flow, int, tuple[Cells, ...], bool]
"""A flow that has closed: at the loops of which node, at which extents, whether it is kept over shared iterations."""
TOP = -1
"""The place above all nodes."""
CLOSING_DIMS = IRRELEVANT_DIMS | {"I": tuple(sorted((*IRRELEVANT_DIMS["I"], P, Q, R, S)))}
"""Dims whose extents decide what a flow costs that closes at them."""
_REDUCED = list(IRRELEVANT_DIMS["O"])


class Role(NamedTuple):
    """What fusion changes in a layer, as :class:`~fadiff.schedule.arrays.Fusion` has it."""

    fused_input: float = 0.0
    """Share of its input channels that arrive over fused edges."""
    fused_weight: float = 0.0
    drained: float = 1.0
    copied: float = 0.0


ALONE = Role()


class Prices(NamedTuple):
    """What everything costs, and how much room there is."""

    fixed: float
    """Paid whatever the mapping."""
    idle: float
    """Of the steps, at their fewest: more of them cost as much more."""
    read: Float[np.ndarray, " nodes"]
    """Of a bit read at a memory (0 at axes)."""
    write: Float[np.ndarray, " nodes"]
    room: Float[np.ndarray, " nodes"]
    """Bytes for the layer's tiles in a memory."""
    role: Role
    trips: tuple[int, ...]
    """Shared trips over each dim at least: as often comes again what does not outlast them."""
    tile: tuple[int, ...]
    """The least extent of each dim in one shared iteration."""
    keeps: bool | None = None
    """Whether weights stay in their home over shared iterations; None where that is left open."""
    slides: bool | None = None
    """Whether the window of I slides along a shared loop; likewise."""
    holds: bool | None = None
    """Whether sums stay in their home over iterations of a channel loop; likewise."""
    finished: Mapping[int, bool] = {}
    """By memory: whether all sums that arrive there are finished, where that is told apart."""


class Closing:
    """The flows of one layer on a machine, with lanes between bounds, over cells of extents."""

    def __init__(self, layer: Layer, machine: Machine, counts: Counts, once: Collection[str] = ()) -> None:
        """Of `once`, tensors that pass their home once, flows that would come again cost infinitely much."""
        self.layer = layer
        self.once = once
        self.machine = machine
        self.structure = machine.structure
        self.counts = counts
        self.lanes = counts.lanes
        self.between = counts.between
        self.size = layer.dims
        self.whole = tuple(Cells((size,), (size,)) for size in layer.dims)
        """The one cell of the full size."""
        self.all: list[Flow] = [(t, keeper) for t in "WIO" for keeper in self.structure.keepers(t)[1:]]
        self._passed: dict[tuple[Flow, int, tuple[Cells, ...], tuple[int, ...]], tuple[Lattice, Lattice]] = {}

    # How often.

    def _passes(
        self, flow: Flow, place: int, cells: Sequence[Cells], trips: tuple[int, ...]
    ) -> tuple[Lattice, Lattice]:
        """How often a tensor (or a value of a row and a column of I) passes a keeper: at all its instances, and at its
        parent. At single cells it is remembered, since it is the same at all prices and in all places."""
        tensor, keeper = flow
        closing = tuple(cells[d] for d in CLOSING_DIMS[tensor])
        key = flow, place, closing, trips
        if (found := self._passed.get(key)) is None:
            here, outside = self._repeats(flow, place, cells, trips)
            for image in (0, 1) if tensor == "I" else ():
                out, kernel = IMAGE_DIMS[image]
                written, read = self.counts.lines(image, keeper, place, (cells[out], cells[kernel]))
                here, outside = here * written, outside * read
            found = np.asarray(here), np.asarray(outside)
            if all(len(one) == 1 for one in closing):
                self._passed[key] = found
        return found

    def _repeats(
        self, flow: Flow, place: int, cells: Sequence[Cells], trips: Sequence[int]
    ) -> tuple[Lattice | float, Lattice | float]:
        """How often a tensor passes a keeper, whatever its rows and columns."""
        tensor, keeper = flow

        def at(memory: int) -> Lattice | float:
            counts = [self.counts.count(d, cells[d], place, keeper, memory) for d in IRRELEVANT_DIMS[tensor]]
            shared = [trips[d] for d in IRRELEVANT_DIMS[tensor]]
            return product_of([np.maximum(*pair) for pair in zip(counts, shared, strict=True)])

        return at(keeper), at(self.counts.parent(tensor, keeper))

    def _returns(
        self, tensor: str, place: int, cells: Sequence[Cells], trips: Sequence[int]
    ) -> Bool[np.ndarray, "*cells"]:
        """Whether loops, whatever the lanes, are certain to repeat what closes at some extents."""
        found: Lattice | float = 1.0
        for d in IRRELEVANT_DIMS[tensor]:
            lanes = 1.0 if place == TOP else self.between(TOP, place)[1][d]
            counts = np.ceil(self.size[d] / np.minimum(cells[d].highs * lanes, self.size[d]))
            found = found * along(d, np.maximum(counts, trips[d]))
        return np.asarray(found > 1)

    # What a flow costs where it ends.

    def price(
        self, flow: Flow, place: int, cells: Sequence[Cells], prices: Prices, *, kept: bool = False
    ) -> Lattice | float:
        """The least price of a flow whose reuse ends at extents of the cells, among the loops of node `place`.

        What is not kept over shared iterations comes again in each.
        """
        tensor, keeper = flow
        trips = (1,) * 8 if kept else prices.trips
        found = self._priced(flow, *self._passes(flow, place, cells, trips), prices)
        if tensor in self.once and keeper == self.structure.home(tensor):
            return np.where(self._returns(tensor, place, cells, trips), inf, found)
        return found

    def _priced(self, flow: Flow, here: Lattice, outside: Lattice, prices: Prices) -> Lattice | float:
        """The price of a flow that passes its keeper, and its parent, so often."""
        tensor, keeper = flow
        if tensor == "O":
            return self._sums(keeper, here, outside, prices)
        values = prod(self.size[d] for d in PLAIN_DIMS[tensor])
        fused = prices.role.fused_weight if tensor == "W" else prices.role.fused_input
        stays_out = self.structure.fuses is not None and keeper <= self.structure.fuses
        write = self._bits(tensor) * prices.write[keeper] * (1 - fused if stays_out else 1)
        read_price = self._read_price(tensor, self.counts.parent(tensor, keeper), keeper, prices)
        return values * (write * here + read_price * outside)

    def _bits(self, tensor: str) -> int:
        return self.machine.bits.W if tensor == "W" else self.machine.bits.I

    def _read_price(self, tensor: str, parent: int, child: int | None, prices: Prices) -> float:
        """Price of a value of W or I read at a keeper; the fused ones at the memory that fuses."""
        fuses = self.structure.fuses
        fused = prices.role.fused_weight if tensor == "W" else prices.role.fused_input
        price = self._bits(tensor) * prices.read[parent]
        if fuses is None or parent > fuses:
            return price
        if parent < fuses and child is not None and child <= fuses:
            return (1 - fused) * price
        return (1 - fused) * price + fused * self.machine.bits.O * prices.read[fuses]

    def _finished(self, memory: int, values: tuple[float, float]) -> float:
        """The first of two numbers where no lanes above a memory split sums, else the second; the less where that is
        open."""
        least, most = (lanes[_REDUCED].prod() for lanes in self.between(TOP, memory))
        return values[0] if most == 1 else values[1] if least > 1 else min(values)

    def _splits(self, memory: int) -> bool:
        """Whether lanes above a memory are certain to split sums."""
        return bool(self.between(TOP, memory)[0][_REDUCED].prod() > 1)

    def _sums(self, keeper: int, here: Lattice | float, outside: Lattice | float, prices: Prices) -> Lattice | float:
        """The price of O between a keeper and its parent: finished outputs, unfinished sums, and sums fetched back.

        Where lanes above a memory split sums, what arrives there and does not leave it is fetched back, and what comes
        back to it from further out: what arrives is charged to the flow that brings it, and what leaves for good is
        credited to the memory's own.
        """
        output, parent = self.layer.output_words, self.counts.parent("O", keeper)
        fixed, of_here, of_outside = self._prices_of_sums(keeper, prices)
        if self._splits(parent):
            charged = self._charged(parent, prices)
            fixed, of_outside = fixed + output * charged, of_outside + charged
        if keeper != self.structure.keepers("O")[-1] and self._splits(keeper):
            credited = self._charged(keeper, prices)
            fixed, of_here = fixed - output * credited, of_here - credited
            of_outside = of_outside + self._finished(parent, (credited, 0.0))
        if prices.finished.get(parent) or (keeper == self.structure.hands_over and prices.role.copied):
            # Only finished outputs are handed over.
            fixed = np.where(outside > 1, np.inf, fixed)
        if of_here < 0:
            # Lanes make no more of what arrives at the parent.
            most = self._most_parts(keeper)
            arrives = np.maximum(outside, here / most)
            return fixed + output * (of_here * (most * arrives - 1) + of_outside * (arrives - 1))
        return fixed + output * (of_here * (here - 1) + of_outside * (outside - 1))

    def _prices_of_sums(self, keeper: int, prices: Prices) -> tuple[Lattice | float, float, float]:
        """What O costs between a keeper and its parent if each value passes both once; and of each output, passing the
        keeper, and the parent, once more. What is fetched back from a parent above which lanes split sums is left out.
        """
        keepers, fuses, bits = self.structure.keepers("O"), self.structure.fuses, self.machine.bits
        parent, innermost = self.counts.parent("O", keeper), keeper == keepers[-1]
        output, stored, role = self.layer.output_words, self.layer.stored_words, prices.role
        arrives = leaves = 1.0
        cost = 0.0
        if fuses is not None and parent < fuses:
            arrives = leaves = role.drained
            if keeper > fuses:
                leaves = role.drained + role.copied
                cost = stored * role.copied * bits.O * prices.write[fuses]
        sums = bits.spilled if parent == keepers[0] else bits.sums
        done = self._finished(parent, (stored * bits.O * arrives, output * sums))
        back = self._finished(parent, (self._price_of_return(keeper, prices), 0.0))
        cost, of_outside = cost + prices.write[parent] * done, prices.write[parent] * sums + back
        # Departures from the keeper; those of the innermost are counted with its updates.
        if innermost:
            return cost + prices.read[keeper] * bits.sums * output * (leaves - 1), 0.0, of_outside
        done = self._finished(keeper, (stored * bits.O * leaves, output * bits.sums * leaves))
        rest = self._finished(keeper, (1.0, leaves))
        return cost + prices.read[keeper] * done, prices.read[keeper] * bits.sums * rest, of_outside

    def _price_of_return(self, keeper: int, prices: Prices) -> float:
        """The price of a sum that a keeper fetches back from its parent, and reads once more if it is the innermost."""
        keepers, bits = self.structure.keepers("O"), self.machine.bits
        parent, innermost = self.counts.parent("O", keeper), keeper == keepers[-1]
        sums = bits.spilled if parent == keepers[0] else bits.sums
        again = prices.write[keeper] + innermost * prices.read[keeper]
        return float(prices.read[parent] * sums + again * bits.sums)

    def _charged(self, memory: int, prices: Prices) -> float:
        """Of the price of a sum fetched back from a memory above which lanes split sums, so much that what leaves it
        for one sum that arrives at its parent costs no less than nothing after the credit."""
        keepers, most = self.structure.keepers("O"), self._most_parts(memory)
        _, of_here, of_outside = self._prices_of_sums(memory, prices)
        again = self._finished(self.counts.parent("O", memory), (1.0, 0.0))
        price = self._price_of_return(keepers[keepers.index(memory) + 1], prices)
        return price if most <= again else min(price, (most * of_here + of_outside) / (most - again))

    def _most_parts(self, keeper: int) -> float:
        """So many sums at most leave a keeper for one that arrives at its parent."""
        return float(self.between(self.counts.parent("O", keeper), keeper)[1][_REDUCED].prod())

    def at_macs(self, prices: Prices) -> float:
        """What the MACs read and add, whatever the loops: each value once per step, lanes below a keeper together."""
        total, bits = prices.fixed, self.machine.bits
        for tensor in "WIO":
            keeper = self.structure.keepers(tensor)[-1]
            _, lanes = self.between(keeper, len(self.machine.nodes))
            groups = [ceil(size / min(size, most)) for size, most in zip(self.size, lanes, strict=True)]
            values = prod(self.size[d] for d in PLAIN_DIMS[tensor]) * prod(groups[d] for d in IRRELEVANT_DIMS[tensor])
            for out, kernel in IMAGE_DIMS if tensor == "I" else ():
                # Lanes over both read at least what is different, as at other keepers.
                rows, taps, n, m = self.size[out], self.size[kernel], groups[out], groups[kernel]
                values *= rows * taps if lanes[out] == 1 or lanes[kernel] == 1 else rows * m + taps * n - n * m
            if tensor == "O":
                total += values * bits.sums * (prices.read[keeper] + prices.write[keeper])
            else:
                total += values * self._read_price(tensor, keeper, None, prices)
        return float(total)

    def total(self, closings: Iterable[Closed], prices: Prices) -> float:
        """What the layer costs where each of its flows closes in one cell."""
        passing = [self.price(flow, place, cells, prices, kept=kept) for flow, place, cells, kept in closings]
        return self.at_macs(prices) + float(sum(np.asarray(price).item() for price in passing))

    def least(self, flow: Flow, prices: Prices) -> float:
        """What a flow costs at any extents at least.

        Large tiles are not always best: a box holds rows that a stride would skip. Over shared iterations a tensor is
        kept in its home or not at all, and W only where all of it fits there.
        """
        tensor, keeper = flow
        kept = keeper == self.structure.home(tensor) and (tensor != "W" or self.may_stay(prices))
        anything = tuple(Cells((1,), (size,)) for size in self.size)
        return np.asarray(self.price(flow, TOP, anything, prices, kept=kept)).item()

    def may_stay(self, prices: Prices) -> bool:
        """Whether weights can stay in their home over shared iterations: all of one fit there at once."""
        if prices.keeps is False:
            return False
        home = self.structure.home("W")
        assert home is not None
        lanes = self.between(TOP, home)[1]
        held = prod(ceil(prices.tile[d] / lanes[d]) for d in RELEVANT_DIMS["W"]) * self.machine.bits.W / 8
        fuses = self.structure.fuses
        share = 1 - prices.role.fused_weight if fuses is not None and home <= fuses else 1.0
        return share * held <= prices.room[home] * (1 + 1e-12) + 1e-9

    def floor(self, prices: Prices) -> float:
        """The same of the whole layer."""
        if prices.keeps and not self.may_stay(prices):
            return inf
        return self.at_macs(prices) + sum(self.least(flow, prices) for flow in self.all)

    def unfinished(self, closed: Closed, prices: Prices) -> bool:
        """Whether some sums are certain to leave a keeper unfinished where its flow closes, in one cell."""
        flow, place, cells, _ = closed
        return flow[0] == "O" and float(np.max(self._passes(flow, place, cells, prices.trips)[1])) > 1

    # Where tiles fit.

    def too_large(self, memory: int, cells: Sequence[Cells], prices: Prices) -> Bool[np.ndarray, "*cells"]:
        """Whether tiles of the cells' lower ends do not fit in a memory."""
        low = [along(d, cells[d].lows) for d in range(8)]
        return self._too_large(memory, low, prices, self._unfinished(memory, cells, prices))

    def _unfinished(self, memory: int, cells: Sequence[Cells], prices: Prices) -> Bool[np.ndarray, "*cells"] | bool:
        """Whether sums are certain to arrive at a memory before they are finished: C, R or S goes on further out, and
        the next keeper further in does not hold the whole tile meanwhile."""
        keepers = self.structure.keepers("O")
        if memory not in keepers[:-1]:
            return False
        if prices.finished.get(memory) is False:
            return True
        child, relevant = keepers[keepers.index(memory) + 1], list(RELEVANT_DIMS["O"])
        most = prices.room[child] * 8 / self._least_width(child) * self.between(memory, child)[1][relevant].prod()
        goes_on = [along(d, cells[d].highs) < self.size[d] for d in _REDUCED]
        return reduce(np.logical_or, goes_on) & (product_of([along(d, cells[d].lows) for d in relevant]) > most + 0.5)

    def _least_width(self, memory: int) -> float:
        """Bits that a value of O takes in a memory at least: where all that arrive are finished, if they may be."""
        bits = self.machine.bits
        if memory == self.structure.keepers("O")[-1] or self._splits(memory):
            return float(bits.sums)
        return min(float(bits.sums), bits.O * self.layer.stored_words / self.layer.output_words)

    def _too_large(
        self,
        memory: int,
        low: Sequence[Lattice | float],
        prices: Prices,
        unfinished: Bool[np.ndarray, "*cells"] | bool = False,
    ) -> Bool[np.ndarray, "*cells"]:
        node, fuses, bits, role = self.machine.nodes[memory], self.structure.fuses, self.machine.bits, prices.role
        assert isinstance(node, Memory)
        outside = fuses is not None and memory <= fuses
        held: Lattice | float = 0.0
        if "W" in node.keeps:
            share = 1 - role.fused_weight if outside else 1.0
            held = held + share * bits.W / 8 * product_of([low[d] for d in RELEVANT_DIMS["W"]])
        if "I" in node.keeps:
            boxes = [
                (low[out] - 1) * self.layer.stride[i] + (low[kernel] - 1) * self.layer.dilation[i] + 1
                for i, (out, kernel) in enumerate(IMAGE_DIMS)
            ]
            share = 1 - role.fused_input if outside else 1.0
            held = held + share * bits.I / 8 * product_of([low[G], low[N], low[C], *boxes])
        if "O" in node.keeps:
            width = np.where(unfinished, bits.sums, self._least_width(memory))
            share = 1 - role.copied if memory == fuses else 1.0
            held = held + share * width / 8 * product_of([low[d] for d in RELEVANT_DIMS["O"]])
        return np.asarray(held > prices.room[memory] * (1 + 1e-12) + 1e-9)

    def fitting(self, memory: int, cells: Sequence[Cells], prices: Prices) -> list[Cells]:
        """The cells of each dim that fit in a memory as far as one dim alone decides: the first ones, at least one."""
        kept = list(cells)
        for d in range(8):
            if len(cells[d]) > 1:
                low = [cells[d].lows if d == other else cells[other].low[0] for other in range(8)]
                full = np.broadcast_to(self._too_large(memory, low, prices), len(cells[d]))
                kept[d] = cells[d].first(max(1, int((~full).sum())))
        return kept
