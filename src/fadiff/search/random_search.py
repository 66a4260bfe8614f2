"""Random search: legal schedules drawn uniformly in the encoding and repaired, the best kept.

Every prime factor goes to a slot, every L3 order and every edge's strength is drawn, all uniformly
(:meth:`fadiff.search.genome.Encoding.random`), and the genomes are repaired and priced in batches. Nothing is learned
from one batch to the next, and the greedy schedule is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.driver import Incumbent, Settings, Status
from fadiff.search.genome import Encoding
from fadiff.search.repair import Repair, offer_best

if TYPE_CHECKING:
    from fadiff.hardware import Hardware
    from fadiff.workload import Workload


@dataclass(frozen=True)
class RandomOptions:
    """How much is drawn."""

    batch: int = 256
    """Schedules priced in one call."""
    batches: int = 4000


def random_search(
    workload: Workload,
    hardware: Hardware,
    settings: Settings,
    incumbent: Incumbent,
    options: RandomOptions = RandomOptions(),
) -> Iterator[Status]:
    """The generator behind ``--method random``."""
    random = np.random.default_rng(settings.seed)
    encoding = Encoding(workload, hardware)
    repair = Repair(encoding, options.batch, settings.deadline)
    best = np.inf
    for batch in range(options.batches):
        population = repair(encoding.random(random, options.batch))
        best = offer_best(repair, population, population.score(settings.objective), incumbent, best)
        yield Status("draw", batch + 1, options.batches)
