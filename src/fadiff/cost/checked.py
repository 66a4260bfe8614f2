"""Schedule files that can be trusted: legal, and with the cost they state."""

from pathlib import Path

from fadiff.cost.evaluate import Evaluation, evaluate
from fadiff.files import FileError
from fadiff.schedule import Schedule
from fadiff.schedule.file import read_schedule, write_schedule
from fadiff.schedule.rules import check_legal

COST_TOLERANCE = 1e-6
"""Largest relative difference between the cost a file states and the model's."""


def load_schedule(path: Path | str) -> Schedule:
    """Read a schedule file; refuse it where it breaks a rule or states a wrong cost."""
    path = Path(path)
    schedule, stated = read_schedule(path)
    check_legal(schedule, path)
    computed = evaluate(schedule).stated()
    if schedule.bound is not None:
        if schedule.bound.exact_factors and not schedule.exact_factors:
            raise FileError(
                f"{path}: bound.exact_factors: the bound is one of exact factors, but not all of the file divide: "
                "remove the bound, and prove it anew with fadiff bound"
            )
        for key, cost in computed.model_dump().items():
            value: float = getattr(schedule.bound, key)
            if value > cost * (1 + COST_TOLERANCE):
                raise FileError(
                    f"{path}: bound.{key}: the file states that no schedule is below {value:.9g}, but its own is, with "
                    f"{cost:.9g}: remove the bound, and prove it anew with fadiff bound"
                )
    if stated is not None:
        for key, value in stated.model_dump().items():
            expected: float = getattr(computed, key)
            if abs(value - expected) > COST_TOLERANCE * abs(expected):
                raise FileError(
                    f"{path}: cost.{key}: the file states {value:.9g}, the model computes {expected:.9g}: "
                    "remove the cost to have it computed, or find out what changed"
                )
    return schedule


def save_schedule(path: Path | str, schedule: Schedule) -> Evaluation:
    """Write a schedule file with its cost; an illegal schedule is never written."""
    check_legal(schedule)
    evaluation = evaluate(schedule)
    write_schedule(Path(path), schedule, evaluation.stated())
    return evaluation
