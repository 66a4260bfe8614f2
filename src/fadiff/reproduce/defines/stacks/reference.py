"""DeFiNES' table of fused stacks: chains of convolutions without padding, each run in many ways."""

from __future__ import annotations

import gzip
from importlib.resources.abc import Traversable
from itertools import combinations
from typing import Literal, NamedTuple

from pydantic import Field, PositiveInt

from fadiff.errors import FadiffError
from fadiff.files import Strict
from fadiff.hardware import Axis, Machine, Memory
from fadiff.reproduce.defines.tables import SHIPPED, TableRow, read_objects, read_rows
from fadiff.workload import Dims, Input, Layer, Workload

TABLE, STACKS = "defines_fusion_reference.csv.gz", "defines_stacks.json"

MACHINE = Machine(
    name="gemmini-of-defines",
    nodes=(
        Memory("DRAM", "WIO", 100, 100, words_per_cycle=8),
        Memory("scratchpad", "WI", 13.357, 13.357, 512 * 1024, words_per_cycle=64, fuses=True),
        Axis("cols", 32, "KG"),
        Memory("accumulator", "O", 2.141, 2.141, 2 * 1024, word_bits=32, words_per_cycle=2),
        Axis("rows", 32, "C"),
        Memory("registers", "W", 0.487, 0.487, 1),
    ),
    mac_pj=0.561,
    overlap="none",
)
"""The machine of the table, as DeFiNES was told of it. DRAM transfers do not hide behind work, as between its tiles."""


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

    def workload(self, name: str) -> Workload:
        """The stack as a network, layers named l0, l1, ..."""
        return Workload(name, tuple(_layer(layer, i) for i, layer in enumerate(self.layers)))


def _layer(layer: StackLayer, i: int) -> Layer:
    groups = layer.C if layer.type == "depthwise" else 1
    width, kernel = layer.out_width, layer.F
    return Layer(
        name=f"l{i}",
        kind="mac",
        dims=Dims(G=groups, K=layer.K // groups, C=layer.C // groups, P=width, Q=width, R=kernel, S=kernel),
        inputs=(Input(f"l{i - 1}" if i else None),),
        stride=(layer.stride, layer.stride),
        pad=(0, 0),
    )


class Row(TableRow):
    """One way to run a stack."""

    stack: str
    n_layers: PositiveInt
    hw: str
    schedule: Literal["single_layer_dram", "layer_by_layer_fulltile", "depth_first"]
    overlap_mode: Literal["none", "fully_cached", "h_cached", "recompute"]
    tile_ox: PositiveInt
    tile_oy: PositiveInt
    final_out: PositiveInt
    """Rows and columns of the last map."""
    criterion: Literal["edp", "energy", "latency"] = Field(alias="mapping_criterion")
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


def read_reference(folder: Traversable = SHIPPED) -> Reference:
    """The table and its stacks."""
    with (folder / TABLE).open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8", newline="") as text:
        rows = read_rows(Row, text, TABLE)
    stacks = read_objects(Stack, folder, STACKS)
    for row in rows:
        if row.stack not in stacks or row.last_layer != stacks[row.stack].last_layer:
            raise FadiffError(
                f"{TABLE}: {STACKS} has no stack {row.stack!r} of {row.n_layers} layers that ends in a map of "
                f"{row.final_out}: add it"
            )
    return Reference(stacks, rows)
