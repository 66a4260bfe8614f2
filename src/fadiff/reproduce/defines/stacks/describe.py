"""The groups and trip counts that a row of the table describes, or why it is no schedule of ours."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from fadiff.schedule import Group, Trips
from fadiff.schedule.tiling import leads

if TYPE_CHECKING:
    from fadiff.reproduce.defines.stacks.reference import Row, Stack
    from fadiff.workload import Workload


class Reason(StrEnum):
    """Why a row is no schedule of ours."""

    NO_RESULT = "DeFiNES has no result"
    TWICE = "halos are fetched and computed twice (`recompute`)"
    ROWS_TWICE = "halos between rows of tiles are computed twice (`h_cached`)"
    RAGGED = "no trip count cuts the last map into such tiles"
    THROUGH_DRAM = "an intermediate goes through DRAM tile by tile"
    NO_FIT = "no mapping fits (rules *aligned* and *fits*)"


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
    halos = [ahead.halo for both in leads(workload, workload.edges).values() for ahead in both]
    if row.overlap_mode == "h_cached" and any(halos):
        return Reason.ROWS_TWICE
    if leaving != frozenset():
        return Reason.THROUGH_DRAM
    trips = Trips(P=-(-row.final_out // row.tile_oy), Q=-(-row.final_out // row.tile_ox))
    if (-(-row.final_out // trips.P), -(-row.final_out // trips.Q)) != (row.tile_oy, row.tile_ox):
        return Reason.RAGGED
    return (Group(names, trips),)


def _cut(names: tuple[str, ...], leaving: frozenset[int]) -> tuple[Group, ...]:
    """Whole maps, one layer after the other: a group ends where its last tensor leaves the chip."""
    ends = [*(i + 1 for i in sorted(leaving)), len(names)]
    return tuple(Group(names[start:end]) for start, end in zip([0, *ends], ends, strict=False))
