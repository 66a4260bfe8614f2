"""Timeloop's table of random mappings, and its rows as the model's arrays: a row is a layer."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadiff.cost.arrays import Fusion, LayerArrays, MappingArrays
from fadiff.cost.traffic import RELEVANT_O, C, G, P, Q
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jax import Array

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Energies = Mapping[str, Mapping[str, float]]
"""pJ of a MAC and of an access, by machine."""

_DATA = resources.files("fadiff.reproduce") / "data"


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

    def where(self, keep: Mask) -> Reference:
        """Some of the rows."""
        return Reference({name: column[keep] for name, column in self.columns.items()})


def read_reference() -> Reference:
    """All rows of the table."""
    with (
        (_DATA / "timeloop_reference.csv.gz").open("rb") as packed,
        gzip.open(packed, "rt", encoding="utf-8", newline="") as text,
    ):
        header, *rows = csv.reader(text)
    return Reference({name: np.array(column) for name, column in zip(header, zip(*rows, strict=True), strict=True)})


def read_energies() -> Energies:
    """The energies Timeloop was run with."""
    return json.loads((_DATA / "timeloop_ert_values.json").read_text(encoding="utf-8"))


def as_array(values: ArrayLike) -> Array:
    """NumPy values where the model's types say Array: it computes with either."""
    return cast("Array", np.asarray(values))


def as_floats(values: Array) -> Floats:
    """What the model computed, as NumPy values again."""
    return np.asarray(values, dtype=np.float64)


def layer_arrays(reference: Reference) -> LayerArrays:
    """The layer of every row; nothing is folded into it, so |O'| = |O|."""
    size = _by_dim(reference, reference.numbers)
    output_words = as_array(np.prod(size[sorted(RELEVANT_O)], axis=0))
    rows = len(reference)
    return LayerArrays(
        size=as_array(size),
        stride=as_array(np.stack([reference.numbers("stride")] * 2)),
        dilation=as_array(np.ones((2, rows))),
        stored=as_array(size[P : Q + 1]),
        output_words=output_words,
        stored_words=output_words,
        input_channels=as_array(size[G] * size[C]),
        addends=as_array(np.zeros(rows)),
        is_mac=as_array(np.ones(rows, dtype=bool)),
        repeat=as_array(np.ones(rows)),
    )


def mapping_arrays(reference: Reference) -> MappingArrays:
    """The mapping of every row."""
    unrolled = {d: reference.numbers(f"spatial_{d}") for d in "KC"}
    one = np.ones(len(reference))

    def temporal(level: int) -> Floats:
        return _by_dim(reference, lambda d: reference.numbers(f"T{level}_{d}"))

    return MappingArrays(
        spatial=as_array(_by_dim(reference, lambda d: unrolled.get(d, one))),
        temporal=as_array(np.stack([temporal(level) for level in range(4)])),
        rank=as_array(np.stack([_loop_ranks(reference, level) for level in (1, 2, 3)])),
    )


def no_fusion(rows: int) -> Fusion:
    """Every layer on its own: no shared loops, inputs from L3, outputs to L3."""
    zero, one = as_array(np.zeros(rows)), as_array(np.ones(rows))
    return Fusion(
        trips=as_array(np.ones((5, rows))),
        trip_rank=as_array(np.arange(5.0)[:, None] * np.ones(rows)),
        x_trips=as_array(np.ones((2, rows))),
        fused_channels=zero,
        fused_weight=zero,
        fused_addends=zero,
        drained=one,
        copied=zero,
        grouped=zero,
    )


def _by_dim(reference: Reference, column: Callable[[str], Floats]) -> Floats:
    """``[8, rows]`` from a column per dim of Timeloop's seven: a depthwise layer's K is our G."""
    depthwise = reference.text("shape") == "dw"
    k = column("K")
    eight = {d: column(d) for d in "NCPQRS"} | {"G": np.where(depthwise, k, 1), "K": np.where(depthwise, 1, k)}
    return np.stack([eight[d] for d in DIMS])


def _loop_ranks(reference: Reference, level: int) -> Floats:
    """``[8, rows]`` place of each dim's loop, outermost 0, from orders written innermost first.

    The dim that Timeloop does not know (G, or K of a depthwise layer) makes one trip and stands innermost.
    """
    orders = np.array([list(order) for order in reference.text(f"perm_L{level}_inner_to_outer")])
    depthwise = reference.text("shape") == "dw"
    rank = {d: 6.0 - np.argmax(orders == d, axis=1) for d in "NKCPQRS"}
    rank["G"], rank["K"] = np.where(depthwise, rank["K"], 7.0), np.where(depthwise, 7.0, rank["K"])
    return np.stack([rank[d] for d in DIMS])
