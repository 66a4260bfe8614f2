"""DeFiNES' table of fused stacks, and the groups and trip counts that each of its rows describes.

A stack is a chain of convolutions without padding. A row is one way to run it: every layer on its own
through DRAM, layer by layer with whole maps, or depth-first, tile by tile of the last map through all layers.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from importlib import resources
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from fadiff.errors import FadiffError
from fadiff.files import Strict, parse, validate
from fadiff.hardware import Hardware, Picojoules
from fadiff.schedule import Group, Trips, halos
from fadiff.search.driver import Objective
from fadiff.workload import Dims, Input, Layer, Workload

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

TABLE, STACKS = "defines_fusion_reference.csv.gz", "defines_stacks.json"

MACHINE = Hardware(
    name="gemmini-of-defines",
    rows=32,
    cols=32,
    l1_bytes=64 * 1024,
    l2_bytes=512 * 1024,
    pj=Picojoules(mac=0.561, l0=0.487, l1=2.141, l2=13.357, l3=100),
    overlap="none",
)
"""The machine of the table, as DeFiNES was told of it. DRAM transfers do not hide behind work, as between its tiles."""
OVERLAPPED = replace(MACHINE, overlap="full")
"""The same with the paper's roofline: all transfers hide behind work."""


class StackLayer(Strict):
    """A square convolution without padding."""

    type: Literal["conv", "depthwise"]
    C: PositiveInt
    K: PositiveInt
    F: PositiveInt
    stride: PositiveInt
    out_width: PositiveInt

    @property
    def output_words(self) -> int:
        """Words of its output."""
        return self.K * self.out_width**2


class Stack(Strict):
    """A chain of layers; the other keys of the file follow from them."""

    input_width: PositiveInt
    layers: list[StackLayer] = Field(min_length=1)
    macs: PositiveInt
    weight_bytes: PositiveInt
    df_tiles: list[list[PositiveInt]]

    @property
    def last_layer(self) -> tuple[int, int]:
        """Number of layers, width of the last map."""
        return len(self.layers), self.layers[-1].out_width

    def widths(self, *, padded: bool) -> list[int]:
        """Rows and columns of every layer's output.

        Padded: every layer makes what the next one's stride asks for, as with "same" padding, so that a tile of the
        last map is a whole share of every map.
        """
        exact = [layer.out_width for layer in self.layers]
        if not padded:
            return exact
        widths = exact[-1:]
        for layer in reversed(self.layers[1:]):
            widths.insert(0, widths[0] * layer.stride)
        return widths

    def workload(self, name: str, *, padded: bool) -> Workload:
        """The stack as a network, layers named l0, l1, ..."""
        layers: list[Layer] = []
        for i, (layer, width) in enumerate(zip(self.layers, self.widths(padded=padded), strict=True)):
            groups = layer.C if layer.type == "depthwise" else 1
            layers.append(
                Layer(
                    name=f"l{i}",
                    kind="mac",
                    dims=Dims(
                        G=groups, K=layer.K // groups, C=layer.C // groups, P=width, Q=width, R=layer.F, S=layer.F
                    ),
                    inputs=(Input(f"l{i - 1}" if i else None),),
                    stride=(layer.stride, layer.stride),
                )
            )
        return Workload(name, tuple(layers))


