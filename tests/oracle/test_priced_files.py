"""The oracle against the priced schedules: its reading of the contract is that of an independent evaluator."""

import math

import pytest

from oracle import cost
from oracle.files import FOLDER, read

PRICED = sorted(FOLDER.glob("*.json"))


def test_all_priced_schedules_are_there():
    assert len(PRICED) == 40


@pytest.mark.parametrize("path", PRICED, ids=lambda path: path.stem)
def test_the_walk_finds_the_cost_that_a_file_states(path):
    schedule, stated = read(path)
    energy_pj, cycles = cost(schedule)
    assert math.isclose(energy_pj, stated["energy_pj"], rel_tol=1e-9)
    assert math.isclose(cycles, stated["cycles"], rel_tol=1e-9)
