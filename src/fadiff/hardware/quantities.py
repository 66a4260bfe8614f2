"""The quantities that a hardware file states: counts, capacities with units, rates and energies."""

import re
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, Field, NonNegativeFloat, PositiveFloat

CAPACITY_PATTERN = re.compile(r"(-?[0-9]{1,12}(?:\.[0-9]{1,12})?) *([A-Za-z]+)")
BYTES_PER_UNIT = {
    "B": 1,
    **dict.fromkeys(("KB", "kB", "KiB"), 1024),
    **dict.fromkeys(("MB", "MiB"), 1024**2),
    **dict.fromkeys(("GB", "GiB"), 1024**3),
}


def _bytes_with_unit(text: object) -> int:
    found = CAPACITY_PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or found[2] not in BYTES_PER_UNIT:
        raise ValueError("write a capacity as a number and a unit (B, KB, KiB, MB, MiB, GB or GiB), such as 64 KB")
    size = Fraction(found[1]) * BYTES_PER_UNIT[found[2]]
    if size.denominator != 1:
        raise ValueError("write a capacity that comes to whole bytes (1 KB is 1024)")
    return int(size)


def _bytes_or_with_unit(value: object) -> object:
    return _bytes_with_unit(value) if isinstance(value, str) else value


# Upper bounds are far beyond any chip; they keep products of these numbers within floating point.
Count = Annotated[int, Field(gt=0, le=2**20)]
Bytes = Annotated[int, Field(gt=0, le=2**40)]
CapacityWithUnit = Annotated[Bytes, BeforeValidator(_bytes_with_unit)]
Capacity = Annotated[Bytes, BeforeValidator(_bytes_or_with_unit)]
"""Whole bytes, or a number and a unit."""
Rate = PositiveFloat
Energy = NonNegativeFloat
Name = Annotated[str, Field(min_length=1)]
