"""The crew on a Ray cluster: a real local one, of two workers."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fadiff.errors import FadiffError
from fadiff.sweeps import on_ray
from fadiff.sweeps.local import LostError
from fadiff.sweeps.on_ray import OnRay
from sweeps.jobs import Job, always_dies, dies_once, fails, slow_at_first

try:
    import ray
except ModuleNotFoundError:
    ray = None

needs_ray = pytest.mark.skipif(ray is None, reason="ray is not installed: pip install 'fadiff-scheduler[cluster]'")


def each(crew: OnRay, todo, work, lesson=lambda job: job):
    return crew.each(todo, work, kin=lambda job: job.letter, began=lambda job: None, lesson=lesson)


@pytest.fixture(scope="module")
def cluster() -> Iterator[OnRay]:
    """Two workers, which find the jobs of this folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        with OnRay("local", at_once=2)._cluster():
            yield OnRay("local")


@needs_ray
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning", "ignore:os.fork:RuntimeWarning"
)
class TestOnACluster:
    def test_a_worker_that_is_killed_in_the_middle_loses_nothing(self, cluster: OnRay, tmp_path: Path):
        jobs = [Job(letter, str(tmp_path), 60.0 if letter == "b" else 0.0) for letter in "abcd"]
        found = each(cluster, jobs, slow_at_first)
        done = [next(found)]
        patience = time.monotonic() + 60
        while not (begun := list(tmp_path.glob("b-*"))):
            assert time.monotonic() < patience
            time.sleep(0.01)
        os.kill(int(begun[0].name.split("-")[1]), signal.SIGKILL)
        done += found
        assert {job.letter: outcome for job, outcome in done} == {letter: letter for letter in "abcd"}
        assert len(list(tmp_path.glob("b-*"))) == 2, "another worker did it again"

    def test_a_lesson_is_one_task_that_is_done_again_where_its_worker_dies(self, cluster: OnRay, tmp_path: Path):
        jobs = [Job(letter, str(tmp_path)) for letter in "abc"]
        found = list(each(cluster, jobs, dies_once, lesson=lambda job: None))
        assert found == [(job, job.letter) for job in jobs]
        lost = list(each(cluster, jobs, always_dies, lesson=lambda job: None))
        assert lost[0] == (jobs[0], "a")
        assert [isinstance(what, LostError) for _, what in lost] == [False, True, True]

    def test_what_goes_wrong_is_an_outcome_and_stops_nothing(self, cluster: OnRay):
        found = {job.letter: outcome for job, outcome in each(cluster, [Job(letter) for letter in "abcd"], fails)}
        assert (found["a"], found["d"]) == ("a", "d")
        assert str(found["b"]) == "b will not do"
        assert str(found["c"]) == "AwkwardError: 1 and 2"

    def test_a_worker_without_the_package_is_told(self, cluster: OnRay, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(on_ray, "PACKAGE", "fadiff-of-another-world")
        with pytest.raises(FadiffError, match=r"fadiff-of-another-world is not installed there: install version"):
            next(each(cluster, [Job("a")], fails))

    def test_its_address_is_that_of_a_cluster(self, cluster: OnRay):
        on_ray._check_address(ray.get_runtime_context().gcs_address)

    def test_more_than_any_computer_has_is_told_instead_of_waited_for(self, cluster: OnRay):
        with pytest.raises(
            FadiffError, match="no computer of the cluster has 64 cores for a cell, at most 2 cores and"
        ):
            next(each(replace(cluster, cores=64), [Job("a")], fails))
        with pytest.raises(FadiffError, match="no computer of the cluster has 1 cores and 2000 GPUs for a cell"):
            next(each(replace(cluster, gpus=2000), [Job("a")], fails))

    def test_a_worker_with_another_version_is_told(self, cluster: OnRay, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(on_ray, "PACKAGE", "numpy")
        with pytest.raises(FadiffError, match=r"numpy is of version .* there, and .* here: install the same"):
            next(each(cluster, [Job("a")], fails))


def test_without_ray_the_way_to_get_it_is_told(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(on_ray, "import_module", missing)
    with pytest.raises(FadiffError, match=r"a sweep on ray needs ray: run python -m pip install"):
        next(each(OnRay(), [Job("a")], fails))


class SomeRay:
    """What is asked of Ray before a cluster is looked for."""

    is_initialized = staticmethod(lambda: False)


def test_a_cluster_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(on_ray, "import_module", lambda name: SomeRay)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(FadiffError, match=rf"{address}: no Ray cluster answers there \(.*refused\): start one"):
            next(each(OnRay(address), [Job("a")], fails))


def test_what_is_no_address_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(on_ray, "import_module", lambda name: SomeRay)
    with pytest.raises(FadiffError, match=r"'head' is no address of a Ray cluster: write HOST:PORT"):
        next(each(OnRay("head"), [Job("a")], fails))


def test_what_is_no_ray_cluster_at_an_address_is_told_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(on_ray, "import_module", lambda name: SomeRay)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as there:
                there.recv(100)
                there.sendall(b"HTTP/1.0 400 Bad request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            FadiffError, match=rf"{address}: no Ray cluster answers there \(something else does\): start"
        ):
            next(each(OnRay(address), [Job("a")], fails))
