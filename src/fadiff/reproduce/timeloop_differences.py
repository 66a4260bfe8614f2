"""Why rows differ: the known classes of disagreement with Timeloop, and a replay that judges between the two."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fadiff.cost.traffic import RELEVANT_I, C, G, N, P, Q, R, S
from fadiff.reproduce.timeloop import Floats, as_array, as_floats
from fadiff.reproduce.timeloop_counts import Batch, timeloop_columns

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
"""Classes of disagreement. In both Timeloop fetches less input than the model."""


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


def with_extra_reuse(batch: Batch) -> Batch:
    """The batch as the model would count it if it saw the reuse that Timeloop sees."""
    traffic, extra = batch.traffic, as_array(sum(extra_reuse_words(batch).values()))
    return batch._replace(
        traffic=traffic._replace(l2_input_fill=traffic.l2_input_fill - extra, l3_input=traffic.l3_input - extra)
    )


def extra_reuse_words(batch: Batch) -> dict[str, Floats]:
    """Input words that Timeloop does not fetch though the model does, by class of disagreement, ``[rows]``.

    Both classes concern two L3 loops over one axis of the input, P and R or Q and S, that both make more than one
    trip, all other running loops that are relevant to I standing outside the outer one of the two. Let the inner one
    move the window of e rows by d, the outer one, with b trips, by D. Then every step of the outer one saves

    .. math:: tile2(I) \\cdot (e - d)/e \\ \\text{(double step: } D = 2d < 2e \\text{, inner loop innermost)}, \\qquad
              tile2(I) \\ \\text{(same step: } D = d \\text{, an irrelevant loop innermost)}

    and it makes (b - 1) such steps for each iteration of the loops outside it.
    """
    trips, rank = as_floats(batch.mapping.temporal)[3], as_floats(batch.mapping.rank)[2]
    _, extents, steps = _window(batch)
    running = np.where(trips > 1, rank, -1)
    innermost = running.max(axis=0)
    saved = {name: np.zeros(trips.shape[1]) for name in EXPLANATIONS}
    for (a, b), extent in zip(((P, R), (Q, S)), extents, strict=True):
        a_is_outer = rank[a] < rank[b]
        outer_rank, inner_rank = np.minimum(rank[a], rank[b]), np.maximum(rank[a], rank[b])
        outer_step, inner_step, outer_trips = np.where(
            a_is_outer, (steps[a], steps[b], trips[a]), (steps[b], steps[a], trips[b])
        )
        others = running[sorted(RELEVANT_I - {a, b})].max(axis=0)
        wraps = (trips[a] > 1) & (trips[b] > 1) & (others < outer_rank)
        double = wraps & (inner_rank == innermost) & (outer_step == 2 * inner_step) & (inner_step < extent)
        same = wraps & (inner_rank < innermost) & (outer_step == inner_step)
        outer_steps = np.prod(np.where(rank < outer_rank, trips, 1), axis=0) * (outer_trips - 1)
        row_words = as_floats(batch.tiles.input2) / extent
        saved[DOUBLE_STEP] += np.where(double, outer_steps * row_words * (extent - inner_step), 0)
        saved[SAME_STEP] += np.where(same, outer_steps * row_words * extent, 0)
    return saved


def replayed_fill_words(batch: Batch, row: int) -> float:
    """Input words fetched by a scratchpad that walks every L3 iteration and keeps just the tile of the one before.

    Each tile is a box over G, N, C, H, V; of a box that moves by m along an axis of extent e, max(0, e - m) stays.
    """
    x2, extents, steps = _window(batch)
    trips, rank = as_floats(batch.mapping.temporal)[3][:, row], as_floats(batch.mapping.rank)[2][:, row]
    outer_to_inner = np.argsort(rank)
    walked = np.indices(tuple(int(count) for count in trips[outer_to_inner])).reshape(8, -1)
    at = walked[np.argsort(outer_to_inner)]
    row_of, column_of = (at[a] * steps[a][row] + at[b] * steps[b][row] for a, b in ((P, R), (Q, S)))
    box = np.array([*x2[[G, N, C], row], *extents[:, row]])
    moves = np.abs(np.diff([*(at[d] * x2[d, row] for d in (G, N, C)), row_of, column_of]))
    kept = np.prod(np.maximum(0, box[:, None] - moves), axis=0)
    return float(np.prod(box) * at.shape[1] - np.sum(kept))


def _window(batch: Batch) -> tuple[Floats, Floats, dict[int, Floats]]:
    """Extents held in L2, ``[8, rows]``; rows and columns of the input tile, ``[2, rows]``; and by how many of them
    a step of each L3 loop over P, Q, R and S moves it."""
    x2 = as_floats(batch.mapping.spatial) * np.prod(as_floats(batch.mapping.temporal)[:3], axis=0)
    stride, dilation = as_floats(batch.layers.stride), as_floats(batch.layers.dilation)
    extents = (x2[[P, Q]] - 1) * stride + (x2[[R, S]] - 1) * dilation + 1
    steps = np.concatenate([x2[[P, Q]] * stride, x2[[R, S]] * dilation])
    return x2, extents, dict(zip((P, Q, R, S), steps, strict=True))
