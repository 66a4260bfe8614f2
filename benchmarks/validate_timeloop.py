"""Holds the model's counts, latencies and energies against Timeloop's on the same random mappings.

    python -m benchmarks.validate_timeloop
    python -m benchmarks.validate_timeloop --markdown docs/validation-timeloop.md

Every row of ``data/timeloop_reference.csv.gz`` is one layer with one mapping that Timeloop evaluated. The rows become
the layers of one set of arrays, and the model's own functions price them all in one call. Needs the `bench` extra.
"""

import csv
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
import typer
from jax import Array
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import kendalltau, spearmanr

from fadiff.cost.arrays import Fusion, HardwareArrays, LayerArrays, MappingArrays, pack_hardware
from fadiff.cost.roofline import cycles, energy_pj
from fadiff.cost.traffic import RELEVANT_I, RELEVANT_O, C, G, K, N, P, Q, R, S, Tiles, Traffic, layer_traffic
from fadiff.files import write_text
from fadiff.hardware import load_hardware
from fadiff.workload import DIMS

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "data" / "timeloop_reference.csv.gz"
ENERGIES = ROOT / "data" / "timeloop_ert_values.json"
COMMAND = "python -m benchmarks.validate_timeloop --markdown docs/validation-timeloop.md"
PLAIN_WIDTH = 130
"""Characters a line where the output is no terminal."""

MACHINES = {"LARGE": "gemmini-large", "SMALL": "gemmini-small"}
"""The table's machines, by the names of the hardware files that describe them."""
L3_WORDS_PER_CYCLE, L2_WORDS_PER_CYCLE_PER_COLUMN, L1_WORDS_PER_CYCLE_PER_COLUMN = 8.0, 2.0, 2.0
"""Bandwidths Timeloop was run with; L1 serves the columns in use, L2 all of them."""

COUNTS = {
    "L0 W": ("L0_W_reads", "L0_W_fills"),
    "L1 O": ("L1_O_reads", "L1_O_fills", "L1_O_updates"),
    "L2 W": ("L2_W_reads", "L2_W_fills"),
    "L2 I": ("L2_I_reads", "L2_I_fills"),
    "L3 W": ("L3_W_reads",),
    "L3 I": ("L3_I_reads",),
    "L3 O": ("L3_O_reads", "L3_O_updates"),
}
"""Timeloop's access counts by level and tensor."""
SIZES = ("L2_W_cap_words", "L2_I_cap_words", "L1_O_cap_words_total", "L1_O_cap_words_per_column")
"""Timeloop's tile sizes."""

ENERGY_ROUNDING_PJ = 0.03
"""The table's total is a sum of five parts, rounded to 0.01 pJ like each of them."""
CYCLE_ROUNDING = 1.0
"""Timeloop rounds a quotient of floating-point numbers up to whole cycles, so it may land one above the exact one."""

TIMELOOPS, ONE_WORD, OURS = "Timeloop's", "ours, a spill is one word", "ours"
"""Accountings: Timeloop's rules, energies and bandwidths put into the model; the project's own but for one; its own."""
QUANTITIES = ("latency", "energy")
PAPER_ACCESS_ACCURACY = 0.96
PAPER_TAU = {"latency": 1.0, "energy": 0.7804}
"""What the FADiff paper reports for its own model against Timeloop."""

DOUBLE_STEP, SAME_STEP = "double step", "same step"
EXPLANATIONS = {
    DOUBLE_STEP: (
        "The innermost running L3 loop slides the input window by `d` rows (or columns), and the other loop of that "
        "axis (P and R, or Q and S) moves it by exactly `2d`, with only irrelevant loops between the two. When the "
        "outer loop steps, the window jumps from the last position of one sweep to the first of the next. Timeloop "
        "walks only the first two iterations of every loop and scales up the second, so it sees a jump from the "
        "*second* position: `2d - d = d`, the stride of the sweep itself. It takes this for more sliding and counts "
        "only the fresh part. The model counts a whole tile at the start of every sweep."
    ),
    SAME_STEP: (
        "An irrelevant loop (K) is the innermost running L3 loop, and the two loops of an axis move the window by the "
        "same step. From the second position of the inner one to the first position of the next outer iteration the "
        "window then does not move at all; under the irrelevant loop it stood still just before, so Timeloop sees no "
        "change of stride, takes the tile to be resident and fetches nothing. The model counts it again."
    ),
}

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Reference:
    """Rows of Timeloop's table, as columns of text."""

    columns: Mapping[str, NDArray[np.str_]]

    def __len__(self) -> int:
        return len(self.columns["id"])

    def text(self, name: str) -> NDArray[np.str_]:
        """A column as it stands in the file."""
        return self.columns[name]

    def numbers(self, name: str) -> Floats:
        """A column of numbers."""
        return self.columns[name].astype(np.float64)

    def where(self, keep: Mask) -> "Reference":
        """Some of the rows."""
        return Reference({name: column[keep] for name, column in self.columns.items()})


