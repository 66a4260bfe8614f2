"""One population of pymoo's genetic algorithm, with operators that know a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from pymoo.algorithms.soo.nonconvex.ga import GA, FitnessSurvival
from pymoo.core.crossover import Crossover
from pymoo.core.duplicate import DuplicateElimination
from pymoo.core.evaluator import Evaluator
from pymoo.core.mutation import Mutation
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.core.termination import NoTermination
from pymoo.operators.selection.tournament import TournamentSelection
from pymoo.problems.static import StaticProblem

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
        self._problem = Problem(n_var=rows.shape[1], n_obj=1, vtype=int)
        operators: dict[str, Any] = {
            "sampling": rows,
            "selection": TournamentSelection(func_comp=_fitter),
            "crossover": _Crossover(breeder, rates),
            "mutation": _Mutation(breeder, rates),
            "survival": _Survival(),
            "eliminate_duplicates": _Once(),
            "advance_after_initial_infill": True,
            "output": None,
        }
        algorithm: Any = GA(pop_size=len(rows), **operators)
        self._algorithm = algorithm.setup(self._problem, seed=seed, termination=NoTermination())

    def children(self) -> IntArray | None:
        """``[children, genes]`` the next generation, at first the population itself; None if none can be bred anew."""
        bred = self._algorithm.ask()
        return None if bred is None else bred.get("X")

    def grow(self, rows: IntArray, scores: FloatArray) -> None:
        """Let the fittest of parents and of these children survive."""
        self._algorithm.tell(infills=self._scored(rows, scores))

    def fittest(self, count: int) -> tuple[IntArray, FloatArray]:
        """The fittest rows and their scores."""
        ranked = self._ranked()[:count]
        return ranked.get("X"), ranked.get("F")[:, 0]

    def welcome(self, rows: IntArray, scores: FloatArray) -> None:
        """Put others in the place of the least fit; one always stays."""
        ranked = self._ranked()
        stay = max(1, len(ranked) - len(rows))
        self._algorithm.pop = cast("Any", Population).merge(ranked[:stay], self._scored(rows, scores))

    def _ranked(self) -> Individuals:
        individuals = self._algorithm.pop
        return individuals[np.argsort(individuals.get("F")[:, 0], kind="stable")]

    def _scored(self, rows: IntArray, scores: FloatArray) -> Individuals:
        individuals = cast("Any", Population).new("X", rows)
        Evaluator().eval(StaticProblem(self._problem, F=scores[:, None]), individuals)
        return individuals


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
        code, rates = self.breeder.encoding, self.rates
        return code.flat(self.breeder.mutated(random_state, code.shaped(X), rates.changes, rates.focus))


class _Once(DuplicateElimination):
    """Each genome once."""

    def _do(self, pop: Individuals, other: Individuals | None, is_duplicate: NDArray[np.bool_]) -> NDArray[np.bool_]:
        seen: set[bytes] = set() if other is None else {row.tobytes() for row in other.get("X")}
        for i, row in enumerate(pop.get("X")):
            is_duplicate[i] = row.tobytes() in seen
            seen.add(row.tobytes())
        return is_duplicate


class _Survival(FitnessSurvival):
    """The fittest, each schedule once: children that were different may have been repaired into the same."""

    def _do(self, problem: Problem, pop: Individuals, n_survive: int | None = None, **kwargs: object) -> Individuals:
        once = cast("Individuals", _Once().do(pop))
        return super()._do(problem, once, n_survive=n_survive, **kwargs)


def _fitter(pop: Individuals, pairs: IntArray, **_: object) -> IntArray:
    """``[tournaments, 1]`` the winner of each pair."""
    fitness: FloatArray = pop.get("F")[:, 0]
    return np.take_along_axis(pairs, fitness[pairs].argmin(axis=1)[:, None], axis=1)
