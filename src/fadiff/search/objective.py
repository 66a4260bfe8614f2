r"""What a search minimizes, told once: a power of energy times a power of latency.

.. math:: (E + s\,T + charges)^a \; T^b

E is the network's energy in pJ, T its latency in cycles. With s = 0 and no charges this is energy (a = 1, b = 0),
latency (0, 1), EDP (1, 1) or ED2P (1, 2). A cycle may cost s pJ: what leaks while the machine waits, or the price of
time in a weighted sum, since :math:`p E + q T = p (E + (q/p) T)`. Charges add pJ to layers.

Its logarithm is concave in E and T and rises with both. So above lines in the (E, T) plane it is least at a corner.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from fadiff.cost.model import LayerCosts
from fadiff.errors import FadiffError

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float

    from fadiff.cost import Evaluation

    Point = tuple[float, float]

Weights = tuple[float, float]
"""Prices of a pJ and of a cycle."""

TIE = 1e-4
"""An exponent that is 0 is so in a search: of schedules that are equally good, it takes the one that is better in the
other measure."""

MOST_POWER, PJ_PER_CYCLE = 100, (1e-12, 1e12)
"""Exponents up to here, and prices of a cycle between these: beyond, one measure drowns the other in rounding."""


@dataclass(frozen=True)
class Charge:
    """pJ that each run of a layer costs besides its energy: a function of what the model says of layers.

    `pj` gets the :class:`~fadiff.cost.model.LayerCosts` of many layers and the array library they are of, NumPy or
    `jax.numpy`, and gives one number a layer. The search compiles it: it may use what the library has, and no `if`.
    """

    name: str
    pj: Callable[[LayerCosts, Any], Any]
    least_pj: float = 0.0
    """What the whole network is charged at least: a bound counts on it."""


Charges = tuple[Charge, ...]


def charged_pj(costs: LayerCosts, charges: Charges, xp: Any) -> Float[Array, "*batch layers"]:  # noqa: ANN401
    """The energy of layers with their charges."""
    energy = costs.energy_pj
    for charge in charges:
        energy = energy + charge.pj(costs, xp)
    return energy


@dataclass(frozen=True)
class Objective:
    """What a search minimizes: (E + s T + charges)^a * T^b.

    >>> Objective(latency=2), Objective.of("2*energy + 0.5*latency").pj_per_cycle
    (Objective('ed2p'), 0.25)
    """

    energy: float = 1.0
    """The exponent a."""
    latency: float = 1.0
    """The exponent b."""
    pj_per_cycle: float = 0.0
    """What a cycle costs, s: leakage (mW / MHz * 1000), or the price of time."""
    charges: Charges = ()

    def __post_init__(self) -> None:
        told = f"objective energy^{self.energy:g} * latency^{self.latency:g} at {self.pj_per_cycle:g} pJ a cycle"
        if not (0 <= self.energy <= MOST_POWER and 0 <= self.latency <= MOST_POWER and self.energy + self.latency):
            raise FadiffError(f"{told}: exponents are from 0 to {MOST_POWER}, and one is above 0")
        least, most = PJ_PER_CYCLE
        if self.pj_per_cycle and not least <= self.pj_per_cycle <= most:
            raise FadiffError(f"{told}: a cycle costs nothing, or from {least:g} to {most:g} pJ")
        if not self.energy and (self.pj_per_cycle or self.charges):
            raise FadiffError("an objective without energy has no pJ to add: give energy an exponent above 0")

    @classmethod
    def of(cls, given: Objective | str) -> Objective:
        """An objective as it is, by its name, or from a formula."""
        return given if isinstance(given, Objective) else _parsed(given)

    @property
    def name(self) -> str:
        """The name, or the formula; without charges it can be read again."""
        known = next((name for name, one in OBJECTIVES.items() if one == replace(self, charges=())), None)
        if known is None:
            cycle = f" + {_text(self.pj_per_cycle)}*latency" if self.pj_per_cycle else ""
            if cycle and (self.energy, self.latency) == (1, 0):
                known = f"energy{cycle}"
            else:
                powers = ((f"(energy{cycle})" if cycle else "energy", self.energy), ("latency", self.latency))
                known = " * ".join(what if power == 1 else f"{what}^{_text(power)}" for what, power in powers if power)
        return " + ".join([known, *(charge.name for charge in self.charges)])

    def __repr__(self) -> str:
        return f"Objective({self.name!r})"

    @property
    def one_sided(self) -> bool:
        """Whether it is of energy alone, or of latency alone."""
        return not self.energy or not (self.latency or self.pj_per_cycle)

    @property
    def prices(self) -> Weights | None:
        """Prices of a pJ and a cycle that are the same everywhere; None where they depend on the schedule."""
        if not self.energy:
            return 0.0, 1.0
        return None if self.latency else (1.0, self.pj_per_cycle)

    @property
    def exponents(self) -> Weights:
        """The exponents in a search, which breaks ties."""
        return self.energy or TIE, self.latency or (0.0 if self.pj_per_cycle else TIE)

    def leaking_pj(self, energy_pj: Any, cycles: Any) -> Any:  # noqa: ANN401  (numbers or arrays)
        """E + s T."""
        return energy_pj + self.pj_per_cycle * cycles if self.pj_per_cycle else energy_pj

    def log_value(self, energy_pj: Any, cycles: Any, log: Callable[[Any], Any] = math.log) -> Any:  # noqa: ANN401
        """The logarithm of what the search minimizes; energies have their charges already."""
        a, b = self.exponents
        return a * log(self.leaking_pj(energy_pj, cycles)) + b * log(cycles)

    def point(self, evaluation: Evaluation) -> Point:
        """Energy with charges, and latency, of a schedule or an excerpt of one."""
        energy_pj = evaluation.energy_pj
        for charge in self.charges:
            pj = float(np.sum(np.asarray(charge.pj(_costs(evaluation), np)) * evaluation.repeat))
            if not isfinite(pj) or (pj < charge.least_pj * (1 - 1e-9) and not evaluation.schedule.is_excerpt):
                told = f"charges {pj:g} pJ, and at least {charge.least_pj:g} is told"
                raise FadiffError(f"{charge.name!r} {told}: give it the least_pj that holds for every schedule")
            energy_pj += pj
        return energy_pj, evaluation.cycles

    def score(self, evaluation: Evaluation) -> float:
        """The logarithm of what the search minimizes, for one schedule."""
        return self.log_value(*self.point(evaluation))

    def weights(self, evaluation: Evaluation) -> Weights:
        r"""Prices of a pJ and a cycle near a schedule: the slope of the score.

        .. math:: \frac{a}{E + sT}, \qquad \frac{b}{T} + \frac{a\,s}{E + sT}

        For EDP, d log(E*T) = dE/E + dT/T: a pJ costs 1/E and a cycle 1/T.
        """
        return self._slope(self.point(evaluation), *self.exponents)

    def slope(self, point: Point) -> Weights:
        """The same at a point of the plane, without what breaks ties."""
        return self._slope(point, self.energy, self.latency)

    def _slope(self, point: Point, a: float, b: float) -> Weights:
        energy_pj, cycles = self.leaking_pj(*point), point[1]
        return a / energy_pj, b / cycles + a * self.pj_per_cycle / energy_pj

    def ratio(self, point: Point, other: Point) -> float:
        """How much dearer a point of the plane is than another, without what breaks ties."""
        energy, latency = self.leaking_pj(*point) / self.leaking_pj(*other), point[1] / other[1]
        return energy**self.energy * latency**self.latency

    def lowest(self, corners: Iterable[Point]) -> Point:
        """The corner of a region above lines than which no point of it is cheaper."""
        log = math.log
        return min(corners, key=lambda at: self.energy * log(self.leaking_pj(*at)) + self.latency * log(at[1]))

    def gap(self, evaluation: Evaluation, corners: Iterable[Point]) -> float:
        """By how much a schedule may be above the best there is, cost / bound - 1, where all are above lines that meet
        at these corners; 0 without any. Charges are taken to be the least that they are told to be."""
        least = sum(charge.least_pj for charge in self.charges)
        found = [(energy_pj + least, cycles) for energy_pj, cycles in corners]
        return self.ratio(self.point(evaluation), self.lowest(found)) - 1 if found else 0.0


EDP, ENERGY, LATENCY, ED2P = Objective(), Objective(latency=0.0), Objective(energy=0.0), Objective(latency=2.0)
OBJECTIVES = {"edp": EDP, "energy": ENERGY, "latency": LATENCY, "ed2p": ED2P}
"""Objectives by name."""
STATED = (EDP, ENERGY, LATENCY)
"""Those whose values and bounds every summary and every file states."""


def _text(number: float) -> str:
    """A number as short as it can be read again."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)


