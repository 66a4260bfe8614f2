r"""Energy of an access to on-chip SRAM, as a smooth function of its capacity.

A network (:mod:`fadiff.hardware.sram_network`), trained on CACTI's answers for 40 nm SRAMs, maps the capacity in bytes
and the row width in bits to the energy of one byte in pJ (mean of read and write). It increases with the capacity, and
falls with the width. Beyond the table's 1 KB and 8 MB the energy of a byte follows the square root of the capacity,

.. math::
    e(c) = e(c_{edge}) \, (c / c_{edge})^{1/2}

the law of a square array, whose wires grow with its side, and the slope of the table itself at both ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import inf
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from fadiff.hardware.sram_network import WIDTH_BITS, Number, sram

# Energies from the network keep this many decimals, so that every computer calculates with the same numbers although
# its mathematical library may round the network's last bits in its own way.
NETWORK_PJ_DECIMALS = 6

CAPACITY_EXPONENT = 0.5
"""How the energy of a byte grows with the capacity beyond the table."""


def sram_pj_per_byte(capacity_bytes: Number, width_bits: Number | float, xp: ModuleType = np) -> Number:
    """Energy in pJ of one byte of an access to an SRAM of this capacity and row width, mean of read and write.

    >>> print(f"{sram_pj_per_byte(8192.0, 128.0):.2f} pJ")
    0.46 pJ
    """
    return sram("energy", capacity_bytes, width_bits, xp, below=CAPACITY_EXPONENT, above=CAPACITY_EXPONENT)


def word_pj(instance_bytes: Number, word_bits: Number | float, row_bits: Number | float, xp: ModuleType = np) -> Number:
    """Energy in pJ of one word of a memory: `word_bits` of an SRAM of one instance's bytes, with rows of `row_bits`.

    The 2 KB accumulator of one column of a Gemmini, for one sum of 32 bits:

    >>> print(f"{word_pj(2048.0, 32.0, 32.0):.2f} pJ")
    1.64 pJ
    """
    return word_bits / 8 * sram_pj_per_byte(instance_bytes, row_bits, xp)


def network_pj(instance_bytes: int, word_bits: int, row_bits: float) -> float:
    """Energy in pJ of one word of a memory that a machine does not state, to the decimals that count."""
    return round(float(word_pj(float(instance_bytes), float(word_bits), row_bits)), NETWORK_PJ_DECIMALS)


class LinearEnergy(NamedTuple):
    """Energy of a word that a file states as a law of the capacity of one instance: base + per_kb * KB, in pJ."""

    base: float
    per_kb: float

    def pj(self, instance_bytes: Any) -> Any:  # noqa: ANN401  (a number, or an array of any namespace)
        """Of a memory whose instances have so many bytes.

        >>> LinearEnergy(0.5, 0.025).pj(8192)
        0.7
        """
        return self.base + self.per_kb * instance_bytes / 1024


def row_bits(word_bits: int, *words_per_cycle: float | None) -> float:
    """Width in bits of the rows of a memory: what it moves in a cycle, at least a word, within the table.

    Of several rates the largest counts; a rate that is not stated (None) says nothing.
    """
    return float(moved_bits(word_bits, [inf if rate is None else rate for rate in words_per_cycle]))


def moved_bits(word_bits: Any, words_per_cycle: Sequence[Any], xp: ModuleType = np) -> Any:  # noqa: ANN401  (arrays)
    """The same of arrays, where a rate that is not stated is infinite."""
    words = [xp.where(xp.isinf(rate), 1.0, rate) for rate in words_per_cycle]
    return xp.clip(word_bits * reduce(xp.maximum, words, 1.0), *WIDTH_BITS)
