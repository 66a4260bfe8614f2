"""The one call that finds a schedule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from fadiff.cost import Evaluation, load_schedule
from fadiff.errors import FadiffError, pip_install
from fadiff.hardware import Machine, load_machine
from fadiff.schedule import Schedule
from fadiff.schedule.constraints import Constraints
from fadiff.schedule.constraints_written import all_asked
from fadiff.search.driver import Incumbent, Limits, Method, Result, Settings, Status, search
from fadiff.search.objective import EDP, Objective
from fadiff.workload import Workload, load_model

if TYPE_CHECKING:
    from fadiff.search.exact.lessons import Lessons

DEFAULT_BUDGET_SECONDS = 60.0
DEFAULT_METHOD = "exact"


def _only_greedy(workload: Workload, machine: Machine, settings: Settings, incumbent: Incumbent) -> Iterator[Status]:
    """The driver starts from the greedy schedule, so there is nothing left to do."""
    return iter(())


def _lazily(module: str, name: str, extra: str = "", *, compiles: bool = True) -> Method:
    """A method of a module that is imported when the method first runs; `extra` names what it needs installed.

    Where it compiles nothing, JAX is not loaded: that takes longer than many a search.
    """

    def method(workload: Workload, machine: Machine, settings: Settings, incumbent: Incumbent) -> Iterator[Status]:
        try:
            found: Method = getattr(import_module(f"fadiff.search.{module}"), name)
        except ModuleNotFoundError as missing:
            if not extra or missing.name is None or missing.name.startswith("fadiff"):
                raise
            raise FadiffError(f"method {name!r} needs {missing.name}: run {pip_install(extra)}") from None
        steps = found(workload, machine, settings, incumbent)
        if not compiles:
            return steps
        from fadiff.search.programs import stepwise

        return stepwise(steps)

    return method


METHODS: dict[str, Method] = {
    "exact": _lazily("exact.steps", "exact", compiles=False),
    "joint": _lazily("joint", "joint"),
    "descent": _lazily("joint", "descent"),
    "layerwise": _lazily("layerwise", "layerwise"),
    "layerwise-tuned": _lazily("layerwise", "layerwise_tuned"),
    "genetic": _lazily("evolutionary.genetic", "genetic", extra="baselines"),
    "bayesian": _lazily("evolutionary.bayesian", "bayesian", extra="baselines"),
    "random": _lazily("evolutionary.random_search", "random_search"),
    "greedy": _only_greedy,
}
"""Search methods by name."""
ALIASES = {"climb": "exact", "gradient": "joint"}
"""Former names."""
PROVEN_METHODS = frozenset({"exact", "joint"})
"""Methods whose results are meant to be the best there are: `fadiff optimize` proves how near they come."""
CHARGED_METHODS = frozenset({"exact", "joint", "descent", "greedy"})
"""Methods that follow an objective's charges, or offer a schedule without looking at the objective."""
EXACT_FACTOR_METHODS = frozenset({"exact", "greedy"})
"""Methods that can keep to factors which divide."""
MOST_RESTARTS = {"layerwise": 256, "genetic": 256}
"""Restarts of methods that run all of them at once: more would not fit in memory, or not take a step in minutes."""
UNFUSED_METHODS = frozenset({"layerwise", "layerwise-tuned", "greedy"})
"""Methods that never fuse."""


