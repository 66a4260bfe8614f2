"""Random search: schedules drawn uniformly in the encoding and repaired, the best kept.

Every prime factor goes to a useful node, every order, wish and strength is drawn, all uniformly
(:meth:`fadiff.search.evolutionary.genome.Encoding.random`), and the genomes are repaired and priced in batches.
Nothing is learned from one batch to the next, and the greedy schedule is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.driver import Incumbent, Settings, Status
from fadiff.search.evolutionary.genome import Encoding
from fadiff.search.evolutionary.repair import Repair, offer_best
from fadiff.search.exact.conditions import Task

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.workload import Workload


@dataclass(frozen=True)
class RandomSettings:
    """How much is drawn."""

    batch: int = 256
    """Schedules drawn in a step."""
    batches: int = 4000


def random_search(
    workload: Workload,
    machine: Machine,
    settings: Settings,
    incumbent: Incumbent,
    own: RandomSettings = RandomSettings(),
) -> Iterator[Status]:
    """The generator behind ``--method random``."""
    random = np.random.default_rng(settings.seed)
    repair = Repair(Encoding(Task(workload, machine, settings.deadline)))
    best = np.inf
    for batch in range(own.batches):
        population = repair(repair.encoding.random(random, own.batch))
        best = offer_best(repair, population, population.score(settings.objective), incumbent, best)
        yield Status("draw", batch + 1, own.batches)
