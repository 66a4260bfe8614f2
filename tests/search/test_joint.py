"""Rounds of restarts against the clock: what does not fit in the budget is left out, and told."""

from types import SimpleNamespace

import numpy as np
import pytest

from fadiff.search import driver, gradient, joint
from fadiff.search.driver import OutOfTimeError, Settings, Status
from fadiff.search.exact import steps
from fadiff.search.gradient.device import AT_ONCE_ON_CORES
from fadiff.search.joint import WHOLE
from search.clock import Clock

STEPS = 100
TOLD = gradient.DescentSettings(steps=STEPS)


class Descents:
    """Stand-ins for the descent, whose steps take their time; what they were asked for."""

    def __init__(self, clock, step_seconds, decode_seconds=0.0, compile_error=None):
        self.clock, self.step_seconds, self.decode_seconds = clock, step_seconds, decode_seconds
        self.compile_error = compile_error
        self.rounds, self.pieces = [], []

    def pack_problem(self, workload, machine, told):
        return None

    def init(self, problem, told, seed, starts):
        self.rounds.append((told.restarts, seed, starts))

    def compile_steps(self, problem, told, state, deadline):
        if self.compile_error:
            raise OutOfTimeError(self.compile_error)

    def step(self, problem, told, state, count):
        self.clock.now += count * self.step_seconds
        self.pieces.append(count)

    def read_out(self, problem, told, state):
        return SimpleNamespace(penalty=np.zeros(2), log_edp=np.zeros(2))

    def decode(self, known, proposals, parts, *, fuse):
        self.clock.now += self.decode_seconds
        yield Status("decode")


@pytest.fixture
def descents(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(driver, "clock", clock)

    def make(step_seconds, **rest):
        made = Descents(clock, step_seconds, **rest)
        for name in ("pack_problem", "init", "compile_steps", "step", "read_out"):
            monkeypatch.setattr(gradient, name, getattr(made, name))
        monkeypatch.setattr(joint, "_decode", made.decode)
        return made

    return make


def rounds(descents, budget_seconds, restarts, seed=7):
    settings = Settings(seed=seed, restarts=restarts, deadline=descents.clock.now + budget_seconds)
    best = SimpleNamespace(schedule="the incumbent")
    known = SimpleNamespace(settings=settings, best=best, task=SimpleNamespace(workload=None, machine=None))
    return list(joint._rounds(known, TOLD, WHOLE))


def test_few_restarts_run_as_one_batch_with_the_seed_itself(descents):
    made = descents(0.01)
    phases = [(status.phase, status.step) for status in rounds(made, 100, restarts=AT_ONCE_ON_CORES)]
    assert made.rounds == [(AT_ONCE_ON_CORES, 7, ["the incumbent"])]
    assert phases == [("descend", 50), ("descend", STEPS), ("decode", 0)]


def test_many_restarts_run_in_rounds_of_one_size_with_seeds_of_their_own(descents):
    made = descents(0.01)
    rounds(made, 1000, restarts=300)
    sizes, seeds, _ = zip(*made.rounds, strict=True)
    assert sizes == (100, 100, 100)
    assert len(set(seeds)) == 3


def test_slow_steps_are_taken_few_at_a_time(descents):
    made = descents(0.125)
    rounds(made, 100, restarts=8)
    assert max(made.pieces) == 4
    assert sum(made.pieces) == STEPS


def test_steps_that_take_longer_than_the_time_that_is_left_end_after_a_few(descents):
    made = descents(1.0)
    with pytest.raises(OutOfTimeError, match=r"^the descent was left out: 40 s were left for 90 s of steps$"):
        rounds(made, 50, restarts=8)
    assert sum(made.pieces) == 10


def test_a_round_that_would_end_too_late_is_not_begun(descents):
    made = descents(0.01, decode_seconds=1.0)  # 2 s each
    with pytest.raises(OutOfTimeError, match=r"^126 of 128 rounds of restarts were left out$"):
        rounds(made, 5, restarts=16384)
    assert sum(made.pieces) == 2 * STEPS
    assert made.clock.now == 1004


def test_a_descent_that_cannot_be_compiled_in_time_says_so(descents):
    made = descents(0.01, compile_error="the descent was left out: 3 s were left")
    with pytest.raises(OutOfTimeError, match=r"^the descent was left out: 3 s were left$"):
        rounds(made, 3, restarts=1000)
    assert made.pieces == []


def test_what_there_is_no_time_for_does_not_end_the_search_and_is_told(monkeypatch):
    done = []

    class Known:
        taught = False

        def __init__(self, task, settings, incumbent):
            self.task, self.groups, self.learned = SimpleNamespace(fusing=0), [], None
            self.settings, self.incumbent = settings, SimpleNamespace(starts=(), gained=(0.0, (0.0, 0.0)), began=0.0)

        def map(self, starts, *, polished):
            self.groups = ["some"]
            done.append(starts)
            yield Status("map")

        def polish(self):
            yield Status("polish")
            raise OutOfTimeError("polishing was left out")

        def enumerate_plans(self):
            raise OutOfTimeError("large groups were left out")

        def __getattr__(self, name):
            def steps(*_, **__):
                done.append(name)
                yield Status(name)

            return steps

    monkeypatch.setattr(steps, "ExactSearch", Known)
    monkeypatch.setattr(steps.Task, "of", lambda *_: None)
    with pytest.raises(OutOfTimeError, match=r"^large groups were left out; polishing was left out$"):
        list(steps.exact(None, None, Settings(), None))
    assert done == [steps.FIRST_STARTS, "fuse", 64, "solve", "fuse", "refine", "keep_limits"]


def test_of_many_restarts_that_propose_the_same_groups_the_best_is_decoded():
    restarts, random = 3 * joint.MOST_DECODED, np.random.default_rng(0)
    sigma = random.integers(0, 2, (restarts, 4)) * 0.98 + 0.01
    log_edp = random.normal(size=restarts)
    nothing = np.ones((restarts, 1, 8, 2), dtype=int)
    proposals = gradient.Proposals(
        nothing, nothing[..., 0, :], nothing[:, 0, :4], sigma, log_edp, penalty=np.zeros(restarts)
    )
    best = joint._best(proposals)
    fused = [tuple(row) for row in best.sigma > 0.5]
    assert len(set(fused)) == len(fused) == 16
    for row, edp in zip(fused, best.log_edp, strict=True):
        assert edp == log_edp[((sigma > 0.5) == row).all(axis=1)].min()
    assert list(best.log_edp) == sorted(best.log_edp)