def _costs(evaluation: Evaluation) -> LayerCosts:
    """What the model says of the layers of an evaluation."""
    memories = len(evaluation.schedule.machine.memories)
    steps, terms, vector = evaluation.terms[0], evaluation.terms[1 : 1 + memories], evaluation.terms[1 + memories :]
    return LayerCosts(
        words=tuple(evaluation.words),  # pyright: ignore[reportArgumentType]  (arrays of NumPy)
        steps=steps,  # pyright: ignore[reportArgumentType]
        memory_cycles=tuple(terms),  # pyright: ignore[reportArgumentType]
        vector_cycles=vector[0] if len(vector) else np.zeros_like(steps),  # pyright: ignore[reportArgumentType]
        cycles=evaluation.layer_cycles,  # pyright: ignore[reportArgumentType]
        energy_pj=evaluation.layer_energy_pj,  # pyright: ignore[reportArgumentType]
    )


_NUMBER = r"\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?"
_UNITS = {"energy": {"/pj": 1.0, "/nj": 1e-3, "/uj": 1e-6, "/mj": 1e-9}}
_UNITS["latency"] = {"/cycle": 1.0, "/kcycle": 1e-3, "/mcycle": 1e-6, "pj/cycle": 1.0, "nj/cycle": 1e3}
"""What a price may be per; leakage is energy per cycle."""
_TERM = re.compile(rf"(?:({_NUMBER})([a-z/]*)\*)?(energy|latency)")
_FACTOR = re.compile(rf"(energy|latency|\([^()]*\))(?:\^({_NUMBER}))?")
EXAMPLES = '"energy * latency^2", "2*energy + 0.5*latency" or "(energy + 3*latency) * latency"'


