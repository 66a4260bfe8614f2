"""What a search did, from the file that `fadiff optimize --trace` writes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, NonNegativeFloat, NonNegativeInt

from fadiff.file_kinds import TRACE, read_data
from fadiff.files import FileError, Strict, parse, validate


class _PointModel(Strict):
    """One step. Searches may note more than is read here."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)

    seconds: NonNegativeFloat
    phase: str
    best_edp_uj_cycles: NonNegativeFloat
    fused_edges: NonNegativeInt
    temperature: NonNegativeFloat | None = None
    legal_share: NonNegativeFloat | None = None
    restart_edp_uj_cycles: list[NonNegativeFloat] | None = None


class _TraceModel(Strict):
    """The whole file."""

    format: Literal["fadiff-trace/1"]
    made_by: dict[str, str | int]
    points: list[_PointModel]


@dataclass(frozen=True)
class Phase:
    """A stretch of the search in which it did one kind of thing."""

    name: str
    start_seconds: float
    stop_seconds: float


@dataclass(frozen=True)
class SearchTrace:
    """Series over the search, all of one length; None where a phase has no such number."""

    made_by: dict[str, str | int]
    seconds: tuple[float, ...]
    phase: tuple[str, ...]
    best_edp_uj_cycles: tuple[float, ...]
    fused_edges: tuple[int, ...]
    temperature: tuple[float | None, ...]
    legal_share: tuple[float | None, ...]
    restart_edp_uj_cycles: tuple[tuple[float, ...] | None, ...]
    """EDP of what each restart of the descent proposes; not legal yet, so it may lie below every schedule."""
    phases: tuple[Phase, ...]
    """In the order they ran."""
    improvement: float
    """First EDP over last."""


def read_trace(path: Path) -> SearchTrace:
    """Read a trace file; a FadiffError with the place where it is not one."""
    return _series(read_data(path, TRACE), str(path))


def parse_trace(text: str, origin: str) -> SearchTrace:
    """The text of a trace file as values; `origin` names it in errors."""
    return _series(parse(text, origin), origin)


def _series(data: object, origin: str) -> SearchTrace:
    model = validate(_TraceModel, data, origin)
    points = model.points
    if not points:
        raise FileError(f"{origin}: points: the trace is empty: write it with fadiff optimize --trace")
    seconds = tuple(point.seconds for point in points)
    if list(seconds) != sorted(seconds):
        raise FileError(f"{origin}: points: seconds run backwards: was the file edited?")
    edp = tuple(point.best_edp_uj_cycles for point in points)
    return SearchTrace(
        made_by=model.made_by,
        seconds=seconds,
        phase=tuple(point.phase for point in points),
        best_edp_uj_cycles=edp,
        fused_edges=tuple(point.fused_edges for point in points),
        temperature=tuple(point.temperature for point in points),
        legal_share=tuple(point.legal_share for point in points),
        restart_edp_uj_cycles=tuple(
            None if point.restart_edp_uj_cycles is None else tuple(point.restart_edp_uj_cycles) for point in points
        ),
        phases=_phases(points),
        improvement=edp[0] / edp[-1] if edp[-1] else 1.0,
    )


def _phases(points: list[_PointModel]) -> tuple[Phase, ...]:
    """Stretches of equal names; a point is noted when its step ends, so a phase starts where the one before stopped."""
    phases: list[Phase] = []
    start = 0.0
    for name, members in groupby(points, key=lambda point: point.phase):
        stop = [point.seconds for point in members][-1]
        phases.append(Phase(name, start, stop))
        start = stop
    return tuple(phases)
