"""Random search: what it offers was drawn, repaired and priced, and greedy has no part in it."""

from functools import partial

import numpy as np
import pytest

from fadiff.cost import evaluate, save_schedule
from fadiff.schedule.legality import violations
from fadiff.search.driver import OBJECTIVES, Incumbent, Settings, score, search
from fadiff.search.random_search import RandomOptions, random_search
from search.networks import NETWORKS, machine
from search.populations import BATCH, random_genomes, repair_of

SMALL = RandomOptions(batch=BATCH, batches=4)
CHIP = machine(rows=2, cols=4, l1_bytes=128, l2_bytes=100)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_best_of_all_that_was_drawn_is_kept(name, objective):
    result = search(NETWORKS[name], CHIP, partial(random_search, options=SMALL), Settings(seed=7, objective=objective))
    assert result.stopped == "done"
    assert violations(result.found.schedule) == []
    repair, random = repair_of(NETWORKS[name], CHIP), np.random.default_rng(7)
    drawn = [repair(repair.encoding.random(random, BATCH)) for _ in range(SMALL.batches)]
    best = min(score(evaluate(repair.schedule(population, i)), objective) for population in drawn for i in range(BATCH))
    assert score(result.found, objective) == pytest.approx(best, rel=1e-6)


def test_greedy_is_not_among_what_is_offered():
    """With one draw, a random schedule stands alone: it is worse than greedy."""
    incumbent = Incumbent("edp")
    method = random_search(NETWORKS["residual"], CHIP, Settings(), incumbent, RandomOptions(batch=BATCH, batches=1))
    assert [status.phase for status in method] == ["draw"]
    repair = repair_of(NETWORKS["residual"], CHIP)
    population = repair(random_genomes(repair.encoding, 0, BATCH))
    assert incumbent.offered == 1
    assert incumbent.best.schedule == repair.schedule(population, int(population.score("edp").argmin()))


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    for i, seed in enumerate((3, 3, 4)):
        result = search(NETWORKS["conv_chain"], CHIP, partial(random_search, options=SMALL), Settings(seed=seed))
        save_schedule(tmp_path / f"{i}.json", result.found.schedule)
    written = [(tmp_path / f"{i}.json").read_bytes() for i in range(3)]
    assert written[0] == written[1]
    assert written[0] != written[2]


def test_the_budget_ends_the_search():
    result = search(NETWORKS["conv_chain"], CHIP, random_search, Settings(), budget_seconds=0.01)
    assert result.stopped == "budget"
    assert violations(result.schedule) == []
