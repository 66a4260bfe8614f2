"""A genetic algorithm over factor tuples, loop orders and fusion: pymoo's, with operators that know a layer.

Genomes are those of :mod:`fadiff.search.genome`; every generation is repaired and priced in one compiled call
(:mod:`fadiff.search.repair`), and the repaired genomes take the place of the ones that were bred, so that children
inherit what was priced. A few populations evolve side by side, as on islands, and now and then exchange their best. The
first begins with the greedy schedule, mutants of it, and random genomes; the others with random ones only.

- *Selection*: binary tournaments. *Survival*: the best of parents and children together, each schedule once.
- *Crossover*: a child takes whole layers, with their mappings and incoming edges, from one of two parents: each layer
  by a coin, or those between two cut points in topological order.
- *Mutation*: a few changes, each one of: a prime factor (or a small power of one) of a layer moves to another slot; the
  L3 loops of a layer get another order; neighbours are fused or cut; all layers of a group share a prime factor more or
  less, or draw anew what they share; a layer takes over the mapping of a layer of the same shape. Often all changes of
  mappings meet one layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.breeding import Breeder, Chances
from fadiff.search.driver import Incumbent, Settings, Status
from fadiff.search.genome import Encoding, join, take
from fadiff.search.greedy import greedy
from fadiff.search.island import Island, Rates
from fadiff.search.repair import Repair, offer_best

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fadiff.hardware import Hardware
    from fadiff.workload import Workload

    IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class GeneticOptions:
    """Sizes and rates.

    The number and the size of the islands, how often they meet, and the rates were chosen on resnet18 and gpt3-6.7b
    with gemmini-large, two seeds each, by the EDP after 60,000 schedules.
    """

    islands: int = 4
    """Populations; all children of a generation are priced in one call."""
    population: int = 64
    """Individuals of an island, and children in a generation."""
    generations: int = 3000
    rates: Rates = Rates()
    chances: Chances = Chances()
    migration: int = 20
    """Generations after which each island gets the best of the one before it."""
    migrants: int = 2
    patience: int = 150
    """Generations without a better schedule after which all islands but the first start anew."""


def genetic(
    workload: Workload,
    hardware: Hardware,
    settings: Settings,
    incumbent: Incumbent,
    options: GeneticOptions = GeneticOptions(),
) -> Iterator[Status]:
    """The generator behind ``--method genetic``; `settings.restarts` is the number of islands."""
    random = np.random.default_rng(settings.seed)
    encoding = Encoding(workload, hardware)
    count = settings.restarts or options.islands
    repair = Repair(encoding, count * options.population, settings.deadline)
    breeder = Breeder(encoding, repair.problem, options.chances)

    def island(rows: IntArray) -> Island:
        return Island(breeder, options.rates, rows, seed=int(random.integers(2**31)))

    def strangers() -> list[Island]:
        """New populations of random genomes, for all islands but the first."""
        drawn = [encoding.random(random, options.population) for _ in range(count - 1)]
        return [island(encoding.flat(genomes)) for genomes in drawn]

    islands = [island(_natives(workload, hardware, breeder, options, random)), *strangers()]
    best, since = np.inf, 0
    for generation in range(1, options.generations + 1):
        broods = [brood for brood in (one.children() for one in islands) if brood is not None]
        if len(broods) < count:
            # So few schedules exist that a population has seen them all.
            return
        population = repair(encoding.shaped(np.concatenate(broods)))
        scores = population.score(settings.objective)
        before, best = best, offer_best(repair, population, scores, incumbent, best)
        rows, ends = encoding.flat(population.genomes), np.cumsum([len(brood) for brood in broods])[:-1]
        for one, mine, worth in zip(islands, np.split(rows, ends), np.split(scores, ends), strict=True):
            one.grow(mine, worth)
        if generation % options.migration == 0:
            _migrate(islands, options.migrants)
        since = 0 if best < before else since + 1
        if since == options.patience:
            islands, since = [islands[0], *strangers()], 0
        yield Status("evolve", generation, options.generations)


def _natives(
    workload: Workload, hardware: Hardware, breeder: Breeder, options: GeneticOptions, random: np.random.Generator
) -> IntArray:
    """The greedy schedule, half a population of its mutants, and random genomes."""
    code, rates, count = breeder.encoding, options.rates, options.population
    first = code.of_schedule(greedy(workload, hardware))
    kin = breeder.mutated(random, take(first, [0] * max(1, count // 2)), rates.changes, rates.focus)
    return code.flat(take(join([first, kin, code.random(random, count)]), slice(count)))


def _migrate(islands: Sequence[Island], count: int) -> None:
    """Give each island the best of the one before it."""
    travelling = [one.fittest(count) for one in islands]
    for i, one in enumerate(islands):
        if len(islands) > 1:
            one.welcome(*travelling[i - 1])
