"""The shape of the map space: slots worth using, loop orders worth trying, and how numbers factor."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fadiff.hardware import Hardware

SPATIAL, T0, T1, T2, T3 = range(5)
"""Slots of a mapping's factors."""

ORDER1 = "GNPQKCRS"
"""L1 loops run over dims of W only (see :func:`useful_slots`), so their order is without effect."""
ORDER2 = "GKCRSNPQ"
"""Output rows, columns and batch innermost: a weight stays in its register while they run."""
ORDERS3 = tuple("G" + "".join(classes) for classes in permutations(("K", "NPQ", "CRS")))
"""Each of the three tensors stationary at L3, and the loops of the other two in either order."""
SLIDING_ORDERS3 = (*ORDERS3, *(order.replace("NPQ", "NQP") for order in ORDERS3))
"""The same, sliding along columns or along rows."""


def useful_slots(dim: str, hardware: Hardware) -> tuple[int, ...]:
    """Slots that a factor of a dim can profit from.

    N, P, Q: at L0 instead of L1 they fill the same L1 tile and leave weights in registers for longer. C, R, S: at L1
    instead of L2 they reduce inside the same tiles.
    """
    unrolls = (SPATIAL,) if dim in hardware.spatial_rows + hardware.spatial_cols else ()
    if dim in "NPQ":
        return (T0, T2, T3)
    return (*unrolls, T1, T2, T3) if dim in "GK" else (*unrolls, T1, T3)


def divisors(number: int) -> list[int]:
    """All divisors, in increasing order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small) if d * d != number]


def prime_factors(number: int) -> list[tuple[int, int]]:
    """Primes and their exponents.

    >>> prime_factors(56)
    [(2, 3), (7, 1)]
    """
    found: list[tuple[int, int]] = []
    prime = 2
    while number > 1:
        if prime * prime > number:
            prime = number
        exponent = 0
        while number % prime == 0:
            number //= prime
            exponent += 1
        if exponent:
            found.append((prime, exponent))
        prime += 1
    return found


def prime_powers(number: int, most: int) -> list[int]:
    """Prime factors of a number, and their powers up to `most` that divide it.

    >>> prime_powers(112, most=8)
    [2, 4, 8, 7]
    """
    return [
        prime**k
        for prime, exponent in prime_factors(number)
        for k in range(1, exponent + 1)
        if k == 1 or prime**k <= most
    ]
