"""A genetic algorithm over factors, loop orders and fusion: pymoo's, with operators that know a layer.

Genomes are those of :mod:`fadiff.search.evolutionary.genome`; every generation is repaired and priced at once
(:mod:`fadiff.search.evolutionary.repair`), and the repaired genomes take the place of the ones that were bred, so
that children inherit what was priced. A few populations evolve side by side, as on islands, and now and then exchange
their best. The first begins with the greedy schedule, mutants of it, and random genomes; the others with random ones
only.

- *Selection*: binary tournaments. *Survival*: the best of parents and children together, each schedule once.
- *Crossover*: a child takes whole layers, with their mappings and incoming edges, from one of two parents: each layer
  by a coin, or those between two cut points in topological order.
- *Mutation*: a few changes, each one of: a move of the exact search in a layer's mapping (a factor goes from one node
  to another, or grows or shrinks); the loops of a memory get another order; neighbours are fused or cut; all layers of
  a group wish to share a loop more or less, or draw their wishes anew; a layer takes over the mapping of a layer of the
  same shape. Often all changes of mappings meet one layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.driver import Incumbent, Settings, Status
from fadiff.search.evolutionary.breeding import Breeder, Chances
from fadiff.search.evolutionary.island import Island, Rates
from fadiff.search.evolutionary.repair import Judge
from fadiff.search.greedy import greedy

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.search.evolutionary.genome import GeneRows
    from fadiff.workload import Workload


@dataclass(frozen=True)
class GeneticSettings:
    """Sizes and rates.

    The number and the size of the islands, how often they meet, and the rates were chosen on resnet18 and gpt3-6.7b
    with gemmini-large, two seeds each, by the EDP after 60,000 schedules.
    """

    islands: int = 4
    """Populations; all children of a generation are priced at once."""
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
    machine: Machine,
    settings: Settings,
    incumbent: Incumbent,
    own: GeneticSettings = GeneticSettings(),
) -> Iterator[Status]:
    """The generator behind ``--method genetic``; `settings.restarts` is the number of islands."""
    random = np.random.default_rng(settings.seed)
    judge = Judge(workload, machine, settings, incumbent)
    breeder, count = Breeder(judge.encoding, own.chances), settings.restarts or own.islands

    def island(rows: GeneRows) -> Island:
        return Island(breeder, own.rates, rows, seed=int(random.integers(2**31)))

    def strangers() -> list[Island]:
        """New populations of random genomes, for all islands but the first."""
        drawn = [judge.encoding.random(random, own.population) for _ in range(count - 1)]
        return list(map(island, drawn))

    islands = [island(_natives(breeder, own, random)), *strangers()]
    since = 0
    for generation in range(1, own.generations + 1):
        broods = [brood for brood in (one.children() for one in islands) if brood is not None]
        if len(broods) < count:
            # So few schedules exist that a population has seen them all.
            return
        before, (rows, scores) = judge.best, judge(np.concatenate(broods))
        ends = np.cumsum([len(brood) for brood in broods])[:-1]
        for one, mine, worth in zip(islands, np.split(rows, ends), np.split(scores, ends), strict=True):
            one.grow(mine, worth)
        if generation % own.migration == 0:
            _migrate(islands, own.migrants)
        since = 0 if judge.best < before else since + 1
        if since == own.patience:
            islands, since = [islands[0], *strangers()], 0
        yield Status("evolve", generation, own.generations)


def _natives(breeder: Breeder, own: GeneticSettings, random: np.random.Generator) -> GeneRows:
    """The greedy schedule, half a population of its mutants, and random genomes."""
    code, rates, count = breeder.encoding, own.rates, own.population
    first = code.of_schedule(greedy(code.task.workload, code.task.machine))
    kin = breeder.mutated(random, first.repeat(max(1, count // 2), axis=0), rates.changes, rates.focus)
    return np.concatenate([first, kin, code.random(random, count)])[:count]


def _migrate(islands: Sequence[Island], count: int) -> None:
    """Give each island the best of the one before it."""
    travelling = [one.fittest(count) for one in islands]
    for i, one in enumerate(islands):
        if len(islands) > 1:
            one.welcome(*travelling[i - 1])