def read_reference(path: Path) -> Reference:
    """All rows of the table."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    return Reference(dict(zip(header, map(np.array, zip(*rows, strict=True)), strict=True)))


def read_energies(path: Path) -> dict[str, dict[str, float]]:
    """pJ of a MAC and of an access, by machine."""
    return json.loads(path.read_text(encoding="utf-8"))


# Rows as the model's arrays: a row is a layer.


def _array(values: object) -> Array:
    """NumPy values where the model's types say Array: it computes with either."""
    return cast("Array", np.asarray(values))


def by_dim(reference: Reference, column: Callable[[str], Floats]) -> Array:
    """``[8, rows]`` from a column per dim of Timeloop's seven: a depthwise layer's K is our G."""
    depthwise = reference.text("shape") == "dw"
    k = column("K")
    eight = {d: column(d) for d in "NCPQRS"} | {"G": np.where(depthwise, k, 1), "K": np.where(depthwise, 1, k)}
    return _array(np.stack([eight[d] for d in DIMS]))


def loop_ranks(reference: Reference, level: int) -> Array:
    """``[8, rows]`` place of each dim's loop, outermost 0, from orders written innermost first.

    The dim that Timeloop does not know (G, or K of a depthwise layer) makes one trip and stands innermost.
    """
    orders = np.array([list(order) for order in reference.text(f"perm_L{level}_inner_to_outer")])
    depthwise = reference.text("shape") == "dw"
    rank = {d: 6.0 - np.argmax(orders == d, axis=1) for d in "NKCPQRS"}
    rank["G"], rank["K"] = np.where(depthwise, rank["K"], 7.0), np.where(depthwise, 7.0, rank["K"])
    return _array(np.stack([rank[d] for d in DIMS]))


def layer_arrays(reference: Reference) -> LayerArrays:
    """The layer of every row; nothing is folded into it, so |O'| = |O|."""
    size = by_dim(reference, reference.numbers)
    output_words = _array(np.prod([size[d] for d in sorted(RELEVANT_O)], axis=0))
    rows = len(reference)
    return LayerArrays(
        size=size,
        stride=_array(np.stack([reference.numbers("stride")] * 2)),
        dilation=_array(np.ones((2, rows))),
        stored=size[P : Q + 1],
        output_words=output_words,
        stored_words=output_words,
        input_channels=size[G] * size[C],
        addends=_array(np.zeros(rows)),
        is_mac=_array(np.ones(rows, dtype=bool)),
        repeat=_array(np.ones(rows)),
    )


def mapping_arrays(reference: Reference) -> MappingArrays:
    """The mapping of every row."""
    unrolled = {d: reference.numbers(f"spatial_{d}") for d in "KC"}

    def temporal(level: int) -> Array:
        return by_dim(reference, lambda d: reference.numbers(f"T{level}_{d}"))

    return MappingArrays(
        spatial=by_dim(reference, lambda d: unrolled.get(d, np.ones(len(reference)))),
        temporal=_array(np.stack([temporal(level) for level in range(4)])),
        rank=_array(np.stack([loop_ranks(reference, level) for level in (1, 2, 3)])),
    )


def no_fusion(rows: int) -> Fusion:
    """Every layer on its own: no shared loops, inputs from L3, outputs to L3."""
    zero, one = _array(np.zeros(rows)), _array(np.ones(rows))
    return Fusion(
        trips=_array(np.ones((5, rows))),
        trip_rank=_array(np.arange(5.0)[:, None] * np.ones(rows)),
        x_trips=_array(np.ones((2, rows))),
        fused_channels=zero,
        fused_weight=zero,
        fused_addends=zero,
        drained=one,
        copied=zero,
        grouped=zero,
    )


def shipped_hardware(reference: Reference) -> HardwareArrays:
    """The hardware file of every row's machine, numbers ``[rows]``."""
    configs = list(MACHINES)
    packed = [pack_hardware(load_hardware(MACHINES[config])) for config in configs]
    machine = np.array([configs.index(config) for config in reference.text("config")])
    return HardwareArrays(*(_array(np.stack(field)[machine]) for field in zip(*packed, strict=True)))


