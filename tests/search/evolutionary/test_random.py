"""Random search: what it offers was drawn, repaired and priced, and greedy has no part in it."""

from functools import partial

import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.cost.checked import save_schedule
from fadiff.schedule.rules import violations
from fadiff.search.driver import Incumbent, Settings, search
from fadiff.search.evolutionary.random_search import RandomSettings, random_search
from fadiff.search.objective import EDP, STATED
from search.evolutionary.populations import CHIP, random_rows, repair_of, schedules
from search.networks import EYERISS, NETWORKS

SMALL = RandomSettings(batch=16, batches=3)


@pytest.mark.parametrize("machine", [CHIP, EYERISS], ids=lambda machine: machine.name)
@pytest.mark.parametrize("objective", STATED, ids=lambda objective: objective.name)
def test_the_best_of_all_that_was_drawn_is_kept(machine, objective):
    workload = NETWORKS["concatenation"]
    result = search(workload, machine, partial(random_search, own=SMALL), Settings(seed=7, objective=objective))
    assert result.stopped == "done"
    repair, random = repair_of(workload, machine), np.random.default_rng(7)
    drawn = [repair(repair.encoding.random(random, SMALL.batch)) for _ in range(SMALL.batches)]
    every = [schedule for population in drawn for schedule in schedules(repair, population)]
    best = min(objective.score(evaluate(schedule)) for schedule in every)
    assert objective.score(result.found) == pytest.approx(best, rel=1e-6)


def test_greedy_is_not_among_what_is_offered():
    """With one draw, a random schedule stands alone."""
    incumbent = Incumbent(EDP)
    method = random_search(NETWORKS["residual"], CHIP, Settings(), incumbent, RandomSettings(batch=16, batches=1))
    assert [status.phase for status in method] == ["draw"]
    repair = repair_of(NETWORKS["residual"], CHIP)
    population = repair(random_rows(repair.encoding, 0, 16))
    assert incumbent.offered == 1
    assert incumbent.best.schedule == repair.schedule(population, int(population.score(EDP).argmin()))


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    for i, seed in enumerate((3, 3, 4)):
        result = search(NETWORKS["conv_chain"], CHIP, partial(random_search, own=SMALL), Settings(seed=seed))
        save_schedule(tmp_path / f"{i}.json", result.found.schedule)
    written = [(tmp_path / f"{i}.json").read_bytes() for i in range(3)]
    assert written[0] == written[1]
    assert written[0] != written[2]


def test_the_budget_ends_the_search():
    result = search(NETWORKS["conv_chain"], CHIP, random_search, Settings(), budget_seconds=0.01)
    assert result.stopped == "budget"
    assert violations(result.schedule) == []
