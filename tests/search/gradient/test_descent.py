"""The descent as a whole: where it starts, that it is one path however it is cut, and where it goes."""

from dataclasses import replace

import jax
import numpy as np

from fadiff.schedule.arrays import pack_schedule
from fadiff.search.gradient import DescentSettings, init, pack_problem, read_out, step
from fadiff.search.greedy import greedy
from search.gradient.toys import ROOMY, TIGHT, chain, pair, residual

SETTINGS = DescentSettings(restarts=8, steps=200, max_candidates=32)


def leaves(state):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state._replace(key=jax.random.key_data(state.key)))]


def test_a_descent_is_the_same_however_its_steps_are_cut():
    problem = pack_problem(residual(), ROOMY, SETTINGS)
    start = init(problem, SETTINGS, 3)
    whole = step(problem, SETTINGS, start, 5)
    parts = step(problem, SETTINGS, step(problem, SETTINGS, start, 2), 3)
    assert int(whole.step) == 5
    assert all(np.array_equal(a, b) for a, b in zip(leaves(whole), leaves(parts), strict=True))
    first, second = (read_out(problem, SETTINGS, whole) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(init(problem, SETTINGS, 4).params.log_factors, start.params.log_factors)


def test_the_first_restart_proposes_the_start_it_was_given():
    alone = replace(SETTINGS, fuse=False)
    workload = pair()
    schedule = greedy(workload, ROOMY)
    schedule = replace(schedule, groups=tuple(replace(schedule.groups[0], layers=(n,)) for n in workload.topological))
    problem = pack_problem(workload, ROOMY, alone)
    found = read_out(problem, alone, init(problem, alone, 0, [schedule]))
    assert np.array_equal(found.factors[0], pack_schedule(schedule).mapping.factors)
    assert (found.factors[1:] != found.factors[0]).any(axis=(1, 2, 3)).all()


def test_descending_ends_legal_and_cheaper_than_any_restart_began():
    problem = pack_problem(chain(), ROOMY, SETTINGS)
    state = init(problem, SETTINGS, 0)
    before = read_out(problem, SETTINGS, state)
    after = read_out(problem, SETTINGS, step(problem, SETTINGS, state, SETTINGS.steps))
    assert after.penalty.max() < 1e-2 < before.penalty.min()
    assert after.log_edp.max() < before.log_edp.min()
    assert after.sigma.max() > 0.9, "something is fused"


def test_where_memories_are_tight_penalties_fall_too():
    problem = pack_problem(pair(), TIGHT, SETTINGS)
    state = init(problem, SETTINGS, 0)
    before = read_out(problem, SETTINGS, state)
    after = read_out(problem, SETTINGS, step(problem, SETTINGS, state, SETTINGS.steps))
    assert after.penalty.mean() < before.penalty.mean() / 2
    assert after.log_edp.mean() < before.log_edp.mean() - 1
