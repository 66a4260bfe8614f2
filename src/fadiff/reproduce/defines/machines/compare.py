"""Our schedules of a network on a machine beside DeFiNES'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fadiff.reproduce.defines.machines.causes import Pair
from fadiff.reproduce.defines.machines.reference import BEST, SINGLE, TILED, WHOLE, Row

NAMES = {SINGLE: "single layers", WHOLE: "layer by layer", TILED: "depth first, ", BEST: "best"}


@dataclass(frozen=True)
class Comparison:
    """A network on a machine: all schedules of both."""

    machine: str
    workload: str
    ours: Sequence[Row]
    theirs: Sequence[Row]

    def __str__(self) -> str:
        return f"{self.workload}, {self.machine}"

    @cached_property
    def pairs(self) -> dict[str, Pair]:
        """All that is compared, by name.

        Of the best schedules ours is that of the free search, and DeFiNES' the one of least energy in its table.
        """
        same = {(row.schedule, row.tile): row for row in self.theirs if row.overlap_mode in ("none", "fully_cached")}
        found = {NAMES[row.schedule] + told_tile(row): (row, same.get((row.schedule, row.tile))) for row in self.ours}
        found[NAMES[BEST]] = found[NAMES[BEST]][0], min(self.theirs, key=lambda row: row.energy_pj)
        all_bytes = same[SINGLE, None].output_bytes
        return {
            name: Pair(ours, theirs, all_bytes - theirs.output_bytes)
            for name, (ours, theirs) in found.items()
            if theirs is not None
        }

    @property
    def single(self) -> Pair:
        """Every layer on its own."""
        return self.pairs[NAMES[SINGLE]]

    @property
    def whole(self) -> Pair | None:
        """Whole maps, kept on chip where they fit; None where DeFiNES has no such row."""
        return self.pairs.get(NAMES[WHOLE])

    @property
    def tiled(self) -> list[Pair]:
        """Depth first in DeFiNES' tiles, those that fit here."""
        return [pair for pair in self.pairs.values() if pair.ours.schedule == TILED]

    @property
    def best(self) -> Pair:
        """The least energy of all."""
        return self.pairs[NAMES[BEST]]

    @property
    def gains(self) -> tuple[float, float]:
        """How many times the energy of the best schedule single layers take, ours and DeFiNES'."""
        single, best = self.single, self.best
        return single.ours.energy_pj / best.ours.energy_pj, single.theirs.energy_pj / best.theirs.energy_pj


def told_tile(row: Row) -> str:
    """Columns and rows of a tile of DeFiNES'; nothing where whole maps run."""
    return "" if row.tile is None else f"{row.tile[0]}x{row.tile[1]}"


def comparisons(ours: Sequence[Row], theirs: Sequence[Row]) -> list[Comparison]:
    """By network and machine, in the order of our rows."""
    cells = dict.fromkeys((row.machine, row.workload) for row in ours)

    def of(rows: Sequence[Row], cell: tuple[str, str]) -> list[Row]:
        return [row for row in rows if (row.machine, row.workload) == cell]

    return [Comparison(*cell, of(ours, cell), of(theirs, cell)) for cell in cells]