def timeloop_hardware(
    reference: Reference, energies: Mapping[str, Mapping[str, float]]
) -> tuple[HardwareArrays, HardwareArrays]:
    """Timeloop's machine with its energies of a read, and with those of a write (fills and updates)."""

    def pj(key: str) -> Array:
        return _array([energies[config][key] for config in reference.text("config")])

    one = np.ones(len(reference))
    machine = shipped_hardware(reference)._replace(
        l1_words_per_cycle_per_column=_array(L1_WORDS_PER_CYCLE_PER_COLUMN * one),
        l2_words_per_cycle=_array(L2_WORDS_PER_CYCLE_PER_COLUMN * reference.numbers("pe_dim")),
        l3_words_per_cycle=_array(L3_WORDS_PER_CYCLE * one),
        mac_pj=pj("MAC"),
        l0_pj=pj("L0"),
        l3_pj=pj("L3"),
        spill_words=_array(one),
        serial_l3=_array(0 * one),
    )
    reading = machine._replace(l1_pj=pj("L1_read"), l2_pj=pj("L2_read"))
    writing = machine._replace(l1_pj=pj("L1_write"), l2_pj=pj("L2_write"))
    return reading, writing


# Counts, latency and energy of all rows.


class Cost(NamedTuple):
    """What an accounting says of every row, ``[rows]``, in the order of `QUANTITIES`."""

    cycles: Floats
    energy_pj: Floats


class Batch(NamedTuple):
    """Rows and what the model finds for them."""

    reference: Reference
    layers: LayerArrays
    mapping: MappingArrays
    traffic: Traffic
    """With a spilled sum as one word, as Timeloop counts it."""
    tiles: Tiles


def evaluate(reference: Reference) -> Batch:
    """All rows through the model in one call."""
    layers, mapping, rows = layer_arrays(reference), mapping_arrays(reference), len(reference)
    traffic, tiles = layer_traffic(layers, mapping, no_fusion(rows), spill_words=_array(np.ones(rows)))
    return Batch(reference, layers, mapping, traffic, tiles)


def reads_and_writes(batch: Batch) -> tuple[Traffic, Traffic]:
    """The traffic as Timeloop counts it: what is read, and what is filled or updated.

    Of the 2u - |O| accesses of the array's updates, u - |O| read the old sum and u write the new one. The reads of
    drained outputs, which Timeloop does not count at L1, are in neither.
    """
    traffic, output_words = batch.traffic, batch.layers.output_words
    zero = traffic.macs * 0
    updates, spill = (traffic.l1_update + output_words) / 2, traffic.l3_spill / 2
    read = traffic._replace(
        l0_weight_fill=zero, l1_update=updates - output_words, l1_drain=zero, l1_reload=zero,
        l2_weight_fill=zero, l2_input_fill=zero, l3_output=zero, l3_spill=spill,
    )  # fmt: skip
    written = traffic._replace(
        macs=zero, l1_update=updates, l1_drain=zero, l2_weight_read=zero, l2_input_read=zero,
        l3_weight=zero, l3_input=zero, l3_spill=spill,
    )  # fmt: skip
    return read, written


def timeloop_columns(batch: Batch) -> dict[str, Floats]:
    """The model's counts and tile sizes under the names of Timeloop's columns."""
    read, written = reads_and_writes(batch)
    tiles, columns = batch.tiles, batch.mapping.spatial[K] * batch.mapping.spatial[G]
    found = {
        "L0_W_reads": read.macs,
        "L0_W_fills": written.l0_weight_fill,
        "L1_O_reads": read.l1_update,
        "L1_O_fills": written.l1_reload,
        "L1_O_updates": written.l1_update,
        "L2_W_reads": read.l2_weight_read,
        "L2_W_fills": written.l2_weight_fill,
        "L2_I_reads": read.l2_input_read,
        "L2_I_fills": written.l2_input_fill,
        "L3_W_reads": read.l3_weight,
        "L3_I_reads": read.l3_input,
        "L3_O_reads": read.l3_spill,
        "L3_O_updates": written.l3_output + written.l3_spill,
        "L2_W_cap_words": tiles.weight2,
        "L2_I_cap_words": tiles.input2,
        "L1_O_cap_words_total": tiles.output1,
        "L1_O_cap_words_per_column": tiles.output1 / columns,
    }
    return {name: np.asarray(words) for name, words in found.items()}


