"""Bayesian optimization with a Gaussian process and log expected improvement, from BoTorch.

*Over what.* The unit cube of :mod:`fadiff.search.cube`: every distinct layer's tiles, unrolling and shared trips, its
L3 order, and the strength of every edge that may be fused. That is 236 dims for ResNet-18 on gemmini-large and 85 for
GPT-3 6.7B. Equal layers of a network share their numbers. A point is decoded, repaired and priced like every other
method's candidates (:mod:`fadiff.search.repair`), and stands in the data where the repaired schedule stands.

*High dimension.* A Matern kernel with one length scale for each dim and BoTorch's priors, which grow with the square
root of the number of dims; and a local search: the process is fitted to a few hundred points, the best and the latest,
and expected improvement is maximized near the best ones, over points that differ from them in a few dims. There is no
global model of 236 dims, and no gradient: what the numbers pick is piecewise constant.

*Batches.* A step prices the points of largest log expected improvement all at once. The first design holds the greedy
schedule and random points. After many steps without a better schedule a new design of random points begins.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.cube import Cube
from fadiff.search.driver import Incumbent, Settings, Status
from fadiff.search.genome import Encoding
from fadiff.search.greedy import greedy
from fadiff.search.repair import Repair, offer_best

with warnings.catch_warnings():
    # A library below BoTorch compiles a few functions on import, in a way that newer versions of PyTorch regret.
    warnings.filterwarnings("ignore", r"`torch\.jit\.script", DeprecationWarning)
    from fadiff.search.gaussian import Surrogate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fadiff.hardware import Hardware
    from fadiff.workload import Workload

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class BayesianOptions:
    """Sizes of a step.

    The batch, the training points, the kernel and the changes were chosen on resnet18 and gpt3-6.7b with gemmini-large
    by the EDP after 30 s of CPU time; the centers by that after 60 steps, three seeds each.
    """

    design: int = 64
    """Points before the first model."""
    batch: int = 128
    """Points priced in a step."""
    steps: int = 400
    training_points: int = 384
    """Points that the process is fitted to at most: half of them the best, half the latest."""
    first_fit_iterations: int = 30
    fit_iterations: int = 8
    """Steps of L-BFGS on the process's parameters, which go on from those of the step before."""
    centers: int = 16
    """Best points that expected improvement is maximized around."""
    candidates: int = 1024
    """Points whose expected improvement is computed in a round."""
    rounds: int = 3
    """Each round after the first varies the best candidates of those before it."""
    changes: float = 6.0
    """Dims in which a candidate differs from where it comes from, on average."""
    patience: int = 40
    """Steps without a better schedule before a new design."""


def bayesian(
    workload: Workload,
    hardware: Hardware,
    settings: Settings,
    incumbent: Incumbent,
    options: BayesianOptions = BayesianOptions(),
) -> Iterator[Status]:
    """The generator behind ``--method bayesian``."""
    random = np.random.default_rng(settings.seed)
    encoding = Encoding(workload, hardware)
    repair = Repair(encoding, max(options.batch, options.design), settings.deadline)
    cube = Cube(encoding, repair.problem.twin)
    best, since = np.inf, 0

    def priced(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        nonlocal best
        population = repair(cube.genomes(points))
        scores = population.score(settings.objective)
        best = offer_best(repair, population, scores, incumbent, best)
        return cube.points(population.genomes), scores

    start = cube.points(encoding.of_schedule(greedy(workload, hardware)))
    data = _Data(*priced(np.concatenate([start, random.random((options.design - 1, cube.dims))])))
    yield Status("design", 1, options.steps)
    if not cube.dims:
        return
    model: Surrogate | None = None
    for step in range(1, options.steps):
        before = best
        if since == options.patience:
            data, model, since = _Data(*priced(random.random((options.design, cube.dims)))), None, 0
        else:
            chosen = data.training(options.training_points)
            iterations = options.first_fit_iterations if model is None else options.fit_iterations
            model = Surrogate(data.points[chosen], data.scores[chosen], iterations, settings.seed, model)
            points = _promising(model, data, cube, options, random)
            if not len(points):
                return
            data.extend(points, *priced(points))
        since = 0 if best < before else since + 1
        yield Status("model", step + 1, options.steps)


class _Data:
    """Points, where their repaired schedules stand, with scores."""

    def __init__(self, points: FloatArray, scores: FloatArray) -> None:
        self.points, self.scores = points, scores
        self._tried = {row.tobytes() for row in points}

    def extend(self, proposed: FloatArray, points: FloatArray, scores: FloatArray) -> None:
        """Remember what was proposed, and what it was repaired into."""
        self.points = np.concatenate([self.points, points])
        self.scores = np.concatenate([self.scores, scores])
        self._tried.update(row.tobytes() for rows in (proposed, points) for row in rows)

    def new(self, points: FloatArray) -> FloatArray:
        """Those of the points that were never tried, each once."""
        first: dict[bytes, int] = {}
        for i, row in enumerate(points):
            first.setdefault(row.tobytes(), i)
        return points[[i for key, i in first.items() if key not in self._tried]]

    def training(self, most: int) -> IntArray:
        """Numbers of the best and of the latest points."""
        latest = np.arange(max(0, self.scores.size - most // 2), self.scores.size)
        return np.union1d(self.best(most // 2), latest)

    def best(self, count: int) -> IntArray:
        """Numbers of the best points, the very best first."""
        return np.argsort(self.scores, kind="stable")[:count]


def _promising(
    model: Surrogate, data: _Data, cube: Cube, options: BayesianOptions, random: np.random.Generator
) -> FloatArray:
    """New points of largest log expected improvement, found by varying the best points and what came of that."""
    least = float(data.scores.min())
    origin = data.points[data.best(options.centers)]
    found, worth = np.empty((0, cube.dims)), np.empty(0)
    for _ in range(options.rounds):
        varied = _varied(origin[random.integers(len(origin), size=options.candidates)], options.changes, random)
        points = data.new(np.concatenate([found, cube.points(cube.genomes(varied))]))
        # Those of the rounds before come first, and are all new still.
        gains = model.log_expected_improvement(points[len(found) :], least)
        worth = np.concatenate([worth, gains])
        ranked = np.argsort(-worth, kind="stable")[: options.batch]
        found, worth = points[ranked], worth[ranked]
        origin = found if len(found) else origin
    return found


def _varied(points: FloatArray, changes: float, random: np.random.Generator) -> FloatArray:
    """Points after a few changes: half of them draw their new numbers anew, half move them a little."""
    count, dims = points.shape
    changed = np.minimum(random.geometric(1 / changes, size=(count, 1)), dims)
    chosen = random.random(points.shape) < changed / dims
    chosen[np.arange(count), random.integers(dims, size=count)] = True
    near = np.clip(points + 0.15 * random.standard_normal(points.shape), 0, 1)
    anew = random.random((count, 1)) < 0.5
    return np.where(chosen, np.where(anew, random.random(points.shape), near), points)
