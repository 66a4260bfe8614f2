"""Climbs of a finished schedule's layers: what is priced together, and that it changes nothing."""

import jax.numpy as jnp
import numpy as np

from fadiff import greedy
from fadiff.cost import Evaluation, evaluate
from fadiff.reproduce.deep import different
from fadiff.search.exact.climb import Moves, changed, moved
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.menus import Row, started
from fadiff.search.exact.starts import outermost, pinned, scattered
from fadiff.search.explain import climbs
from search.networks import GEMMINI, NETWORKS

WEIGHTS = (1e-4, 1e-3)


def some_rows(count):
    task = Task(different(count), GEMMINI, dtype=np.float64)
    random = np.random.default_rng(0)
    conditions = [task.alone(layer.name) for layer in task.workload.layers]
    starts = [scattered(task, one, random) for one in conditions]
    starts[::3] = [outermost(task) for _ in starts[::3]]
    starts[1::3] = [pinned(task, one) for one in conditions[1::3]]
    return task, [Row(one, start, task.all_room) for one, start in zip(conditions, starts, strict=True)]


def climbed_in_parts_of(size, monkeypatch):
    """What ten layers climb to, and how many of them each call of the model prices."""
    task, rows = some_rows(10)
    calls = []

    def after_moves(task, rows, now, weights):
        calls.append(len(rows))
        return real(task, rows, now, weights)

    real = climbs.after_moves
    with monkeypatch.context() as patched:
        patched.setattr(climbs, "after_moves", after_moves)
        patched.setattr(climbs, "CANDIDATES_PER_CALL", size * task.widths[False])
        return climbs.climbed(task, rows, WEIGHTS), calls


def test_layers_that_still_move_are_priced_together_round_by_round(monkeypatch):
    whole, rounds = climbed_in_parts_of(10, monkeypatch)
    parts, calls = climbed_in_parts_of(4, monkeypatch)
    assert len(set(rounds)) > 2  # some layers end before others
    assert rounds == sorted(rounds, reverse=True)
    assert calls == [min(4, left - at) for left in rounds for at in range(0, left, 4)]
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_move_does_the_same_with_and_without_a_compiler():
    for task in (some_rows(4)[0], Task(NETWORKS["attention"], GEMMINI, dtype=np.float64)):
        conditions = [task.alone(layer.name) for layer in task.workload.layers]
        random = np.random.default_rng(1)
        rows = [Row(one, scattered(task, one, random), task.all_room) for one in conditions]
        now, tile = started(task, rows, WEIGHTS), np.transpose([one.tile for one in conditions]).astype(np.float64)
        moves = task.moves(conditions, pairs=False)
        here = moved(now.factors[:, :, None], now.order[:, None], moves, tile[:, None])
        there = moved(
            jnp.asarray(now.factors[:, :, None]),
            jnp.asarray(now.order[:, None]),
            Moves(*map(jnp.asarray, moves)),
            jnp.asarray(tile[:, None]),
        )
        for mine, compiled in zip(here, there, strict=True):
            np.testing.assert_array_equal(mine, compiled)
        assert (np.asarray(here[0]) != now.factors[:, :, None]).any()


def mappings_of(row, factors, order):
    return [(factors[:, :, move, row].tobytes(), order[:, move, row].tobytes()) for move in range(factors.shape[2])]


def test_moves_that_change_nothing_are_priced_once():
    task, rows = some_rows(6)
    conditions = [row.condition for row in rows]
    now, tile = started(task, rows, WEIGHTS), np.transpose([one.tile for one in conditions]).astype(np.float64)
    given = now.factors[:, :, None], now.order[:, None], task.moves(conditions, pairs=False), tile[:, None]
    every, few = moved(*given), changed(*given)
    most = []
    for row in range(len(rows)):
        (before,) = mappings_of(row, *given[:2])
        after = mappings_of(row, *every)
        taken = [one for i, one in enumerate(after) if one != before or i == after.index(before)]
        told = mappings_of(row, *few)
        assert told == taken + [before] * (len(told) - len(taken))
        most.append(len(taken))
    assert few[0].shape[2] == max(most) < every[0].shape[2]
    assert min(most) < max(most)


def test_an_excerpt_of_an_evaluation_is_what_its_groups_cost():
    evaluation = evaluate(greedy(different(5), GEMMINI))
    for groups in (evaluation.schedule.groups[1:3], evaluation.schedule.groups[::-2]):
        priced, taken = evaluate(evaluation.schedule.excerpt(groups)), evaluation.excerpt(groups)
        for field in Evaluation.__dataclass_fields__:
            np.testing.assert_equal(getattr(taken, field), getattr(priced, field))
