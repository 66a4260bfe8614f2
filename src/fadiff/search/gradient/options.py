"""Everything the descent can be told, and how its numbers change while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from jax import Array

_NUMBERS = (
    "steps", "learning_rate", "sigma_rate", "alpha", "tau_start", "tau_end", "noise_start", "lambda_start",
    "lambda_end", "p_valid", "p_spatial", "p_mem", "p_align", "p_whole", "p_complete",
)  # fmt: skip
_SWITCHES = (
    "restarts", "choice", "distance", "straight_through", "fuse", "objective", "log_objective", "orders", "hinge",
    "gradient",
    "max_candidates", "spatial_slack",
)  # fmt: skip


@partial(jax.tree_util.register_dataclass, data_fields=_NUMBERS, meta_fields=_SWITCHES)
@dataclass(frozen=True)
class DescentOptions:
    """How the descent searches.

    The switches shape the compiled program; the numbers are its inputs, so that another value compiles nothing anew.
    """

    restarts: int = 32
    """Descents that run as one batch."""
    choice: Literal["factorizations", "divisors"] = "factorizations"
    """What a candidate is: a whole factorization of a dim over its slots, or (as in the paper) a divisor for each
    slot on its own, where L3 takes what the others leave."""
    distance: Literal["log", "linear"] = "log"
    """Where proximity is measured; the paper's is linear."""
    straight_through: bool = True
    """Forward the chosen integers, backward the expectation; else the expectation both ways."""
    gradient: Literal["smooth", "exact"] = "smooth"
    """Gradient of the cost model in the factors: smooth across loops of one trip, or that of its formulas."""
    fuse: bool = True
    """Whether sigma is searched; else it is 0."""
    objective: Literal["edp", "energy", "latency"] = "edp"
    log_objective: bool = True
    """Descend on log EDP, whose gradient does not depend on the size of the network; else on EDP, as in the paper."""
    orders: Literal["soft", "best"] = "soft"
    """How a layer's L3 order is chosen among six: by softmin at the temperature tau, or the best one at once."""
    hinge: Literal["linear", "squared"] = "squared"
    """Inequality penalties: the excess squared, as in the paper, or itself, whose pull does not fade at the border."""
    max_candidates: int = 256
    """Factorizations kept of one dim of one layer."""
    spatial_slack: int = 4
    """A dim alone on its array axis unrolls no less than its largest possible factor over this."""

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
    p_valid: float = 1.0
    """Weight of this penalty, as of the following ones; 0 switches it off."""
    p_spatial: float = 1.0
    p_mem: float = 3.0
    p_align: float = 0.0
    """Off, unlike in the paper: the decoder finds common trip counts itself, and the pull keeps sigma from rising."""
    p_whole: float = 1.0
    p_complete: float = 1.0


class Anneal(NamedTuple):
    """The numbers of one step. Scalars."""

    tau: Array
    noise: Array
    weight: Array
    """lambda, the weight of the penalties."""


def anneal(options: DescentOptions, step: Array) -> Anneal:
    """The schedule: tau and lambda change geometrically over the steps, noise fades linearly to 0.

    .. math::
        \\tau_t = \\tau_0 (\\tau_{min}/\\tau_0)^{t/T}, \\qquad \\lambda_t = \\lambda_0 (\\lambda_T/\\lambda_0)^{t/T}
    """
    progress = jnp.clip(step / jnp.maximum(options.steps - 1, 1), 0.0, 1.0)
    return Anneal(
        tau=options.tau_start * (options.tau_end / options.tau_start) ** progress,
        noise=options.noise_start * (1 - progress),
        weight=options.lambda_start * (options.lambda_end / options.lambda_start) ** progress,
    )