def _parsed(text: str) -> Objective:
    """An objective from its name or formula: factors with powers, or a sum of terms with prices."""
    plain = re.sub(r"\s+", "", text).lower().replace("**", "^")
    if (known := OBJECTIVES.get(plain)) is not None:
        return known
    if (prices := _sum(plain)) is not None:
        return _weighted(*prices)
    a = b = price = 0.0
    factors = re.sub(r"\*(?![^()]*\))", "\n", plain).split("\n")
    for found in map(_FACTOR.fullmatch, factors):
        prices = None if found is None else _sum(found[1].strip("()"))
        if found is None or prices is None:
            told = f"use one of {', '.join(OBJECTIVES)}, or a formula such as {EXAMPLES}"
            raise FadiffError(f"objective {text!r} is unknown: {told}")
        base, power = _weighted(*prices), float(found[2] or 1)
        if a and base.energy and base.pj_per_cycle != price:
            raise FadiffError(f"objective {text!r} has two kinds of energy: write one sum with a power")
        a, b = a + power * base.energy, b + power * base.latency
        price = base.pj_per_cycle if base.energy else price
    return Objective(a, b, price)


def _sum(text: str) -> Weights | None:
    """The prices of a pJ and of a cycle in a sum; None where it is none."""
    prices = {"energy": 0.0, "latency": 0.0}
    for found in map(_TERM.fullmatch, re.split(r"(?<!e)\+", text)):
        if found is None or (found[2] and found[2] not in _UNITS[found[3]]):
            return None
        prices[found[3]] += float(found[1] or 1) * _UNITS[found[3]].get(found[2] or "", 1.0)
    return prices["energy"], prices["latency"]


def _weighted(energy: float, latency: float) -> Objective:
    """energy * E + latency * T, of which only the ratio matters."""
    if not energy + latency:
        raise FadiffError("an objective whose prices are all 0 prefers nothing: give energy or latency a price above 0")
    return Objective(1.0, 0.0, latency / energy) if energy else LATENCY