def timeloop_cost(batch: Batch, energies: Mapping[str, Mapping[str, float]]) -> Cost:
    """The model's roofline and energy with Timeloop's rules, energies and bandwidths put in."""
    reading, writing = timeloop_hardware(batch.reference, energies)
    read, written = reads_and_writes(batch)
    undrained = batch.traffic._replace(l1_drain=batch.traffic.macs * 0)
    return Cost(
        np.asarray(cycles(batch.layers, batch.mapping, undrained, reading).total),
        np.asarray(energy_pj(read, reading).total + energy_pj(written, writing).total),
    )


def own_cost(batch: Batch, hardware: HardwareArrays) -> Cost:
    """The model's roofline and energy as the project uses them."""
    traffic = batch.traffic._replace(l3_spill=batch.traffic.l3_spill * hardware.spill_words)
    return Cost(
        np.asarray(cycles(batch.layers, batch.mapping, traffic, hardware).total),
        np.asarray(energy_pj(traffic, hardware).total),
    )


def fits(batch: Batch, hardware: HardwareArrays) -> Mask:
    """``[rows]``: tile2(W) + tile2(I) <= L2 bytes and 4*tile1(O)*cols/s_cols <= L1 bytes."""
    tiles, columns = batch.tiles, batch.mapping.spatial[K] * batch.mapping.spatial[G]
    in_l2 = tiles.weight2 + tiles.input2 <= hardware.l2_bytes
    return np.asarray(in_l2 & (4 * tiles.output1 * hardware.cols / columns <= hardware.l1_bytes))


# Why rows differ.


def window(batch: Batch) -> tuple[Floats, Floats, dict[int, Floats]]:
    """Extents held in L2, ``[8, rows]``; rows and columns of the input tile, ``[2, rows]``; and by how many of them
    a step of each L3 loop over P, Q, R and S moves it."""
    x2 = np.asarray(batch.mapping.spatial) * np.prod(np.asarray(batch.mapping.temporal)[:3], axis=0)
    stride, dilation = np.asarray(batch.layers.stride), np.asarray(batch.layers.dilation)
    extents = (x2[[P, Q]] - 1) * stride + (x2[[R, S]] - 1) * dilation + 1
    steps = np.concatenate([x2[[P, Q]] * stride, x2[[R, S]] * dilation])
    return x2, extents, dict(zip((P, Q, R, S), steps, strict=True))


def extra_reuse_words(batch: Batch) -> dict[str, Floats]:
    """Input words that Timeloop does not fetch though the model does, by class of disagreement, ``[rows]``.

    Both classes concern two L3 loops over one axis of the input, P and R or Q and S, that both make more than one
    trip, all other running loops that are relevant to I standing outside the outer one of the two. Let the inner one
    move the window of e rows by d, the outer one, with b trips, by D. Then every step of the outer one saves

    .. math:: tile2(I) \\cdot (e - d)/e \\ \\text{(double step: } D = 2d < 2e \\text{, inner loop innermost)}, \\qquad
              tile2(I) \\ \\text{(same step: } D = d \\text{, an irrelevant loop innermost)}

    and it makes (b - 1) such steps for each iteration of the loops outside it.
    """
    trips, rank = np.asarray(batch.mapping.temporal)[3], np.asarray(batch.mapping.rank)[2]
    _, extents, steps = window(batch)
    running = np.where(trips > 1, rank, -1)
    innermost = running.max(axis=0)
    saved = {name: np.zeros(trips.shape[1]) for name in EXPLANATIONS}
    for (a, b), extent in zip(((P, R), (Q, S)), extents, strict=True):
        a_is_outer = rank[a] < rank[b]
        outer_rank, inner_rank = np.minimum(rank[a], rank[b]), np.maximum(rank[a], rank[b])
        outer_step, inner_step = np.where(a_is_outer, (steps[a], steps[b]), (steps[b], steps[a]))
        others = running[sorted(RELEVANT_I - {a, b})].max(axis=0)
        wraps = (trips[a] > 1) & (trips[b] > 1) & (others < outer_rank)
        double = wraps & (inner_rank == innermost) & (outer_step == 2 * inner_step) & (inner_step < extent)
        same = wraps & (inner_rank < innermost) & (outer_step == inner_step)
        outer_steps = np.prod(np.where(rank < outer_rank, trips, 1), axis=0)
        outer_steps *= np.where(a_is_outer, trips[a], trips[b]) - 1
        row_words = np.asarray(batch.tiles.input2) / extent
        saved[DOUBLE_STEP] += np.where(double, outer_steps * row_words * (extent - inner_step), 0)
        saved[SAME_STEP] += np.where(same, outer_steps * row_words * extent, 0)
    return saved


