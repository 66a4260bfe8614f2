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
from fadiff.search.evolutionary.repair import Judge

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
    judge = Judge(workload, machine, settings, incumbent)
    for batch in range(own.batches):
        judge(judge.encoding.random(random, own.batch))
        yield Status("draw", batch + 1, own.batches)
