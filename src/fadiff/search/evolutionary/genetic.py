"""A genetic algorithm over factors, loop orders and fusion: pymoo's, with operators that know a layer.

Genomes are those of :mod:`fadiff.search.evolutionary.genome`; every generation is repaired and priced at once
(:mod:`fadiff.search.evolutionary.repair`), and the repaired genomes take the place of the ones that were bred, so
that children inherit what was priced. A few populations evolve side by side, as on islands, and now and then exchange
their best. The first begins with the greedy schedule, mutants of it, and random genomes; the others with random ones
only.

- *Selection*: binary tournaments. *Survival*: the best of parents and children together, each schedule once.
- *Crossover*: a child takes whole layers, with their mappings and incoming edges, from one of two parents: each layer
  by a coin, or those between two cut points in topological order.
- *Mutation*: a few changes, each one of: a move of the exact search in a layer's mapping (a factor goes from one node
  to another, or grows or shrinks); the loops of a memory get another order; neighbours are fused or cut; all layers of
  a group wish to share a loop more or less, or draw their wishes anew; a layer takes over the mapping of a layer of the
  same shape. Often all changes of mappings meet one layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from pymoo.algorithms.soo.nonconvex.ga import GA
from pymoo.core.crossover import Crossover
from pymoo.core.duplicate import DefaultDuplicateElimination
from pymoo.core.mutation import Mutation
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.core.termination import NoTermination

from fadiff.search.driver import Incumbent, Settings, Status
from fadiff.search.evolutionary.breeding import Breeder, Chances
from fadiff.search.evolutionary.repair import Judge
from fadiff.search.greedy import greedy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fadiff.hardware import Machine
    from fadiff.search.evolutionary.genome import GeneRows
    from fadiff.workload import Workload

    IntArray = NDArray[np.int64]
    FloatArray = NDArray[np.float64]
    Individuals = Any
    """pymoo's populations carry no types."""


class Rates(NamedTuple):
    """How children come about."""

    crossover: float = 0.9
    """Share of the children that have two parents."""
    changes: float = 4.0
    """Changes that a mutation makes, on average."""
    focus: float = 0.6
    """Share of the mutations that change the mapping of one layer only."""


class Island:
    """A population of rows of genes, as large as `rows` with which it begins; smaller scores are fitter."""

    def __init__(self, breeder: Breeder, rates: Rates, rows: IntArray, seed: int) -> None:
        operators: dict[str, Any] = {
            "sampling": rows,
            "crossover": _Crossover(breeder, rates),
            "mutation": _Mutation(breeder, rates),
            "advance_after_initial_infill": True,
            "output": None,
        }
        algorithm: Any = GA(pop_size=len(rows), **operators)
        problem = Problem(n_var=rows.shape[1], n_obj=1, vtype=int)
        self._algorithm = algorithm.setup(problem, seed=seed, termination=NoTermination())

    def children(self) -> IntArray | None:
        """``[children, genes]`` the next generation, at first the population itself; None if none can be bred anew."""
        bred = self._algorithm.ask()
        return None if bred is None else bred.get("X")

    def grow(self, rows: IntArray, scores: FloatArray) -> None:
        """Let the fittest of parents and of these children survive, each once: repair may have made them the same."""
        self._algorithm.tell(infills=self._new(rows, scores))

    def fittest(self, count: int) -> tuple[IntArray, FloatArray]:
        """The fittest rows and their scores."""
        ranked = self._ranked()[:count]
        return ranked.get("X"), ranked.get("F")[:, 0]

    def welcome(self, rows: IntArray, scores: FloatArray) -> None:
        """Put others, unless they are there already, in the place of the least fit; one always stays."""
        ranked, others = self._ranked(), self._new(rows, scores)
        stay = max(1, len(ranked) - len(others))
        self._algorithm.pop = cast("Any", Population).merge(ranked[:stay], others)

    def _ranked(self) -> Individuals:
        individuals = self._algorithm.pop
        return individuals[np.argsort(individuals.get("F")[:, 0], kind="stable")]

    def _new(self, rows: IntArray, scores: FloatArray) -> Individuals:
        """Individuals that are not in the population, each once."""
        scored = cast("Any", Population).new("X", rows, "F", scores[:, None])
        return cast("Any", DefaultDuplicateElimination()).do(scored, self._algorithm.pop)