def with_extra_reuse(batch: Batch) -> Batch:
    """The batch as the model would count it if it saw the reuse that Timeloop sees."""
    traffic, extra = batch.traffic, sum(extra_reuse_words(batch).values())
    fewer = traffic._replace(
        l2_input_fill=_array(traffic.l2_input_fill - extra), l3_input=_array(traffic.l3_input - extra)
    )
    return batch._replace(traffic=fewer)


def replayed_fill_words(batch: Batch, row: int) -> float:
    """Input words fetched by a scratchpad that walks every L3 iteration and keeps just the tile of the one before.

    Each tile is a box over G, N, C, H, V; of a box that moves by m along an axis of extent e, max(0, e - m) stays.
    """
    x2, extents, steps = window(batch)
    trips, rank = np.asarray(batch.mapping.temporal)[3][:, row], np.asarray(batch.mapping.rank)[2][:, row]
    outer_to_inner = np.argsort(rank)
    at = np.indices(trips[outer_to_inner].astype(int)).reshape(8, -1)[np.argsort(outer_to_inner)]
    row_of, column_of = (at[a] * steps[a][row] + at[b] * steps[b][row] for a, b in ((P, R), (Q, S)))
    box = np.array([*x2[[G, N, C], row], *extents[:, row]])
    moves = np.abs(np.diff([*(at[d] * x2[d, row] for d in (G, N, C)), row_of, column_of]))
    kept = np.prod(np.maximum(0, box[:, None] - moves), axis=0)
    return float(np.prod(box) * at.shape[1] - np.sum(kept))


class Difference(NamedTuple):
    """A row on which the model and Timeloop disagree: input words fetched into L2."""

    row: str
    kind: str
    ours: float
    timeloop: float
    explained: float
    """The model's count less the reuse that its class predicts."""
    replayed: float


def find_differences(batch: Batch) -> list[Difference]:
    """Every row whose input fills are not Timeloop's, with its class."""
    ours, theirs = timeloop_columns(batch)["L2_I_fills"], batch.reference.numbers("L2_I_fills")
    extra, explained = extra_reuse_words(batch), timeloop_columns(with_extra_reuse(batch))["L2_I_fills"]
    return [
        Difference(
            row=str(batch.reference.text("id")[row]),
            kind=next((kind for kind, words in extra.items() if words[row] > 0), "unexplained"),
            ours=float(ours[row]),
            timeloop=float(theirs[row]),
            explained=float(explained[row]),
            replayed=replayed_fill_words(batch, int(row)),
        )
        for row in np.flatnonzero(ours != theirs)
    ]


# Agreement.


class Agreement(NamedTuple):
    """How well one quantity follows Timeloop's: over all rows, and over the rows of each layer on each machine."""

    tau: float
    rho: float
    within_tau_mean: float
    within_tau_min: float
    within_rho_mean: float
    within_rho_min: float
    mean_relative_error: float


@dataclass(frozen=True)
class Validation:
    """What the comparison found."""

    op_types: NDArray[np.str_]
    """``[rows]``"""
    left_out: int
    """Rows whose registers hold more than the model's one weight."""
    layers: int
    """Pairs of a layer and a machine."""
    accuracy: Mapping[str, Floats]
    """``[rows]`` of every count and tile size."""
    ranks: Mapping[str, Mapping[str, Agreement]]
    """By accounting, then quantity."""
    differences: Sequence[Difference]
    rounded_cycles: int
    """Rows whose latency differs by up to one cycle."""
    spilling: int
    """Rows whose partial sums leave L1 unfinished."""
    unfit: int
    """Rows that Timeloop holds for valid and the model's capacity rule refuses."""
    unexplained: Sequence[str]
    """Rows whose counts, sizes, cycles or energy differ for a reason that no class names."""

    @property
    def rows(self) -> int:
        """Rows compared."""
        return len(self.op_types)

    @cached_property
    def access_accuracy(self) -> float:
        """Mean over rows and counts of 1 - |ours - theirs| / theirs."""
        return float(np.mean([self.accuracy[name] for names in COUNTS.values() for name in names]))

    @cached_property
    def equal(self) -> Mask:
        """``[rows]`` whether all counts and tile sizes are exactly equal."""
        return np.all([column == 1 for column in self.accuracy.values()], axis=0)


def accuracy(ours: Floats, theirs: Floats) -> Floats:
    """1 - |ours - theirs| / theirs, not below 0; it is 1 only where the two whole numbers are equal."""
    return np.maximum(0.0, 1.0 - np.abs(ours - theirs) / np.maximum(theirs, 1.0))


