"""Bayesian optimization with a Gaussian process and log expected improvement, from BoTorch.

*Over what.* The genomes of the genetic algorithm, with layers of the same shape alike, as points of a unit cube
(:class:`Features`): some 250 dims for ResNet-18 on a Gemmini. A genome is repaired and
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
from fadiff.search.evolutionary.genome import SHARES, STRENGTHS, WISHES, Encoding
from fadiff.search.evolutionary.repair import Judge
from fadiff.search.greedy import greedy
from fadiff.search.space import rank_table
from fadiff.workload import DIMS

with warnings.catch_warnings():
    # A library below BoTorch compiles a few functions on import, in a way that newer versions of PyTorch regret.
    warnings.filterwarnings("ignore", r"`torch\.jit\.script", DeprecationWarning)
    from fadiff.search.evolutionary.gaussian import Surrogate

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from fadiff.hardware import Machine
    from fadiff.search.evolutionary.genome import GeneRows
    from fadiff.workload import Workload

_ORDERED = [DIMS.index(dim) for dim in "KNCP"]
"""Dims whose ranks tell an order: one of each class of loops, and P, which runs inside Q or outside."""


class Features:
    """The points of an encoding's genomes."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        task = encoding.task
        twin = np.array(task.twin)
        first = np.unique(twin)
        useful = [(node - 1, d) for d, dim in enumerate(DIMS) for node in task.space.nodes[dim][1:]]
        placed = [(layer, node, d) for layer in first for node, d in useful if encoding.size[layer, d] > 1]
        self._factor = tuple(np.array(placed, dtype=np.int64).reshape(-1, 3).T)
        self._log_size = np.log(encoding.size[self._factor[0], self._factor[2]])
        self.mapped = first[encoding.is_mac[first]]
        """Numbers of the distinct layers that have a mapping."""
        self._rank = {m: rank_table(orders) for m, orders in enumerate(task.space.orders) if len(orders) > 1}
        self._wish = tuple(np.argwhere(encoding.wishes & np.isin(np.arange(twin.size), first)[:, None]).T)
        self._most = np.array([*[SHARES] * (WISHES - 1), 1])[self._wish[1]]
        numbers = encoding.genes(np.arange(encoding.owner.size)[None])
        shared = [genes[0, twin].ravel() for genes in numbers[:3]]
        self._same = np.concatenate([*shared, numbers.strength[0]])
        """``[genes]`` the gene of the first layer of the same shape."""

    def __call__(self, rows: GeneRows) -> Float[np.ndarray, "individuals dims"]:
        """The points; of layers of the same shape they say what the first does."""
        genomes = self.encoding.genes(rows)
        parts = [np.log(genomes.factors[:, *self._factor]) / self._log_size]
        for memory, rank in self._rank.items():
            parts.append(rank[_ORDERED][:, genomes.order[:, self.mapped, memory]].swapaxes(0, 1) / (len(DIMS) - 1))
        parts.append(genomes.wish[:, *self._wish] / self._most)
        parts.append(genomes.strength[:, self.encoding.fusible] / (STRENGTHS - 1))
        return np.concatenate([part.reshape(len(rows), -1) for part in parts], axis=1).clip(0, 1)

    def tied(self, rows: GeneRows) -> GeneRows:
        """The genomes with all layers of a shape like the first."""
        return rows.take(self._same, axis=1)


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
    judge = Judge(workload, machine, settings, incumbent)
    encoding, features = judge.encoding, Features(judge.encoding)
    breeder = Breeder(encoding, own.chances, features.mapped.tolist())

    def design(*first: GeneRows) -> _Data:
        drawn = features.tied(encoding.random(random, own.design - len(first)))
        return _Data(features, judge, np.concatenate([*first, drawn]))

    data = design(encoding.of_schedule(greedy(workload, machine, constraints=settings.constraints)))
    yield Status("design", 1, own.steps)
    if not features(data.rows).size:
        return
    model: Surrogate | None = None
    since = 0
    for step in range(1, own.steps):
        before = judge.best
        if since == own.patience:
            data, model, since = design(), None, 0
        else:
            chosen = data.training(own.training_points)
            iterations = own.first_fit_iterations if model is None else own.fit_iterations
            model = Surrogate(features(data.rows[chosen]), data.scores[chosen], iterations, settings.seed, model)
            rows = _promising(model, data, breeder, own, random)
            if not len(rows):
                return
            data.extend(rows)
        since = 0 if judge.best < before else since + 1
        yield Status("model", step + 1, own.steps)


class _Data:
    """Repaired genomes, layers of a shape alike, with their points and scores."""

    def __init__(self, features: Features, judge: Judge, design: GeneRows) -> None:
        self.features, self.judge = features, judge
        self.rows, self.scores, self._tried = design[:0], np.empty(0), set[bytes]()
        self.extend(design)

    def extend(self, proposed: GeneRows) -> None:
        """Price genomes, and remember what was proposed and what it was repaired into."""
        rows, scores = self.judge(proposed)
        repaired = self.features.tied(rows)
        self.rows, self.scores = np.concatenate([self.rows, repaired]), np.concatenate([self.scores, scores])
        self._tried.update(row.tobytes() for row in (*proposed, *repaired))

    def new(self, rows: GeneRows) -> GeneRows:
        """Those of the genomes that were never tried, each once."""
        first = {row.tobytes(): i for i, row in reversed([*enumerate(rows)])}
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
) -> GeneRows:
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
