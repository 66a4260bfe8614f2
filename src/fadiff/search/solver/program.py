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
    from jaxtyping import Bool, Float, Int

CERTAIN = 1e-6
"""Of a layer, more is in no mode than rounding could make up."""


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

    def agree(self, cost: Float[np.ndarray, " modes"]) -> Agreed:
        """The cheapest modes under which neighbours agree; `cost` is that of all runs of a layer, inf if impossible."""
        possible = np.isfinite(cost)
        layers = self.layers
        scale = float(cost[possible].max())
        equations: Any = vstack([self._sums, self._ties], format="csc")  # pyright: ignore[reportUnknownVariableType]
        solved: Any = linprog(  # pyright: ignore[reportUnknownVariableType]
            cost[possible] / scale,
            A_eq=equations[:, possible],
            b_eq=np.append(np.ones(layers), np.zeros(self._ties.shape[0])),
            A_ub=self._limits[:, possible],
            b_ub=np.zeros(self._limits.shape[0]),
            method="highs",
        )
        share, reduced = np.zeros(len(cost)), cost
        if solved.x is not None:
            share[possible] = solved.x
            prices = np.asarray(solved.eqlin.marginals)[layers:] * scale
            of_limits = np.minimum(solved.ineqlin.marginals, 0) * scale
            reduced = cost - self._ties.T @ prices - self._limits.T @ of_limits
        least = np.full(layers, np.inf)
        np.minimum.at(least, self._owner, reduced)
        return Agreed(share, cost, reduced, least)

    def shares(self, possible: Bool[np.ndarray, " modes"]) -> Float[np.ndarray, " modes"] | None:
        """How much of each layer is in each of some modes where neighbours agree as far as they can; None where it is
        certain that they cannot, by the statement in :mod:`fadiff.search.solver.contradiction`."""
        layers = self.layers
        count = int(possible.sum())
        none = (eye_array(layers), csc_array((self._ties.shape[0], layers)), csc_array((self._limits.shape[0], layers)))
        parts = zip((self._sums, self._ties, self._limits), none, strict=True)
        rows: list[Any] = [hstack([part[:, possible], other]) for part, other in parts]
        solved: Any = linprog(  # pyright: ignore[reportUnknownVariableType]
            np.append(np.zeros(count), np.ones(layers)),
            A_eq=vstack(rows[:2], format="csc"),
            b_eq=np.append(np.ones(layers), np.zeros(self._ties.shape[0])),
            A_ub=rows[2],
            b_ub=np.zeros(self._limits.shape[0]),
            method="highs",
        )
        share = np.zeros(len(possible))
        if solved.x is not None:
            share[possible] = solved.x[:count]
            prices = np.asarray(solved.eqlin.marginals)[layers:]
            of_limits = np.minimum(solved.ineqlin.marginals, 0)
            reduced = -(self._ties.T @ prices) - self._limits.T @ of_limits
            least = np.ones(layers)
            np.minimum.at(least, self._owner[possible], reduced[possible])
            if least.sum() > CERTAIN:
                return None
        return share