def agreement(ours: Floats, theirs: Floats, layer: NDArray[np.int64]) -> Agreement:
    """Kendall's tau-b and Spearman's rho; `layer` numbers the layer and machine of every row."""
    within = [(ours[layer == i], theirs[layer == i]) for i in range(layer.max() + 1)]
    taus = [float(kendalltau(*pair).statistic) for pair in within]
    rhos = [float(spearmanr(*pair).statistic) for pair in within]
    return Agreement(
        tau=float(kendalltau(ours, theirs).statistic),
        rho=float(spearmanr(ours, theirs).statistic),
        within_tau_mean=float(np.mean(taus)),
        within_tau_min=min(taus),
        within_rho_mean=float(np.mean(rhos)),
        within_rho_min=min(rhos),
        mean_relative_error=float(np.mean(np.abs(ours / theirs - 1))),
    )


def validate(reference: Reference, energies: Mapping[str, Mapping[str, float]]) -> Validation:
    """Evaluate every row that fits the model, in one batch, and hold the result against Timeloop's."""
    fitting = reference.text("l0_entries") == "1"
    rows = reference.where(fitting)
    batch, hardware = evaluate(rows), shipped_hardware(rows)
    theirs = Cost(rows.numbers("cycles_total"), rows.numbers("energy_total_pJ"))
    accountings = {
        TIMELOOPS: timeloop_cost(batch, energies),
        ONE_WORD: own_cost(batch, hardware._replace(spill_words=_array(1.0))),
        OURS: own_cost(batch, hardware),
    }
    _, layer = np.unique(np.stack([rows.text("layer"), rows.text("config")]), axis=1, return_inverse=True)

    # With the reuse that the classes predict, nothing but rounding may be left.
    explained = with_extra_reuse(batch)
    differs = np.any([words != rows.numbers(name) for name, words in timeloop_columns(explained).items()], axis=0)
    cost = timeloop_cost(explained, energies)
    late_cycles, more_pj = theirs.cycles - cost.cycles, np.abs(theirs.energy_pj - cost.energy_pj)
    unexplained = differs | (late_cycles < 0) | (late_cycles > CYCLE_ROUNDING) | (more_pj > ENERGY_ROUNDING_PJ)

    return Validation(
        op_types=rows.text("op_type"),
        left_out=int(np.sum(~fitting)),
        layers=int(layer.max()) + 1,
        accuracy={name: accuracy(words, rows.numbers(name)) for name, words in timeloop_columns(batch).items()},
        ranks={
            name: {what: agreement(a, b, layer) for what, a, b in zip(QUANTITIES, ours, theirs, strict=True)}
            for name, ours in accountings.items()
        },
        differences=find_differences(batch),
        rounded_cycles=int(np.sum(late_cycles > 0)),
        spilling=int(np.sum(np.asarray(batch.tiles.spills) > 0)),
        unfit=int(np.sum(~fits(batch, hardware))),
        unexplained=[str(name) for name in rows.text("id")[unexplained]],
    )


# Telling.


