"""Everything the descent can be told, and how its numbers change while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from fadiff.errors import FadiffError
from fadiff.search.gradient.penalties import PENALTIES
from fadiff.search.objective import EDP, Objective

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float, Int


def _switch(default: Any) -> Any:  # noqa: ANN401  (any value)
    """A setting that shapes the compiled program."""
    return field(default=default, metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DescentSettings:
    """How the descent searches.

    The switches shape the compiled program; the numbers are its inputs, so that another value compiles nothing anew.
    """

    restarts: int = _switch(32)
    """Descents that run as one batch."""
    choice: Literal["tuples", "integers"] = _switch("tuples")
    """What a candidate is: a whole tuple of factors of a dim over its slots, or (as in the paper) a number for each
    slot on its own, where the first memory takes what the others leave."""
    distance: Literal["log", "linear"] = _switch("log")
    """Where proximity is measured; the paper's is linear."""
    straight_through: bool = _switch(True)
    """Forward the chosen integers, backward the expectation; else the expectation both ways."""
    gradient: Literal["smooth", "product"] = _switch("smooth")
    """Gradient of counts in the factors: smooth across loops of one trip, or that of their product."""
    fuse: bool = _switch(True)
    """Whether sigma is searched; else it is 0."""
    objective: Objective = _switch(EDP)
    log_objective: bool = _switch(True)
    """Descend on log EDP, whose gradient does not depend on the size of the network; else on EDP, as in the paper."""
    orders: Literal["drawn", "best"] = _switch("drawn")
    """How a layer's loop orders change: drawn by softmin at the temperature tau among a few, or the best of them."""
    hinge: Literal["linear", "squared"] = _switch("squared")
    """Inequality penalties: the excess squared, as in the paper, or itself, whose pull does not fade at the border."""
    max_candidates: int = _switch(128)
    """Tuples kept of one dim of one layer."""
    spatial_slack: int = _switch(4)
    """A dim alone on an axis uses no fewer lanes than the most it could over this."""

    steps: int = 300
    learning_rate: float = 0.05
    sigma_rate: float = 0.06
    """Learning rate of the sigma logits, which have farther to go than log factors."""
    alpha: float = 2.0
    """Sharpness of proximity."""
    tau_start: float = 2.0
    tau_end: float = 0.04
    noise_start: float = 0.3
    """Scale of the Gumbel noise at the start; it fades to 0."""
    lambda_start: float = 0.01
    lambda_end: float = 10.0
    weights: tuple[float, ...] = tuple(penalty.weight for penalty in PENALTIES)
    """Of each penalty; 0 switches it off."""

    def weighing(self, **weights: float) -> DescentSettings:
        """The same with other weights of some penalties, by name.

        >>> DescentSettings().weighing(align=1.0).weights
        (1.0, 1.0, 3.0, 1.0, 1.0, 1.0)
        """
        names = [penalty.name for penalty in PENALTIES]
        if unknown := sorted(set(weights) - set(names)):
            raise FadiffError(f"there is no penalty {unknown[0]!r}: name one of {', '.join(names)}")
        return replace(self, weights=tuple(weights.get(n, old) for n, old in zip(names, self.weights, strict=True)))


class Anneal(NamedTuple):
    """The numbers of a step."""

    tau: Float[Array, ""]
    noise: Float[Array, ""]
    weight: Float[Array, ""]
    """lambda, the weight of the penalties."""


def anneal(settings: DescentSettings, step: Int[Array, ""] | int) -> Anneal:
    """The numbers of a step: tau and lambda change geometrically, noise fades linearly to 0.

    .. math::
        \\tau_t = \\tau_0 (\\tau_{min}/\\tau_0)^{t/T}, \\qquad \\lambda_t = \\lambda_0 (\\lambda_T/\\lambda_0)^{t/T}
    """
    done = jnp.minimum(step / jnp.maximum(settings.steps - 1, 1), 1)
    return Anneal(
        tau=settings.tau_start * (settings.tau_end / settings.tau_start) ** done,
        noise=settings.noise_start * (1 - done),
        weight=settings.lambda_start * (settings.lambda_end / settings.lambda_start) ** done,
    )
