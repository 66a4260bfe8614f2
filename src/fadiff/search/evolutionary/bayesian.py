"""Bayesian optimization with a Gaussian process and log expected improvement, from BoTorch.

*Over what.* The genomes of the genetic algorithm, with layers of the same shape alike, as points of a unit cube
(:mod:`fadiff.search.evolutionary.features`): some 250 dims for ResNet-18 on a Gemmini. A genome is repaired and
priced like every other method's (:mod:`fadiff.search.evolutionary.repair`), and stands in the data as the repaired
one.

*High dimension.* A Matern kernel with one length scale for each dim and BoTorch's priors, which grow with the square
root of the number of dims; and a local search: the process is fitted to a few hundred points, the best and the latest,
and expected improvement is maximized over mutants of the best ones, and mutants of these. There is no global model of
so many dims, and no gradient: factors are whole numbers.

*Batches.* A step prices the genomes of largest log expected improvement all at once. The first design holds the greedy
schedule and random genomes. After many steps without a better schedule a new design of random ones begins.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.driver import Incumbent, Settings, Status
from fadiff.search.evolutionary.breeding import Breeder, Chances
from fadiff.search.evolutionary.features import Features
from fadiff.search.evolutionary.genome import Encoding
from fadiff.search.evolutionary.repair import Population, Repair, offer_best
from fadiff.search.exact.conditions import Task
from fadiff.search.greedy import greedy

with warnings.catch_warnings():
    # A library below BoTorch compiles a few functions on import, in a way that newer versions of PyTorch regret.
    warnings.filterwarnings("ignore", r"`torch\.jit\.script", DeprecationWarning)
    from fadiff.search.evolutionary.gaussian import Surrogate

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    Rows = Int[np.ndarray, "genomes genes"]

    from fadiff.hardware import Machine
    from fadiff.workload import Workload


@dataclass(frozen=True)
class BayesianSettings:
    """Sizes of a step.

    The batch, the training points, the kernel and the changes were chosen on resnet18 and gpt3-6.7b with gemmini-large
    by the EDP after 30 s of CPU time; the centers by that after 60 steps, three seeds each.
    """

    design: int = 64
    """Genomes before the first model."""
    batch: int = 128
    """Genomes priced in a step."""
    steps: int = 400
    training_points: int = 384
    """Points that the process is fitted to at most: half of them the best, half the latest."""
    first_fit_iterations: int = 30
    fit_iterations: int = 8
    """Steps of L-BFGS on the process's parameters, which go on from those of the step before."""
    centers: int = 16
    """Best genomes that expected improvement is maximized around."""
    candidates: int = 1024
    """Genomes whose expected improvement is computed in a round."""
    rounds: int = 3
    """Each round after the first varies the best candidates of those before it."""
    changes: float = 6.0
    """Changes that make a candidate of the genome it comes from, on average."""
    chances: Chances = Chances(move=0.6, copy=0.0)
    """Kinds of these changes; there is nothing to copy between layers that are alike."""
    patience: int = 40
    """Steps without a better schedule before a new design."""


def bayesian(
    workload: Workload,
    machine: Machine,
    settings: Settings,
    incumbent: Incumbent,
    own: BayesianSettings = BayesianSettings(),
) -> Iterator[Status]:
    """The generator behind ``--method bayesian``."""
    random = np.random.default_rng(settings.seed)
    repair = Repair(Encoding(Task(workload, machine, settings.deadline)))
    encoding, features = repair.encoding, Features(repair.encoding)
    breeder = Breeder(encoding, own.chances, features.mapped.tolist())
    best, since = np.inf, 0

    def priced(rows: Rows) -> tuple[Population, Float[np.ndarray, " genomes"]]:
        nonlocal best
        population = repair(rows)
        scores = population.score(settings.objective)
        best = offer_best(repair, population, scores, incumbent, best)
        return population, scores

    def drawn(count: int) -> Rows:
        return features.tied(encoding.random(random, count))

    begin = encoding.of_schedule(greedy(workload, machine))
    data = _Data(features, *priced(np.concatenate([begin, drawn(own.design - 1)])))
    yield Status("design", 1, own.steps)
    if not data.points.shape[1]:
        return
    model: Surrogate | None = None
    for step in range(1, own.steps):
        before = best
        if since == own.patience:
            data, model, since = _Data(features, *priced(drawn(own.design))), None, 0
        else:
            chosen = data.training(own.training_points)
            iterations = own.first_fit_iterations if model is None else own.fit_iterations
            model = Surrogate(data.points[chosen], data.scores[chosen], iterations, settings.seed, model)
            rows = _promising(model, data, breeder, own, random)
            if not len(rows):
                return
            data.extend(rows, *priced(rows))
        since = 0 if best < before else since + 1
        yield Status("model", step + 1, own.steps)


class _Data:
    """Repaired genomes, layers of a shape alike, with their points and scores."""

    def __init__(self, features: Features, population: Population, scores: Float[np.ndarray, " genomes"]) -> None:
        self.features = features
        self.rows = features.tied(population.rows)
        self.points, self.scores = features(self.rows), scores
        self._tried = {row.tobytes() for row in self.rows}

    def extend(self, proposed: Rows, population: Population, scores: Float[np.ndarray, " genomes"]) -> None:
        """Remember what was proposed, and what it was repaired into."""
        repaired = self.features.tied(population.rows)
        self.rows = np.concatenate([self.rows, repaired])
        self.points = np.concatenate([self.points, self.features(repaired)])
        self.scores = np.concatenate([self.scores, scores])
        self._tried.update(row.tobytes() for row in (*proposed, *repaired))

    def new(self, rows: Rows) -> Rows:
        """Those of the genomes that were never tried, each once."""
        keys = [row.tobytes() for row in rows]
        first = dict(zip(reversed(keys), reversed(range(len(keys))), strict=True))
        return rows[sorted(i for key, i in first.items() if key not in self._tried)]

    def training(self, most: int) -> Int[np.ndarray, " some"]:
        """Numbers of the best and of the latest points."""
        latest = np.arange(max(0, self.scores.size - most // 2), self.scores.size)
        return np.union1d(self.best(most // 2), latest)

    def best(self, count: int) -> Int[np.ndarray, " some"]:
        """Numbers of the best points, the very best first."""
        return np.argsort(self.scores, kind="stable")[:count]


def _promising(
    model: Surrogate, data: _Data, breeder: Breeder, own: BayesianSettings, random: np.random.Generator
) -> Rows:
    """New genomes of largest log expected improvement, found by varying the best ones and what came of that."""
    least = float(data.scores.min())
    origin = data.rows[data.best(own.centers)]
    found, worth = origin[:0], np.empty(0)
    for _ in range(own.rounds):
        parents = origin[random.integers(len(origin), size=own.candidates)]
        mutants = data.features.tied(breeder.mutated(random, parents, own.changes, focus=0.0))
        tried = data.new(np.concatenate([found, mutants]))
        # Those of the rounds before come first, and are all new still.
        gains = model.log_expected_improvement(data.features(tried[len(found) :]), least)
        worth = np.concatenate([worth, gains])
        ranked = np.argsort(-worth, kind="stable")[: own.batch]
        found, worth = tried[ranked], worth[ranked]
        origin = found if len(found) else origin
    return found