class Sheet(NamedTuple):
    """A table to print: the first column is text, the others are aligned right."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def accuracy_by_op(validation: Validation) -> Sheet:
    """Access and size accuracy by operator type, level and tensor."""
    groups = {**COUNTS, "tiles": SIZES}

    def cell(values: Floats) -> str:
        unequal = int(np.sum(np.any(values != 1, axis=0)))
        return f"{np.mean(values):.2%} ({unequal})" if unequal else "100%"

    def line(name: str, of: Mask) -> list[str]:
        cells = [cell(np.array([validation.accuracy[n][of] for n in names])) for names in groups.values()]
        return [name, f"{np.sum(of):,}", f"{np.sum(validation.equal[of]):,}", *cells]

    ops = [line(str(op), validation.op_types == op) for op in np.unique(validation.op_types)]
    return Sheet(
        "Accuracy by operator type",
        ("operator", "rows", "all equal", *groups),
        [*ops, line("all", np.ones(validation.rows, dtype=bool))],
        "Mean accuracy of the counts of each level and tensor, and of the tile sizes; in brackets, how many rows are "
        "not exactly equal. All equal: rows on which all 13 counts and 4 tile sizes are the same whole numbers.",
    )


def accuracy_by_count(validation: Validation) -> Sheet:
    """Accuracy of every single count and tile size."""
    return Sheet(
        "Accuracy by count",
        ("Timeloop's column", "rows equal", "share equal", "mean accuracy", "lowest"),
        [
            (name, f"{np.sum(a == 1):,}", f"{np.mean(a == 1):.2%}", f"{np.mean(a):.4%}", f"{np.min(a):.2%}")
            for name, a in validation.accuracy.items()
        ],
    )


def rank_agreement(validation: Validation) -> Sheet:
    """Rank correlation by accounting and quantity."""
    return Sheet(
        "Rank agreement with Timeloop",
        ("accounting", "of", "tau", "rho", "mean tau", "min tau", "mean rho", "min rho", "mean error"),
        [
            *(
                (name, what, *(f"{number:.4f}" for number in found[:-1]), f"{found.mean_relative_error:.4%}")
                for name, quantities in validation.ranks.items()
                for what, found in quantities.items()
            ),
            *(("the paper's model", what, f"{tau:.4f}", *["-"] * 6) for what, tau in PAPER_TAU.items()),
        ],
        f"Kendall's tau-b and Spearman's rho over all rows, then their mean and minimum within the {validation.layers} "
        "sets of rows that share a layer and a machine; last, the mean relative difference.",
    )


def classes(validation: Validation) -> Sheet:
    """Classes of disagreement, and how many rows fall into each."""
    return Sheet(
        "Classes of disagreement, with Timeloop's accounting",
        ("class", "rows"),
        [
            ("counts and tile sizes exactly equal", f"{np.sum(validation.equal):,}"),
            *((f"{kind}: Timeloop fetches less input", str(n)) for kind, n in class_sizes(validation).items()),
            ("rounding: Timeloop's latency is up to one cycle longer", f"{validation.rounded_cycles:,}"),
            ("unexplained", str(len(validation.unexplained))),
        ],
        "The first three add up to all rows; rounding is counted apart from them, after the reuse of the classes is "
        "taken off the model's counts. Then all counts are equal on all rows, cycles agree to within "
        f"{CYCLE_ROUNDING:.0f} and energies to within {ENERGY_ROUNDING_PJ} pJ, the table's own rounding.",
    )


def differing_rows(validation: Validation) -> Sheet:
    """The rows that disagree."""
    return Sheet(
        "Every row that differs: input words fetched into L2",
        ("row", "class", "model", "Timeloop", "model less class", "replayed"),
        [(d.row, d.kind, *(f"{words:,.0f}" for words in d[2:])) for d in validation.differences],
        "Replayed: every L3 iteration walked one by one, with a scratchpad that keeps the tile of the one before.",
    )


SHEETS = (accuracy_by_op, accuracy_by_count, rank_agreement, classes, differing_rows)


def class_sizes(validation: Validation) -> dict[str, int]:
    """Rows of each class whose counts differ."""
    return {kind: sum(d.kind == kind for d in validation.differences) for kind in EXPLANATIONS}


def summary(validation: Validation) -> str:
    """The findings in a few sentences."""
    latency, energy = validation.ranks[TIMELOOPS].values()
    return (
        f"{validation.rows:,} mappings of {validation.layers} pairs of a layer and a machine are compared; "
        f"{validation.left_out:,} more are left out, since their registers hold 64 weights and the model's hold one. "
        f"Access accuracy is {validation.access_accuracy:.4%} (the paper's: {PAPER_ACCESS_ACCURACY:.0%}); "
        f"{np.sum(validation.equal):,} rows are equal in every count and tile size. The model's capacity rule refuses "
        f"{validation.unfit} of the mappings. With Timeloop's accounting tau is {latency.tau:.4f} for latency and "
        f"{energy.tau:.4f} for energy, at least {latency.within_tau_min:.4f} and {energy.within_tau_min:.4f} within "
        f"every layer; with ours, {validation.ranks[OURS]['latency'].tau:.4f} and "
        f"{validation.ranks[OURS]['energy'].tau:.4f} (the paper's: {PAPER_TAU['latency']:.4f} and "
        f"{PAPER_TAU['energy']:.4f})."
    )


def explanation(validation: Validation) -> list[str]:
    """Where the two models differ and why, as paragraphs for the model's documentation."""
    paragraphs = [
        "All counts and tile sizes of W and O, the array's reads of I and the tile sizes of I are equal on every one "
        f"of {validation.rows:,} rows; fills of I on all but {len(validation.differences)}. These fall into two "
        "classes, both of two L3 loops over one axis of the input. In both, the model's count less the reuse that the "
        "class predicts is Timeloop's, to the word.",
    ]
    for kind, text in EXPLANATIONS.items():
        found = [d for d in validation.differences if d.kind == kind]
        above = max((d.ours / d.timeloop - 1 for d in found), default=0.0)
        replayed = sum(d.replayed == d.ours for d in found)
        less = sum(d.replayed < d.timeloop for d in found)
        paragraphs.append(
            f"**{kind.capitalize()}** (rows: {len(found)}; fills of I up to {above:.1%} above Timeloop's). {text} "
            f"Walking every iteration one by one gives the model's count on {replayed} of {len(found)}, and fewer "
            f"words than either on {less}."
        )
    one_word, ours = validation.ranks[ONE_WORD], validation.ranks[OURS]
    return [
        *paragraphs,
        f"**Rounding** (rows: {validation.rounded_cycles:,}). The model's cycles are real numbers; Timeloop divides in "
        "floating point and rounds up to whole cycles, so its latency is from 0 to 1 cycle longer. Energies agree to "
        "the rounding of the table.",
        "**Accounting.** Three rules differ by intent, and the project keeps its own. *Spills*: a partial sum that "
        "leaves L1 is 32 bits wide and counts four words at L3; Timeloop counts one. *Drains*: an output on its way "
        "out is read from L1; Timeloop does not count that read. *Energies*: the project has one number per level, "
        "Timeloop one for reads and one for writes. Spills matter most here, because random mappings spill on "
        f"{validation.spilling / validation.rows:.0%} of the rows: counting them as four words takes tau from "
        f"{one_word['latency'].tau:.4f} to {ours['latency'].tau:.4f} for latency and from {one_word['energy'].tau:.4f} "
        f"to {ours['energy'].tau:.4f} for energy.",
    ]


