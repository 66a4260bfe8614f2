"""Searches over machines that ask for the score of one machine after another: opponents of the descent.

A sampler is a generator. It yields a machine and is sent its score, as long as it has any to ask about. All of them
draw from a unit cube (:mod:`.cube`), whose every point is a machine within the area.

*uniform*: any point. *filling*: any point, and machines fill the area. *tpe*: Optuna's tree-structured Parzen
estimator, whose parameters are the coordinates. *bayesian*: a Gaussian process over the cube and log expected
improvement, by BoTorch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from importlib.util import find_spec
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.codesign.cube import Cube

if TYPE_CHECKING:
    from fadiff.hardware.space import Values
    from fadiff.search.codesign.question import Question

    Sampler = Generator[Values, float, None]
    """Yields machines, and is sent their scores."""

DESIGN = 6
"""Machines before the first model."""
DRAWN, AROUND, PARENTS = 512, 512, 4
"""Points whose expected improvement is computed: random ones, and some around the best few."""
SPREAD = 0.1
"""Standard deviation of these, in sides of the cube."""
PROMISING = 64
"""The search ends where so many of the most promising points stand for machines that are known."""
FIT_ITERATIONS = 40


def uniform(question: Question, seed: int) -> Sampler:
    """Random machines within the area."""
    return _random(Cube(question), seed)


def filling(question: Question, seed: int) -> Sampler:
    """Random machines that fill the area."""
    return _random(Cube(question, fills=True), seed)


def _random(cube: Cube, seed: int) -> Sampler:
    random = np.random.default_rng(seed)
    while True:
        yield cube.machine(random.random(len(cube.counts)).tolist())


def tpe(question: Question, seed: int) -> Sampler:
    """Optuna's estimator."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        # What Optuna calls experimental is its interface, which it may change.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=DESIGN)
    study = optuna.create_study(sampler=sampler)
    cube, numbers = Cube(question), question.space.numbers
    while True:
        trial = study.ask()
        point = [
            trial.suggest_float(number.name, 0.0, 1.0)
            if count is None
            else (trial.suggest_int(number.name, 0, count - 1) + 0.5) / count
            for number, count in zip(numbers, cube.counts, strict=True)
        ]
        score = yield cube.machine(point)
        if isfinite(score):
            study.tell(trial, score)
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)


def bayesian(question: Question, seed: int) -> Sampler:
    """A Gaussian process over the cube."""
    with warnings.catch_warnings():
        # A library below BoTorch compiles a few functions on import, in a way that newer versions of PyTorch regret.
        warnings.filterwarnings("ignore", r"`torch\.jit\.script", DeprecationWarning)
        from fadiff.search.evolutionary.gaussian import Surrogate

    cube, random = Cube(question), np.random.default_rng(seed)
    dims = len(cube.counts)
    points, scores = list[list[float]](), list[float]()
    known: set[Values] = set()
    model: Surrogate | None = None
    while True:
        point = cube.snapped(random.random(dims).tolist())
        if len(scores) >= DESIGN and len(set(scores)) > 1:
            model = Surrogate(np.array(points), np.array(scores), FIT_ITERATIONS, seed, model)
            best = np.array(points)[np.argsort(scores, kind="stable")[:PARENTS]]
            around = best[random.integers(len(best), size=AROUND)] + SPREAD * random.normal(size=(AROUND, dims))
            drawn = np.concatenate([random.random((DRAWN, dims)), around]).clip(0, 1)
            tried = np.array([cube.snapped(u) for u in drawn])
            gains = model.log_expected_improvement(tried, min(scores))
            ranked = (tried[i].tolist() for i in np.argsort(-gains, kind="stable")[:PROMISING])
            new = next((u for u in ranked if cube.machine(u) not in known), None)
            if new is None:
                return
            point = new
        values = cube.machine(point)
        score = yield values
        known.add(values)
        if isfinite(score):
            points.append(point)
            scores.append(score)


class Sampled(NamedTuple):
    """A sampler, and the packages of the extra `baselines` that it needs."""

    start: Callable[[Question, int], Sampler]
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> str | None:
        """What it needs and is not installed."""
        return next((package for package in self.needs if find_spec(package) is None), None)


SAMPLERS = {
    "uniform": Sampled(uniform),
    "filling": Sampled(filling),
    "tpe": Sampled(tpe, ("optuna",)),
    "bayesian": Sampled(bayesian, ("botorch", "gpytorch")),
}
"""Samplers by name."""
