"""The one call that finds a schedule: what it accepts, refuses and signs."""

import doctest
import sys
from importlib.metadata import version

import jax
import jax.numpy as jnp
import pytest

from fadiff.cost import save_schedule
from fadiff.errors import FadiffError, pip_install
from fadiff.files import FileError
from fadiff.search import greedy, optimize, programs
from fadiff.search.driver import Status
from fadiff.search.objective import EXAMPLES, LATENCY
from fadiff.search.optimize import (
    ALIASES,
    METHODS,
    UNFUSED_METHODS,
    find_method,
    parse_duration,
)
from search.networks import GEMMINI, NETWORKS

WORKLOAD = NETWORKS["feed_forward"]
MODULE = sys.modules["fadiff.search.optimize"]
"""The module, whose name is also its function's."""


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            {"objective": "speed"},
            f"objective 'speed' is unknown: use one of edp, energy, latency, ed2p, or a formula such as {EXAMPLES}",
        ),
        ({"budget_seconds": 0.0}, "the budget is 0.0 seconds: it must be positive"),
        ({"budget_seconds": -1.0}, "the budget is -1.0 seconds: it must be positive"),
        ({"budget_seconds": float("nan")}, "the budget is nan seconds: it must be positive"),
        ({"seed": -1}, "the seed is -1: it must be between 0 and 4294967295"),
        ({"seed": 2**32}, "the seed is 4294967296: it must be between 0 and 4294967295"),
        (
            {"objective": "energy^101"},
            "objective energy^101 * latency^0 at 0 pJ a cycle: exponents are from 0 to 100, and one is above 0",
        ),
        (
            {"objective": "1e13*energy + latency"},
            "objective energy^1 * latency^0 at 1e-13 pJ a cycle: a cycle costs nothing, or from 1e-12 to 1e+12 pJ",
        ),
        ({"restarts": 0}, "restarts is 0: it is at least 1"),
        ({"restarts": -3}, "restarts is -3: it is at least 1"),
        ({"method": "xyz"}, f"method 'xyz' is unknown: use one of {', '.join(METHODS)}"),
        ({"method": "gredy"}, f"method 'gredy' is unknown (did you mean greedy?): use one of {', '.join(METHODS)}"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_in_one_sentence(wrong, sentence):
    with pytest.raises(FadiffError) as refused:
        optimize(WORKLOAD, GEMMINI, **wrong)
    assert str(refused.value) == sentence


def test_unknown_networks_and_machines_are_refused_by_name():
    with pytest.raises(FadiffError, match="did you mean resnet18"):
        optimize("resnet19", GEMMINI)
    with pytest.raises(FileError, match="did you mean gemmini-large"):
        optimize(WORKLOAD, "gemmini-huge")


DURATIONS = {"90": 90, "30s": 30, "2m": 120, "1.5m": 90, "500ms": 0.5, "1h": 3600, " 10 s ": 10, "0.25s": 0.25}
NO_DURATIONS = ["", "s", "0", "0s", "0.0m", "-5s", "1e3", "5 days", "1m30s", "inf", "nan", ".5s", "5,0s"]


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
def test_durations_are_read_with_their_units(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", NO_DURATIONS)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(FadiffError, match="is no duration: write for example 30s, 2m or 500ms"):
        parse_duration(text)


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(MODULE).failed == 0


def test_every_method_is_found_by_its_name_and_by_its_former_one():
    assert all(find_method(name) is method for name, method in METHODS.items())
    assert all(find_method(former) is METHODS[name] for former, name in ALIASES.items())
    assert ALIASES == {"climb": "exact", "gradient": "joint"}
    assert set(METHODS) >= UNFUSED_METHODS


def test_a_former_name_is_signed_with_the_present_one(monkeypatch):
    monkeypatch.setitem(METHODS, "joint", lambda *_: iter(()))
    assert optimize(WORKLOAD, GEMMINI, method="gradient").schedule.made_by["method"] == "joint"


@pytest.mark.parametrize("method", ["genetic", "bayesian"])
def test_a_method_that_needs_more_installed_says_what(method, monkeypatch):
    def missing(module):
        raise ModuleNotFoundError(f"No module named 'pymoo', wanted by {module}", name="pymoo")

    monkeypatch.setattr(MODULE, "import_module", missing)
    with pytest.raises(FadiffError) as refused:
        optimize(WORKLOAD, GEMMINI, method=method)
    assert str(refused.value) == f"method '{method}' needs pymoo: run {pip_install('baselines')}"


def test_the_greedy_method_returns_the_greedy_schedule_signed():
    result = optimize(WORKLOAD, GEMMINI, method="greedy", seed=7)
    expected = greedy(WORKLOAD, GEMMINI)
    assert (result.schedule.groups, result.schedule.mappings) == (expected.groups, expected.mappings)
    assert result.schedule.made_by == {"version": version("fadiff-scheduler"), "method": "greedy", "seed": 7}
    assert result.best.edp_uj_cycles == result.greedy.edp_uj_cycles == result.unfused.edp_uj_cycles


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    for i in range(2):
        save_schedule(tmp_path / f"{i}.json", optimize(WORKLOAD, GEMMINI, method="greedy", seed=3).schedule)
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()


def test_networks_and_machines_are_values_names_or_files(tmp_path):
    chip = tmp_path / "chip.yaml"
    chip.write_text("name: chip\nrows: 8\ncols: 8\nl1: 4 KB\nl2: 16 KB\n", encoding="utf-8")
    result = optimize("mobilenet_v1:size=32", str(chip), method="greedy")
    assert result.schedule.workload.name.startswith("mobilenet_v1")
    assert result.schedule.machine.peak_macs == 64


def test_the_search_is_told_seed_restarts_and_objective(monkeypatch):
    told = []
    monkeypatch.setitem(METHODS, "greedy", lambda *arguments: told.append(arguments) or iter(()))
    optimize(WORKLOAD, GEMMINI, method="greedy", seed=5, restarts=3, objective="latency", budget_seconds=9)
    ((workload, machine, settings, incumbent),) = told
    assert (workload, machine) == (WORKLOAD, GEMMINI)
    assert (settings.seed, settings.restarts, settings.objective) == (5, 3, LATENCY)
    assert settings.seconds_left <= 9
    assert incumbent.objective == LATENCY


# How programs are compiled.


def test_steps_compute_in_32_bits_and_between_them_the_users_settings_hold(monkeypatch):
    monkeypatch.setenv("FADIFF_CACHE_DIR", "")

    def method(*_):
        for _ in range(2):
            inside.append(jnp.asarray(1.0).dtype)
            yield Status("step")

    inside, between = [], []
    with jax.enable_x64(True):
        for _ in programs.stepwise(method()):
            between.append(jnp.asarray(1.0).dtype)
    assert inside == [jnp.dtype("float32")] * 2
    assert between == [jnp.dtype("float64")] * 2


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"FADIFF_CACHE_DIR": ""}, None),
        ({"FADIFF_CACHE_DIR": "/programs"}, "/programs"),
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/fadiff"),
        ({"HOME": "/home/me"}, "/home/me/.cache/fadiff"),
        ({"FADIFF_CACHE_DIR": "/programs", "JAX_COMPILATION_CACHE_DIR": "/chosen"}, None),
    ],
    ids=["none wanted", "a folder of its own", "XDG", "home", "JAX has one already"],
)
def test_compiled_programs_are_kept_in_the_users_cache_folder(environment, folder, monkeypatch):
    for name in ("FADIFF_CACHE_DIR", "XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    told = {}
    monkeypatch.setattr(jax.config, "update", told.__setitem__)
    with programs.search_programs():
        pass
    assert told.get("jax_compilation_cache_dir") == folder


@pytest.mark.parametrize("method", ["genetic", "layerwise"])
def test_more_restarts_than_run_at_once_are_refused(method):
    with pytest.raises(FadiffError, match=f"restarts is 16384: method '{method}' runs all at once, and at most 256"):
        optimize(WORKLOAD, GEMMINI, method=method, restarts=16384)