def markdown(validation: Validation) -> str:
    """The findings as a page of documentation."""
    method = (
        "Timeloop v3.0.3 evaluated random valid mappings of 14 kinds of operators on the two Gemminis; the model "
        "evaluates the same mappings. *Accuracy* of a count is 1 - |ours - theirs| / theirs, not below 0, and 1 where "
        "both are 0. *Access accuracy* is its mean over all rows and all 13 counts (one per level, tensor and "
        "direction), each of equal weight. *Timeloop's accounting* is the model with the tool's counting rules, "
        "energies and bandwidths put in; *ours* is the model as the project uses it, with the shipped hardware files."
    )
    blocks = ["# The model against Timeloop", "This page is made by", f"    {COMMAND}"]
    blocks += [_wrap(summary(validation)), _wrap(method)]
    for sheet in (make(validation) for make in SHEETS):
        blocks += [f"## {sheet.title}", _markdown_table(sheet), *([_wrap(sheet.note)] if sheet.note else [])]
    blocks += ["## Where the two differ, and why", *map(_wrap, explanation(validation))]
    return "\n\n".join(blocks) + "\n"


def _wrap(text: str) -> str:
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _markdown_table(sheet: Sheet) -> str:
    lines = (sheet.header, ("---", *["---:"] * (len(sheet.header) - 1)), *sheet.rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rich_table(sheet: Sheet) -> Table:
    table = Table(title=sheet.title, caption=sheet.note or None, title_justify="left", caption_justify="left")
    for i, name in enumerate(sheet.header):
        table.add_column(name, justify="right" if i else "left")
    for row in sheet.rows:
        table.add_row(*row)
    return table


def as_json(validation: Validation) -> dict[str, Any]:
    """The findings as plain JSON values."""
    return {
        "rows": validation.rows,
        "left_out": validation.left_out,
        "access_accuracy": validation.access_accuracy,
        "rows_equal": int(np.sum(validation.equal)),
        "mean_accuracy": {name: float(np.mean(column)) for name, column in validation.accuracy.items()},
        "share_equal": {name: float(np.mean(column == 1)) for name, column in validation.accuracy.items()},
        "ranks": {
            name: {what: found._asdict() for what, found in quantities.items()}
            for name, quantities in validation.ranks.items()
        },
        "classes": class_sizes(validation),
        "differences": [difference._asdict() for difference in validation.differences],
        "rounded_cycles": validation.rounded_cycles,
        "spilling": validation.spilling,
        "unfit": validation.unfit,
        "unexplained": list(validation.unexplained),
    }


def main(
    json_text: Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")] = False,
    markdown_file: Annotated[Path | None, typer.Option("--markdown", help="Write the page of documentation.")] = None,
) -> None:
    """Compare the model with Timeloop on every reference row."""
    validation = validate(read_reference(ROWS), read_energies(ENERGIES))
    if markdown_file is not None:
        write_text(markdown_file, markdown(validation))
    if json_text:
        print(json.dumps(as_json(validation), indent=1))
        return
    console = Console()
    console = console if console.is_terminal else Console(width=PLAIN_WIDTH)
    for make in SHEETS:
        console.print(_rich_table(make(validation)), "")
    console.print(summary(validation), highlight=False)


if __name__ == "__main__":
    typer.run(main)