def optimize(
    model: Workload | str,
    hardware: Machine | str,
    *,
    method: str = DEFAULT_METHOD,
    budget_seconds: float = DEFAULT_BUDGET_SECONDS,
    proof_follows: bool = False,
    seed: int = 0,
    restarts: int | None = None,
    objective: Objective | str = EDP,
    limits: Limits = Limits(),
    exact_factors: bool = False,
    constraints: Constraints = Constraints(),
    start: Schedule | str | Path | None = None,
    lessons: Lessons | None = None,
    watch: Callable[[Status, Incumbent, float], None] | None = None,
) -> Result:
    """Find a schedule of a network on a machine, each given as a value, a name or a file.

    It is the best that was found within the limits of energy and latency, if there are any. With `exact_factors` all
    tiles divide their dims: for hardware or code that has no cut ends.

    From `start`, a schedule or a file of one, also of another batch, network or machine, carries over what can
    (``result.carried``). Of the same network and machine, or a multiple of the batch, the result is never worse.

    Searches of one network on machines of one kind, which differ in sizes, rates and energies, may be given the same
    `lessons`, at first empty: methods `exact` and `joint` fill them with what the first search finds out, and the
    others take a fraction of its time. What they find depends on the first one, too.

    Where a `proof_follows` in what is left of the budget, the search leaves a tenth of it at least, and all of it where
    half is over and the last half of its own time brought less than 0.2%.

    `watch` is called after every step with the status, the incumbent and the seconds so far. Same seed, same machine:
    the same schedule, unless the budget ended the search early (``result.stopped``).

    >>> result = optimize("mobilenet_v1", "gemmini-small", method="greedy")
    >>> result.best.edp_uj_cycles == result.greedy.edp_uj_cycles
    True
    """
    objective = Objective.of(objective)
    if not budget_seconds > 0:
        raise FadiffError(f"the budget is {budget_seconds} seconds: it must be positive")
    if restarts is not None and restarts < 1:
        raise FadiffError(f"restarts is {restarts}: it is at least 1")
    if restarts is not None and restarts > (most := MOST_RESTARTS.get(method, restarts)):
        raise FadiffError(f"restarts is {restarts}: method {method!r} runs all at once, and at most {most}")
    for what, limit, unit in (("energy", limits.energy_pj * 1e-6, "uJ"), ("latency", limits.cycles, "cycles")):
        if not limit > 0:
            raise FadiffError(f"the {what} is limited to {limit:g} {unit}: the limit must be positive")
    if limits != Limits() and ALIASES.get(method, method) not in PROVEN_METHODS:
        raise FadiffError(f"method {method!r} keeps no limits: use one of {', '.join(sorted(PROVEN_METHODS))}")
    if objective.charges and ALIASES.get(method, method) not in CHARGED_METHODS:
        raise FadiffError(f"method {method!r} knows no charges: use one of {', '.join(sorted(CHARGED_METHODS))}")
    if exact_factors and ALIASES.get(method, method) not in EXACT_FACTOR_METHODS:
        told = ", ".join(sorted(EXACT_FACTOR_METHODS))
        raise FadiffError(f"method {method!r} may cut tiles at their ends: for exact factors use one of {told}")
    workload = load_model(model) if isinstance(model, str) else model
    machine = load_machine(hardware) if isinstance(hardware, str) else hardware
    constraints.check(workload, machine)
    given = start if start is None or isinstance(start, Schedule) else load_schedule(start)
    settings = Settings(seed, restarts, objective, limits, exact_factors, given, constraints, lessons)
    found = search(
        workload,
        machine,
        find_method(method),
        settings,
        budget_seconds=budget_seconds,
        proof_follows=proof_follows,
        watch=watch,
    )
    if limits.excess(found.best):
        raise FadiffError(_over(found.best, limits))
    made_by = {"version": version("fadiff-scheduler"), "method": ALIASES.get(method, method), "seed": seed}
    schedule = replace(found.schedule, made_by=made_by, asked=all_asked(constraints.given))
    return replace(found, best=replace(found.best, schedule=schedule))


def _over(best: Evaluation, limits: Limits) -> str:
    """What no schedule was found for."""
    told = [
        f"{what} of at most {limit:,.0f} {unit}, the least that was found is {least:,.0f}"
        for what, limit, least, unit in (
            ("an energy", limits.energy_pj * 1e-6, best.energy_pj * 1e-6, "uJ"),
            ("a latency", limits.cycles, best.cycles, "cycles"),
        )
        if least > limit
    ]
    return f"no schedule was found with {' and '.join(told)}: allow more, or give the search more time"


def find_method(name: str) -> Method:
    """A method by name, or by a former one."""
    if (found := METHODS.get(ALIASES.get(name, name))) is not None:
        return found
    close = get_close_matches(name, [*METHODS, *ALIASES], n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise FadiffError(f"method {name!r} is unknown{hint}: use one of {', '.join(METHODS)}")


def parse_duration(text: str) -> float:
    """Seconds in a duration such as 30s, 1.5m, 500ms or 90.

    >>> parse_duration("1.5m")
    90.0
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)?\s*", text)
    if match is None or not float(match[1]) > 0:
        raise FadiffError(f"budget {text!r} is no duration: write for example 30s, 2m or 500ms")
    return float(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}[match[2] or "s"]