class _Crossover(Crossover):
    """One child that takes whole layers from two parents."""

    def __init__(self, breeder: Breeder, rates: Rates) -> None:
        super().__init__(2, 1, prob=rates.crossover)
        self.breeder = breeder

    def _do(  # pyright: ignore[reportIncompatibleMethodOverride]  (pymoo's own returns nothing)
        self, problem: Problem, X: IntArray, *_: object, random_state: np.random.Generator, **__: object
    ) -> IntArray:
        return self.breeder.crossed(random_state, X[0], X[1])[None]


class _Mutation(Mutation):
    """A few changes to every child."""

    def __init__(self, breeder: Breeder, rates: Rates) -> None:
        super().__init__(prob=1.0)
        self.breeder = breeder
        self.rates = rates

    def _do(
        self, problem: Problem, X: IntArray, *_: object, random_state: np.random.Generator, **__: object
    ) -> IntArray:
        return self.breeder.mutated(random_state, X, self.rates.changes, self.rates.focus)


@dataclass(frozen=True)
class GeneticSettings:
    """Sizes and rates.

    The number and the size of the islands, how often they meet, and the rates were chosen on resnet18 and gpt3-6.7b
    with gemmini-large, two seeds each, by the EDP after 60,000 schedules.
    """

    islands: int = 4
    """Populations; all children of a generation are priced at once."""
    population: int = 64
    """Individuals of an island, and children in a generation."""
    generations: int = 3000
    rates: Rates = Rates()
    chances: Chances = Chances()
    migration: int = 20
    """Generations after which each island gets the best of the one before it."""
    migrants: int = 2
    patience: int = 150
    """Generations without a better schedule after which all islands but the first start anew."""


def genetic(
    workload: Workload,
    machine: Machine,
    settings: Settings,
    incumbent: Incumbent,
    own: GeneticSettings = GeneticSettings(),
) -> Iterator[Status]:
    """The generator behind ``--method genetic``; `settings.restarts` is the number of islands."""
    random = np.random.default_rng(settings.seed)
    judge = Judge(workload, machine, settings, incumbent)
    breeder, count = Breeder(judge.encoding, own.chances), settings.restarts or own.islands

    def island(rows: GeneRows) -> Island:
        return Island(breeder, own.rates, rows, seed=int(random.integers(2**31)))

    def strangers() -> list[Island]:
        """New populations of random genomes, for all islands but the first."""
        drawn = [judge.encoding.random(random, own.population) for _ in range(count - 1)]
        return list(map(island, drawn))

    islands = [island(_natives(breeder, own, random)), *strangers()]
    since = 0
    for generation in range(1, own.generations + 1):
        broods = [brood for brood in (one.children() for one in islands) if brood is not None]
        if len(broods) < count:
            # So few schedules exist that a population has seen them all.
            return
        before, (rows, scores) = judge.best, judge(np.concatenate(broods))
        ends = np.cumsum([len(brood) for brood in broods])[:-1]
        for one, mine, worth in zip(islands, np.split(rows, ends), np.split(scores, ends), strict=True):
            one.grow(mine, worth)
        if generation % own.migration == 0:
            _migrate(islands, own.migrants)
        since = 0 if judge.best < before else since + 1
        if since == own.patience:
            islands, since = [islands[0], *strangers()], 0
        yield Status("evolve", generation, own.generations)


def _natives(breeder: Breeder, own: GeneticSettings, random: np.random.Generator) -> GeneRows:
    """The greedy schedule, half a population of its mutants, and random genomes."""
    code, rates, count = breeder.encoding, own.rates, own.population
    task = code.task
    first = code.of_schedule(greedy(task.workload, task.machine, constraints=task.restrictions.constraints))
    kin = breeder.mutated(random, first.repeat(max(1, count // 2), axis=0), rates.changes, rates.focus)
    return np.concatenate([first, kin, code.random(random, count)])[:count]


def _migrate(islands: Sequence[Island], count: int) -> None:
    """Give each island the best of the one before it."""
    travelling = [one.fittest(count) for one in islands]
    for i, one in enumerate(islands):
        if len(islands) > 1:
            one.welcome(*travelling[i - 1])
