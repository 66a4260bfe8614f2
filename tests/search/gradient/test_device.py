"""How many restarts a device runs at once."""

from types import SimpleNamespace

import pytest

from fadiff.hardware import load_machine
from fadiff.search import gradient
from fadiff.search.gradient.device import AT_ONCE, AT_ONCE_ON_CORES, restarts_on
from fadiff.workload import load_model

SETTINGS = gradient.DescentSettings()


@pytest.fixture(scope="module")
def problem():
    return gradient.pack_problem(load_model("mobilenet_v1"), load_machine("gemmini-small"), SETTINGS)


def device(platform, **stats):
    return SimpleNamespace(platform=platform, memory_stats=lambda: stats or None)


def test_cores_run_those_of_the_settings_and_few_at_once(problem):
    assert restarts_on(device("cpu"), problem, SETTINGS) == (SETTINGS.restarts, AT_ONCE_ON_CORES)


@pytest.mark.parametrize("stats", [{"bytes_limit": 80 * 2**30}, {}])
def test_an_accelerator_runs_thousands(problem, stats):
    assert restarts_on(device("gpu", **stats), problem, SETTINGS) == (AT_ONCE, AT_ONCE)


def test_an_accelerator_runs_what_its_memory_holds(problem):
    half, whole = (restarts_on(device("gpu", bytes_limit=size), problem, SETTINGS) for size in (2**29, 2**30))
    assert SETTINGS.restarts < half.at_once < whole.at_once < AT_ONCE
    assert whole.at_once // half.at_once == 2


def test_even_the_smallest_accelerator_runs_those_of_the_settings(problem):
    assert restarts_on(device("gpu", bytes_limit=2**20), problem, SETTINGS) == (SETTINGS.restarts, SETTINGS.restarts)
