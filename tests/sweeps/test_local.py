"""The crew of this computer: processes with their own cores, which may fail and die."""

import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fadiff.errors import FadiffError
from fadiff.sweeps import local
from fadiff.sweeps.local import Local, LostError, shares
from sweeps.jobs import AwkwardError, Job, always_dies, dies_once, fails, slow, who


def each(workers: int, todo: list[Job], work: Callable[[Job], object], began: Callable[[Job], None] = lambda job: None):
    return Local(workers).each(todo, work, kin=lambda job: job.letter, began=began, lesson=lambda job: job)


def letters(text: str, folder: Path | str = "", seconds: float = 0.0) -> list[Job]:
    return [Job(letter, str(folder), seconds) for letter in text]


def test_cores_are_dealt_out_evenly(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local.os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    assert shares(3) == [[0, 1], [2, 3], [4, 5]]
    assert shares(8) == [[0], [1], [2], [3], [4], [5], [0], [1]]
    assert shares(4) == [[0], [1], [2], [3]]


def test_every_job_is_done_by_a_process_with_its_own_cores():
    jobs = [Job(letter, str(i)) for i in range(3) for letter in "ab"]
    began: list[Job] = []
    found = dict(each(2, jobs, who, began.append))
    assert found.keys() == {*jobs} == {*began}
    cores = {pid: tuple(mine) for pid, mine in found.values()}
    assert 1 <= len(cores) <= 2
    assert os.getpid() not in cores
    assert {*cores.values()} <= {tuple(share) for share in shares(2)}


def next_of(waiting: list[Job], worker: local._Worker, crew: list[local._Worker]) -> Job:
    """Kins are letters, and lessons folders."""
    return local._next(waiting, lambda job: job.letter, lambda job: job.folder, worker, crew)


def a_worker(kins: str = "", lesson: str | None = None) -> local._Worker:
    return local._Worker(None, None, [], kins={*kins}, lesson=lesson)  # pyright: ignore


def test_a_process_takes_its_kin_then_what_nobody_has_seen_then_helps_the_others():
    waiting = letters("aab")
    new, seen = a_worker(), a_worker("a")
    assert next_of(waiting, seen, [new, seen]).letter == "a"
    assert next_of(waiting, new, [new, seen]).letter == "b", "nobody has seen it"
    assert next_of(waiting[:2], new, [new, seen]).letter == "a"


def test_a_process_ends_its_lesson_then_takes_one_that_nobody_is_at_then_helps_the_others():
    waiting = [Job("a", "first"), Job("a", "second"), Job("b", "third")]
    one, other = a_worker("ab", "first"), a_worker("a", "second")
    assert next_of(waiting, one, [one, other]).folder == "first"
    assert next_of(waiting[1:], one, [one, other]).folder == "third"
    assert next_of(waiting[1:2], one, [one, other]).folder == "second"


def test_a_single_process_does_those_of_a_lesson_one_after_the_other():
    jobs = [Job("a", "first"), Job("a", "second"), Job("b", "first")]
    assert [job.folder for job in local.in_turn(jobs, lambda job: job.folder)] == ["first", "first", "second"]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_goes_wrong_is_an_outcome_and_stops_nothing(workers: int):
    found = {job.letter: outcome for job, outcome in each(workers, letters("abcd"), fails)}
    assert (found["a"], found["d"]) == ("a", "d")
    assert isinstance(found["b"], FadiffError)
    assert str(found["b"]) == "b will not do"
    if workers == 1:
        assert isinstance(found["c"], AwkwardError)
    else:
        assert str(found["c"]) == "AwkwardError: 1 and 2", "it cannot be sent as it is"
        assert "in fails" in found["b"].__notes__[0], "where it came from"


def test_a_process_that_dies_is_replaced_and_its_job_done_again(tmp_path: Path):
    found = dict(each(2, letters("abcd", tmp_path), dies_once))
    assert {job.letter: outcome for job, outcome in found.items()} == {letter: letter for letter in "abcd"}


def test_a_job_whose_processes_die_is_lost_and_the_others_are_done():
    found = {job.letter: outcome for job, outcome in each(2, letters("abc"), always_dies)}
    assert (found["a"], found["c"]) == ("a", "c")
    assert isinstance(found["b"], LostError)
    assert "died 2 times (exit code -9)" in str(found["b"])


def test_what_is_under_way_is_stopped_with_the_run(tmp_path: Path):
    jobs = [Job("a"), *letters("bc", tmp_path, 30)]
    jobs[0] = Job("a", str(tmp_path))
    found = each(2, jobs, slow)
    assert next(found)[1] == "a"
    with pytest.raises(KeyboardInterrupt):
        found.throw(KeyboardInterrupt)
    assert not multiprocessing.active_children()
    time.sleep(0.05)
    assert not [path for letter in "bc" for path in tmp_path.glob(f"{letter}-done")]
