r"""Energy of an access to on-chip SRAM, as a smooth function of its capacity.

A small network, trained on CACTI's answers for 40 nm SRAMs, maps the capacity in bytes and the row width in bits to
the energy of one byte in pJ (mean of read and write). With both inputs taken to [-1, 1] on a logarithmic axis, x for
capacity and y for width, it computes

.. math::
    h &= \tanh(\mathrm{sp}(a)\, x - \mathrm{sp}(b)\, y + c) \\
    \ln e &= \mathrm{sp}(p) \cdot h + \mathrm{sp}(q)\, x - \mathrm{sp}(r)\, y + d

where sp is softplus, sp(z) = ln(1 + exp z) > 0. All signs on the way from x are positive and tanh increases, so
**e is smooth and strictly increasing in capacity whatever the weights are**: a search over capacities never meets a
gradient of the wrong sign. In the same way e decreases in width (a wider row shares its overhead among more bytes),
which keeps it sane between the table's four widths. CACTI itself picks among discrete layouts and its curve is
jagged; the network is meant to pass between its points.

The table ends at 1 KB and 8 MB. Beyond, the energy of a byte follows the square root of the capacity,

.. math::
    e(c) = e(c_{edge}) \, (c / c_{edge})^{1/2}

the law of a square array, whose wires grow with its side, and the slope of the table itself at both ends. It goes on
from the network without a step and increases. Widths outside the table (8 to 128 bits) are clamped to it.

Each function takes the array namespace to compute in: NumPy (float64, for files), or `jax.numpy` under `jax.jit` and
`jax.grad`. JAX itself is not imported, so that reading a hardware file does not have to load it.
"""

from __future__ import annotations

import json
import math
from functools import cache
from importlib import resources
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import jax

CAPACITY_BYTES = (1024, 8 * 1024 * 1024)
WIDTH_BITS = (8, 128)
CAPACITY_EXPONENT = 0.5
"""How the energy of a byte grows with the capacity beyond the table."""

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


def shipped_weights() -> Weights:
    """The trained parameters that come with the package, float64, in arrays of the caller's own.

    JAX knows a constant of a program by the identity of its array. One array in a program of 32 bits and in one of 64
    would be the same constant, of the first one's type, to both.
    """
    return Weights(*(value.copy() for value in _stored_weights()))


@cache
def _stored_weights() -> Weights:
    text = resources.files("fadiff.hardware").joinpath("energy_weights.json").read_text(encoding="utf-8")
    stored = json.loads(text)["weights"]
    return Weights(**{name: np.asarray(stored[name], dtype=np.float64) for name in Weights._fields})


def log_pj_per_byte(
    weights: Weights, capacity_bytes: Number, width_bits: Number | float, xp: ModuleType = np
) -> Number:
    """The network itself: ln of the pJ a byte of an SRAM costs, elementwise; beyond the table, that of its edge."""
    x = _scaled(capacity_bytes, CAPACITY_BYTES, xp)
    y = _scaled(width_bits, WIDTH_BITS, xp)
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
    h = xp.tanh(x[..., None] * a - y[..., None] * b + weights.bias)
    return h @ p + q * x - r * y + weights.offset


def sram_pj_per_byte(capacity_bytes: Number, width_bits: Number | float, xp: ModuleType = np) -> Number:
    """Energy in pJ of one byte of an access to an SRAM of this capacity and row width, mean of read and write.

    >>> print(f"{sram_pj_per_byte(8192.0, 128.0):.2f} pJ")
    0.46 pJ
    """
    beyond = capacity_bytes / xp.clip(xp.asarray(capacity_bytes), *CAPACITY_BYTES)
    return xp.exp(log_pj_per_byte(shipped_weights(), capacity_bytes, width_bits, xp)) * beyond**CAPACITY_EXPONENT


def word_pj(instance_bytes: Number, word_bits: Number | float, row_bits: Number | float, xp: ModuleType = np) -> Number:
    """Energy in pJ of one word of a memory: `word_bits` of an SRAM of one instance's bytes, with rows of `row_bits`.

    The 2 KB accumulator of one column of a Gemmini, for one sum of 32 bits:

    >>> print(f"{word_pj(2048.0, 32.0, 32.0):.2f} pJ")
    1.64 pJ
    """
    return word_bits / 8 * sram_pj_per_byte(instance_bytes, row_bits, xp)


def is_extrapolated(capacity_bytes: float) -> bool:
    """Whether a capacity is outside the table, so that its energy follows the square root.

    >>> is_extrapolated(512), is_extrapolated(1024)
    (True, False)
    """
    return not CAPACITY_BYTES[0] <= capacity_bytes <= CAPACITY_BYTES[1]


def row_bits(word_bits: int, *words_per_cycle: float | None) -> float:
    """Width in bits of the rows of a memory: what it moves in a cycle, at least a word, within the table.

    Of several rates the largest counts; a rate that is not stated (None) says nothing.
    """
    moved = max((word_bits * rate for rate in words_per_cycle if rate is not None), default=0.0)
    return min(max(moved, word_bits, WIDTH_BITS[0]), WIDTH_BITS[1])


def _scaled(value: Number, bounds: tuple[int, int], xp: ModuleType) -> Any:  # noqa: ANN401  (an array of xp)
    """The value clamped to its bounds and taken to [-1, 1] on a logarithmic axis."""
    low, high = (math.log2(bound) for bound in bounds)
    return (2 * xp.log2(xp.clip(xp.asarray(value), *bounds)) - (low + high)) / (high - low)


def _softplus(weight: Any, xp: ModuleType) -> Any:  # noqa: ANN401  (an array of xp)
    return xp.logaddexp(weight, 0.0)
