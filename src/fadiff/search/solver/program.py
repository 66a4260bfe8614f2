r"""The cheapest modes under which neighbours agree: a linear program, and what is claimed of it.

For any prices y of its rows, not negative for inequalities, a schedule costs at least :math:`\sum_v \min_m (c_{vm} -
(A^T y)_{vm})`. That sum is what is claimed, with the prices that the solver returns: it holds however well it solved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import linprog  # pyright: ignore[reportUnknownVariableType]
from scipy.sparse import csc_array, eye_array, hstack, vstack  # pyright: ignore[reportUnknownVariableType]

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int

SOLVED = 0
"""The status of a program that is solved."""

CERTAIN = 1e-6
"""Of a layer, more is in no mode than rounding could make up."""
MOST_SECONDS = 10.0
"""The solver has so much time at most: one program in thousands, which take less than a second, it never ends."""


class Agreed(NamedTuple):
    """What the program says."""

    share: Float[np.ndarray, " modes"]
    """How much of a layer is in each of its modes."""
    cost: Float[np.ndarray, " modes"]
    reduced: Float[np.ndarray, " modes"]
    """Costs after the prices of what holds of schedules."""
    least: Float[np.ndarray, " layers"]
    """Of these, the least of each layer: their sum is the bound."""


class Program:
    """What holds of the shares of a layer that are in each mode: they add up to 1, ties are 0, limits at most 0."""

    def __init__(self, owner: Int[np.ndarray, " modes"], layers: int, ties: Any, limits: Any) -> None:  # noqa: ANN401
        """By mode its layer; rows of coefficients, as sparse arrays."""
        self.layers = layers
        self._owner = owner
        self._ties = ties
        self._limits = limits
        self._sums: Any = csc_array((np.ones(len(owner)), (owner, np.arange(len(owner)))), shape=(layers, len(owner)))

    def agree(self, cost: Float[np.ndarray, " modes"], seconds: float = MOST_SECONDS) -> Agreed:
        """The cheapest modes under which neighbours agree; `cost` is that of all runs of a layer, inf if impossible.

        Where the solver does not end in time, nothing is charged for what holds of schedules.
        """
        possible = np.isfinite(cost)
        layers = self.layers
        scale = float(cost[possible].max())
        parts = [part[:, possible] for part in (self._sums, self._ties, self._limits)]
        solved = _solved(cost[possible] / scale, parts, seconds)
        share, reduced = np.zeros(len(cost)), cost
        if solved is not None:
            share[possible] = solved.share
            reduced = cost - self._ties.T @ (solved.of_ties * scale) - self._limits.T @ (solved.of_limits * scale)
        least = np.full(layers, np.inf)
        np.minimum.at(least, self._owner, reduced)
        return Agreed(share, cost, reduced, least)

    def shares(self, possible: Bool[np.ndarray, " modes"]) -> Float[np.ndarray, " modes"] | None:
        """How much of each layer is in each of some modes where neighbours agree as far as they can; None where it is
        certain that they cannot, by the statement in :mod:`fadiff.search.solver.contradiction`."""
        layers = self.layers
        count = int(possible.sum())
        none = (eye_array(layers), csc_array((self._ties.shape[0], layers)), csc_array((self._limits.shape[0], layers)))
        rows = zip((self._sums, self._ties, self._limits), none, strict=True)
        parts: list[Any] = [hstack([part[:, possible], other]) for part, other in rows]
        solved = _solved(np.append(np.zeros(count), np.ones(layers)), parts, MOST_SECONDS)
        share = np.zeros(len(possible))
        if solved is not None:
            share[possible] = solved.share[:count]
            reduced = -(self._ties.T @ solved.of_ties) - self._limits.T @ solved.of_limits
            least = np.ones(layers)
            np.minimum.at(least, self._owner[possible], reduced[possible])
            if least.sum() > CERTAIN:
                return None
        return share


class _Solved(NamedTuple):
    """A solution, and the prices of its rows."""

    share: Float[np.ndarray, " columns"]
    of_ties: Float[np.ndarray, " ties"]
    of_limits: Float[np.ndarray, " limits"]


def _solved(cost: Float[np.ndarray, " columns"], parts: Sequence[Any], seconds: float) -> _Solved | None:
    """The cheapest shares of which some rows add up to 1, others to 0, and others to 0 at most; None where the solver
    finds none in time."""
    sums, ties, limits = parts
    found: Any = linprog(  # pyright: ignore[reportUnknownVariableType]
        cost,
        A_eq=vstack([sums, ties], format="csc"),
        b_eq=np.append(np.ones(sums.shape[0]), np.zeros(ties.shape[0])),
        A_ub=limits,
        b_ub=np.zeros(limits.shape[0]),
        method="highs",
        options={"time_limit": seconds},
    )
    if found.status != SOLVED:
        return None
    of_ties = np.asarray(found.eqlin.marginals)[sums.shape[0] :]
    return _Solved(np.asarray(found.x), of_ties, np.minimum(found.ineqlin.marginals, 0))