class Row(BaseModel):
    """One row of the table; columns that are not named here follow from them, or are not needed."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    stack: str
    n_layers: PositiveInt
    hw: str
    schedule: Literal["single_layer_dram", "layer_by_layer_fulltile", "depth_first"]
    overlap_mode: Literal["none", "fully_cached", "h_cached", "recompute"]
    tile_ox: PositiveInt
    tile_oy: PositiveInt
    final_out: PositiveInt
    """Rows and columns of the last map."""
    criterion: Objective = Field(alias="mapping_criterion")
    """What DeFiNES chose the mapping of every layer by."""
    latency_cycles: float = 0
    energy_pj: float = Field(0, alias="energy_pJ")
    dram_words: float = Field(0, alias="dram_total_B")
    written_words: float = Field(0, alias="dram_wr_O_B")
    read_back_words: float = Field(0, alias="dram_rd_O_B")
    """Partial sums, among the words written."""
    error: str = ""
    """Why DeFiNES gave no result."""

    @property
    def last_layer(self) -> tuple[int, int]:
        """Number of layers, width of the last map."""
        return self.n_layers, self.final_out

    def leaving(self, stack: Stack) -> frozenset[int] | None:
        """Which intermediates go through DRAM, told by the words written; None where one does so in part.

        Of sets of the same words the first with the fewest layers.
        """
        words = [layer.output_words for layer in stack.layers]
        excess = self.written_words - self.read_back_words - words[-1]
        inner = range(len(words) - 1)
        sets = (set_ for count in range(len(words)) for set_ in combinations(inner, count))
        return next((frozenset(set_) for set_ in sets if sum(words[i] for i in set_) == excess), None)


class Reference(NamedTuple):
    """What DeFiNES was run on, and what it said."""

    stacks: dict[str, Stack]
    rows: list[Row]


def read_reference(folder: Traversable | None = None) -> Reference:
    """The table and its stacks, from another folder than the package's own where one is given."""
    folder = resources.files("fadiff.reproduce") / "data" if folder is None else folder
    with (folder / TABLE).open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8", newline="") as text:
        rows = read_rows(text)
    stacks = {
        name: validate(Stack, stack, f"{STACKS}: {name}")
        for name, stack in parse((folder / STACKS).read_text(encoding="utf-8"), STACKS).items()
    }
    for row in rows:
        if row.stack not in stacks or row.last_layer != stacks[row.stack].last_layer:
            raise FadiffError(
                f"{TABLE}: {STACKS} has no stack {row.stack!r} of {row.n_layers} layers that ends in a map of "
                f"{row.final_out}: add it"
            )
    return Reference(stacks, rows)


def read_rows(lines: Iterable[str]) -> list[Row]:
    """Rows of the table's text; empty cells count as absent."""
    return [
        validate(Row, {name: cell for name, cell in cells.items() if cell}, f"{TABLE}: row {number}")
        for number, cells in enumerate(csv.DictReader(lines), 1)
    ]


class Reason(StrEnum):
    """Why a row is no schedule of ours."""

    NO_RESULT = "DeFiNES has no result"
    TWICE = "halos are fetched and computed twice (`recompute`)"
    ROWS_TWICE = "halos between rows of tiles are computed twice (`h_cached`)"
    RAGGED = "tiles do not divide the last map"
    THROUGH_DRAM = "an intermediate goes through DRAM tile by tile"
    MISALIGNED = "trip counts do not divide every map (rule *aligned*)"
    TOO_LARGE = "no mapping fits (rule *fits*)"


def describe(row: Row, stack: Stack, workload: Workload) -> tuple[Group, ...] | Reason:
    """The groups a row runs, in order, or why it is no schedule of ours.

    Halos of fused tensors are retained here, so `h_cached` can be said where no fused tensor has one: what it fetches
    twice is the halo of the stack's input between rows of tiles, and so does a window that slides along columns.
    """
    names = tuple(layer.name for layer in workload.layers)
    if row.error:
        return Reason.NO_RESULT
    if row.schedule == "single_layer_dram":
        return tuple(Group((name,)) for name in names)
    leaving = row.leaving(stack)
    if row.schedule == "layer_by_layer_fulltile":
        return Reason.THROUGH_DRAM if leaving is None else _cut(names, leaving)
    if row.overlap_mode == "recompute":
        return Reason.TWICE
    if row.overlap_mode == "h_cached" and any(halo != (0, 0) for halo in halos(workload, workload.edges).values()):
        return Reason.ROWS_TWICE
    if row.final_out % row.tile_ox or row.final_out % row.tile_oy:
        return Reason.RAGGED
    if leaving != frozenset():
        return Reason.THROUGH_DRAM
    trips = Trips(P=row.final_out // row.tile_oy, Q=row.final_out // row.tile_ox)
    if any(layer.dims.P % trips.P or layer.dims.Q % trips.Q for layer in workload.layers):
        return Reason.MISALIGNED
    return (Group(names, trips),)


def _cut(names: tuple[str, ...], leaving: frozenset[int]) -> tuple[Group, ...]:
    """Whole maps, one layer after the other: a group ends where its last tensor leaves the chip."""
    ends = [*(i + 1 for i in sorted(leaving)), len(names)]
    return tuple(Group(names[start:end]) for start, end in zip([0, *ends], ends, strict=False))
