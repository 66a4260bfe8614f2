"""What tests of the page share: quick stand-ins for the two analyses that search and compile, and schedules to show."""

from contextlib import contextmanager
from pathlib import Path

import pytest

from fadiff import (
    Dims,
    Group,
    Input,
    Layer,
    Mapping,
    Schedule,
    Workload,
    evaluate,
    greedy,
    load_hardware,
    load_schedule,
)
from fadiff.cost import Evaluation
from fadiff.report.compare import compare_schedules
from fadiff.report.html import payload as payload_module
from fadiff.report.html import report_html
from fadiff.report.opponents import Opponents
from fadiff.report.search_trace import SearchTrace, parse_trace
from fadiff.report.what_if import Sensitivity, WhatIf
from fadiff.report.why_not import Merged, NotFused
from fadiff.workload.zoo.cnn import resnet

SCHEDULES = Path(__file__).resolve().parents[2] / "data" / "schedules"
HOSTILE = "</script><script>alert(1)</script>\"'<!--&amp;"
"""A name that would end the script or an attribute if it were not escaped."""


def why_not(evaluation: Evaluation) -> tuple[NotFused, ...]:
    """A reason of each kind in turn, for every tensor that is not fused."""
    schedule = evaluation.schedule
    apart = [edge for edge in schedule.workload.edges if not schedule.is_fused(edge)]
    merged = Merged(("a", "b"), {"P": 4}, 5000, 1_258_291, 4_823_449, 0.012, 0.02, 0.031)
    return tuple(
        NotFused(
            edge.source,
            edge.target,
            edge.port,
            schedule.workload[edge.source].stored_words,
            "no gain" if i % 2 else "capacity",
            "its buffers need more",
            "would save 1.2 MB but refetch 4.6 MB of weights" if i % 2 else "needs 96 KB more L2",
            None if i % 2 else 98304,
            None,
            merged if i % 2 else None,
        )
        for i, edge in enumerate(apart)
    )


def what_if(evaluation: Evaluation) -> WhatIf:
    """Two sensitivities, one of a fixed schedule and one of a mapping that follows."""
    fixed = Sensitivity(
        "l3_pj", "DRAM energy", "pJ/word", 100.0, "fixed schedule", 0.39, 0.39, 0.0, 0.39, 1e6, 0.39, None, "stays"
    )
    follows = Sensitivity(
        "l2_bytes",
        "L2 capacity",
        "bytes",
        524288.0,
        "mapping follows",
        -0.05,
        -0.03,
        -0.02,
        None,
        -3.0,
        None,
        0.02,
        "grow",
    )
    return WhatIf(evaluation.edp_uj_cycles, (fixed, follows), "All numbers are local.")


@contextmanager
def quick_analyses():
    """Leave out what takes seconds: the rest of the payload is real."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payload_module, "why_not", why_not)
        patch.setattr(payload_module, "what_if", what_if)
        yield


def rivals(schedule: Schedule) -> Opponents:
    """The greedy schedule in both places."""
    price = evaluate(greedy(schedule.workload, schedule.hardware))
    return Opponents(price, price)


def trace() -> SearchTrace:
    """A search with a descent in it."""
    numbers = (
        (0.1, "greedy", None, None, 4e9, 0),
        (1.5, "map", None, None, 3e9, 0),
        (4.0, "fuse", None, None, 2e9, 7),
        (6.0, "descend", 0.8, 0.25, 2e9, 7),
        (8.0, "descend", 0.1, 0.75, 1.5e9, 9),
    )
    points = ", ".join(
        f'{{"seconds": {s}, "phase": "{phase}", "step": 0, "temperature": {"null" if t is None else t}, '
        f'"legal_share": {"null" if legal is None else legal}, "best_edp_uj_cycles": {edp}, "fused_edges": {fused}, '
        f'"restart_edp_uj_cycles": {"null" if t is None else [5e9 * t, 2e9, 3e9]}}}'
        for s, phase, t, legal, edp, fused in numbers
    )
    text = f'{{"format": "fadiff-trace/1", "made_by": {{"method": "gradient", "seed": 0}}, "points": [{points}]}}'
    return parse_trace(text, "trace")


def page(schedule: Schedule, *, searched: bool = False, other: Schedule | None = None) -> str:
    """The page of a schedule, with quick analyses."""
    with quick_analyses():
        return report_html(
            evaluate(schedule),
            rivals(schedule),
            trace=trace() if searched else None,
            comparison=None if other is None else compare_schedules(evaluate(other), evaluate(schedule)),
        )


def small() -> Schedule:
    """A residual block of four layers, fused."""
    return load_schedule(SCHEDULES / "small" / "r1_resid.json")


def large() -> Schedule:
    """A network of 29 layers in two groups."""
    return load_schedule(SCHEDULES / "resnet18.gemmini-large.fused.json")


def long() -> Schedule:
    """A residual network of 206 layers, nothing fused."""
    network = resnet("resnet152", (3, 8, 36, 3), bottleneck=True, batch=1, size=64)
    return greedy(network, load_hardware("gemmini-large"))


def hostile() -> Schedule:
    """Two layers with names that are markup."""
    first = Layer(HOSTILE, "mac", Dims(N=4, K=8, C=8), (Input(None),))
    second = Layer(f"b{HOSTILE}", "mac", Dims(N=4, K=8, C=8), (Input(HOSTILE),))
    workload = Workload(f"net {HOSTILE}", (first, second))
    mapping = Mapping(spatial=Dims(K=8, C=8), l0=Dims(N=4))
    made_by = {"method": HOSTILE, "command": f"fadiff optimize '{HOSTILE}'"}
    groups = (Group((first.name,)), Group((second.name,)))
    machine = load_hardware("gemmini-small")
    return Schedule(workload, machine, groups, {first.name: mapping, second.name: mapping}, made_by)


WORDY = "StatefulPartitionedCall/MODEL/block_{0}_expand_BN/FusedBatchNormV3;model/block_{0}_depthwise/Conv2D_{0}"
"""Names as converters make them: long, alike, and in wide letters."""


def wordy() -> Schedule:
    """A chain of layers with such names, nothing fused."""
    names = [WORDY.format(i) for i in range(8)]
    sources = [None, *names[:-1]]
    layers = (
        Layer(name, "mac", Dims(N=4, K=8, C=8), (Input(source),)) for name, source in zip(names, sources, strict=True)
    )
    return greedy(Workload("wordy", tuple(layers)), load_hardware("gemmini-small"))
