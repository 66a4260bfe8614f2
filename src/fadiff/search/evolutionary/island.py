"""One population of pymoo's genetic algorithm, with operators that know a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from pymoo.algorithms.soo.nonconvex.ga import GA
from pymoo.core.crossover import Crossover
from pymoo.core.duplicate import DefaultDuplicateElimination
from pymoo.core.mutation import Mutation
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.core.termination import NoTermination

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fadiff.search.evolutionary.breeding import Breeder

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
