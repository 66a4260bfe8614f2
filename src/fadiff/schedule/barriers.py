"""Which loops a group may not share, and why: told once, per port and per vector operator.

A loop is barred where a tensor, or an operator's operand, must be complete before it is used. The rule *whole* reports
broken barriers; plans, candidates and penalties of the search keep within them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fadiff.workload import Edge, Workload

OPERATOR_BARS: dict[str, tuple[tuple[str, str], ...]] = {
    "flatten": (("PQ", "needs whole images"), ("GX", "needs all channels")),
    "global_pool": (("PQ", "needs whole images"),),
    "layer_norm": (("GX", "needs all channels"),),
    "softmax": (("X", "needs whole rows"),),
}
"""Shared loops that would cut what an operator of a layer's epilogue needs whole."""
WHOLE_TENSOR = "NPQ"
"""Shared loops that would cut a tensor which its consumer reads as a whole: a weight, or a transposed input."""


class Barrier(NamedTuple):
    """Loops that a group may not share, and why."""

    loops: str
    reason: str


def barriers(
    workload: Workload, members: Sequence[str], fused: Sequence[Edge], *, online_softmax: bool
) -> Iterator[Barrier]:
    """Every barrier in a group; `online_softmax` lifts that of a softmax."""
    for edge in fused:
        if edge.port == "weight":
            yield Barrier(WHOLE_TENSOR, f"{edge.source} is the weight of {edge.target}")
        elif edge.port == "input" and "transpose" in workload[edge.source].epilogue:
            yield Barrier(WHOLE_TENSOR, f"{edge.source} is transposed for {edge.target}")
    for name in members:
        for operator in workload[name].epilogue:
            if operator == "softmax" and online_softmax:
                continue
            for loops, reason in OPERATOR_BARS.get(operator, ()):
                yield Barrier(loops, f"{operator} of {name} {reason}")
