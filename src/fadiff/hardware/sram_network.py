r"""A smooth function of an SRAM's capacity and row width, increasing in its capacity: a small network.

With both inputs taken to [-1, 1] on a logarithmic axis, x for capacity and y for width, and s = 1 or -1 for something
that grows or falls with the width, it computes

.. math::
    h &= \tanh(\mathrm{sp}(a)\, x + s\, \mathrm{sp}(b)\, y + c) \\
    \ln f &= \mathrm{sp}(p) \cdot h + \mathrm{sp}(q)\, x + s\, \mathrm{sp}(r)\, y + d

where sp is softplus, sp(z) = ln(1 + exp z) > 0. All signs on the way from x are positive and tanh increases, so
**f is smooth and strictly increasing in capacity whatever the weights are**: a search over capacities never meets a
gradient of the wrong sign. In the same way f goes one way in width, which keeps it sane between the table's four
widths. CACTI itself picks among discrete layouts and its curve is jagged; the network is meant to pass between its
points.

The table that networks are trained on ends at 1 KB and 8 MB. Beyond, f follows a power of the capacity that each
quantity states, and goes on from the network without a step. Widths outside the table (8 to 128 bits) are clamped.

Each function takes the array namespace to compute in: NumPy (float64, for files), or `jax.numpy` under `jax.jit` and
`jax.grad`. JAX itself is not imported, so that reading a hardware file does not have to load it.
"""

from __future__ import annotations

import json
import math
from functools import cache
from importlib import resources
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import jax

CAPACITY_BYTES = (1024, 8 * 1024 * 1024)
WIDTH_BITS = (8, 128)

Quantity = Literal["energy", "area", "leakage"]
"""What there is a network of."""
WIDTH_SIGNS: dict[Quantity, int] = {"energy": -1, "area": 1, "leakage": -1}
"""Whether a quantity grows (1) or falls (-1) with the width of a row: a wider row shares its overhead among more bytes
of an access, and needs more amplifiers."""

# What a function is given it returns: a float, a NumPy array or a JAX array.
Number = TypeVar("Number", float, NDArray[np.float64], "jax.Array")


class Weights(NamedTuple):
    """The parameters of H hidden units, before softplus; arrays of NumPy or JAX."""

    capacity_in: Any  # a [H]
    width_in: Any  # b [H]
    bias: Any  # c [H]
    out: Any  # p [H]
    capacity_slope: Any  # q []
    width_slope: Any  # r []
    offset: Any  # d []


def shipped_weights(quantity: Quantity) -> Weights:
    """The trained parameters that come with the package, float64, in arrays of the caller's own.

    JAX knows a constant of a program by the identity of its array. One array in a program of 32 bits and in one of 64
    would be the same constant, of the first one's type, to both.
    """
    return Weights(*(value.copy() for value in _stored_weights(quantity)))


@cache
def _stored_weights(quantity: Quantity) -> Weights:
    text = resources.files("fadiff.hardware").joinpath(f"{quantity}_weights.json").read_text(encoding="utf-8")
    stored = json.loads(text)["weights"]
    return Weights(**{name: np.asarray(stored[name], dtype=np.float64) for name in Weights._fields})


def log_network(
    weights: Weights, capacity_bytes: Number, width_bits: Number | float, width_sign: int, xp: ModuleType = np
) -> Number:
    """The network itself, ln f, elementwise; beyond the table, that of its edge."""
    x = _scaled(capacity_bytes, CAPACITY_BYTES, xp)
    y = width_sign * _scaled(width_bits, WIDTH_BITS, xp)
    a, b, p, q, r = (
        _softplus(weight, xp)
        for weight in (
            weights.capacity_in,
            weights.width_in,
            weights.out,
            weights.capacity_slope,
            weights.width_slope,
        )
    )
    h = xp.tanh(x[..., None] * a + y[..., None] * b + weights.bias)
    return h @ p + q * x + r * y + weights.offset


def sram(
    quantity: Quantity,
    capacity_bytes: Number,
    width_bits: Number | float,
    xp: ModuleType = np,
    *,
    below: float,
    above: float,
) -> Number:
    """A quantity of an SRAM; beyond the table it grows with the capacity to the power of `below` and of `above`."""
    within = xp.clip(xp.asarray(capacity_bytes), *CAPACITY_BYTES)
    network = xp.exp(log_network(shipped_weights(quantity), capacity_bytes, width_bits, WIDTH_SIGNS[quantity], xp))
    beyond = capacity_bytes / within
    return network * xp.minimum(beyond, 1.0) ** below * xp.maximum(beyond, 1.0) ** above


def is_extrapolated(capacity_bytes: float) -> bool:
    """Whether a capacity is outside the table, so that a power law goes on from its edge.

    >>> is_extrapolated(512), is_extrapolated(1024)
    (True, False)
    """
    return not CAPACITY_BYTES[0] <= capacity_bytes <= CAPACITY_BYTES[1]


def _scaled(value: Number, bounds: tuple[int, int], xp: ModuleType) -> Any:  # noqa: ANN401  (an array of xp)
    """The value clamped to its bounds and taken to [-1, 1] on a logarithmic axis."""
    low, high = (math.log2(bound) for bound in bounds)
    return (2 * xp.log2(xp.clip(xp.asarray(value), *bounds)) - (low + high)) / (high - low)


def _softplus(weight: Any, xp: ModuleType) -> Any:  # noqa: ANN401  (an array of xp)
    return xp.logaddexp(weight, 0.0)
