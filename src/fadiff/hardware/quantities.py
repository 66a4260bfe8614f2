"""The quantities that a hardware file states: counts, capacities, clocks and rates with units, energies."""

import re
from collections.abc import Callable
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


NUMBER_PATTERN = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?) *([A-Za-z/]+)")
KILOHERTZ_PER_UNIT = {"kHz": 1, "MHz": 1000, "GHz": 1000**2}
# Rates are told in powers of ten, as data sheets of memories do, unless the unit says otherwise.
BYTES_PER_SECOND = {"MB/s": 10**6, "GB/s": 10**9, "TB/s": 10**12, "MiB/s": 1024**2, "GiB/s": 1024**3, "TiB/s": 1024**4}


def clock_mhz(text: object) -> float:
    """A clock in MHz.

    >>> clock_mhz("800 MHz"), clock_mhz("1.05 GHz")
    (800.0, 1050.0)
    """
    return float(_in_units(text, KILOHERTZ_PER_UNIT, "a clock", "800 MHz") / 1000)


def clock_text(mhz: float) -> str:
    """A clock as files and people write it, the inverse of reading it.

    >>> clock_text(800.0), clock_text(33.3)
    ('800 MHz', '33.3 MHz')
    """
    return f"{float(mhz)!r}".removesuffix(".0") + " MHz"


def bytes_per_second(text: object) -> float:
    """A rate in bytes per second.

    >>> bytes_per_second("12.8 GB/s")
    12800000000.0
    """
    return float(_in_units(text, BYTES_PER_SECOND, "a rate", "12.8 GB/s"))


def _in_units(text: object, units: dict[str, int], what: str, example: str) -> Fraction:
    found = NUMBER_PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or found[2] not in units or not Fraction(found[1]):
        raise ValueError(f"write {what} as a positive number and a unit ({', '.join(units)}), such as {example}")
    return Fraction(found[1]) * units[found[2]]


def _checked_by(read: Callable[[object], float]) -> BeforeValidator:
    """Refuses what cannot be read as a quantity; the text itself stays."""

    def check(text: object) -> object:
        read(text)
        return text

    return BeforeValidator(check)


def bytes_with_unit(text: object) -> int:
    """A capacity in bytes.

    >>> bytes_with_unit("64 KB")
    65536
    """
    found = CAPACITY_PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or found[2] not in BYTES_PER_UNIT:
        raise ValueError("write a capacity as a number and a unit (B, KB, KiB, MB, MiB, GB or GiB), such as 64 KB")
    size = Fraction(found[1]) * BYTES_PER_UNIT[found[2]]
    if size.denominator != 1:
        raise ValueError("write a capacity that comes to whole bytes (1 KB is 1024)")
    return int(size)


def _bytes_or_with_unit(value: object) -> object:
    return bytes_with_unit(value) if isinstance(value, str) else value


# Upper bounds are far beyond any chip; they keep products of these numbers within floating point.
Count = Annotated[int, Field(gt=0, le=2**20)]
Bytes = Annotated[int, Field(gt=0, le=2**40)]
CapacityWithUnit = Annotated[Bytes, BeforeValidator(bytes_with_unit)]
Capacity = Annotated[Bytes, BeforeValidator(_bytes_or_with_unit)]
"""Whole bytes, or a number and a unit."""
Rate = PositiveFloat
ClockWithUnit = Annotated[str, _checked_by(clock_mhz)]
RateWithUnit = Annotated[str, _checked_by(bytes_per_second)]
Energy = NonNegativeFloat
Name = Annotated[str, Field(min_length=1)]
