"""The one call that finds a schedule: what it accepts, refuses and signs."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

import fadiff
from fadiff.errors import FadiffError
from fadiff.files import FileError
from fadiff.search import joint as joint_module
from fadiff.search import optimize, programs
from fadiff.search.greedy import greedy
from fadiff.search.joint import JointOptions
from fadiff.search.optimize import METHODS, find_method, parse_duration
from search.networks import MACHINE, NETWORKS

WORKLOAD = NETWORKS["feed_forward"]


@pytest.fixture
def without_descent(monkeypatch):
    """The descent takes long to compile; here it is left out."""
    monkeypatch.setenv("FADIFF_CACHE_DIR", "")
    monkeypatch.setattr(joint_module, "joint", partial(joint_module.joint, options=JointOptions(descent=None)))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"objective": "speed"}, "objective 'speed' is unknown: use one of edp, energy, latency"),
        ({"budget_seconds": 0.0}, "the budget is 0.0 seconds: it must be positive"),
        ({"budget_seconds": -1.0}, "the budget is -1.0 seconds: it must be positive"),
        ({"budget_seconds": float("nan")}, "the budget is nan seconds: it must be positive"),
        ({"seed": -1}, "the seed is -1: it must not be negative"),
        ({"restarts": 0}, "restarts is 0: it is at least 1"),
        ({"restarts": -3}, "restarts is -3: it is at least 1"),
        ({"method": "xyz"}, f"method 'xyz' is unknown: use one of {', '.join(METHODS)}"),
        ({"method": "gredy"}, f"method 'gredy' is unknown (did you mean greedy?): use one of {', '.join(METHODS)}"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_in_one_sentence(wrong, sentence):
    with pytest.raises(FadiffError) as refused:
        optimize(WORKLOAD, MACHINE, **wrong)
    assert str(refused.value) == sentence


def test_unknown_networks_and_machines_are_refused_by_name():
    with pytest.raises(FadiffError, match="did you mean resnet18"):
        optimize("resnet19", MACHINE)
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


def test_every_method_is_found_by_its_name():
    assert all(find_method(name) is method for name, method in METHODS.items())


def test_the_greedy_method_returns_the_greedy_schedule_signed():
    result = optimize(WORKLOAD, MACHINE, method="greedy", seed=7)
    expected = greedy(WORKLOAD, MACHINE)
    assert (result.schedule.groups, result.schedule.mappings) == (expected.groups, expected.mappings)
    assert result.schedule.made_by == {"version": fadiff.__version__, "method": "greedy", "seed": 7}
    assert result.best.edp_uj_cycles == result.greedy.edp_uj_cycles == result.unfused.edp_uj_cycles


def test_networks_and_machines_are_values_names_or_files(tmp_path):
    chip = tmp_path / "chip.yaml"
    chip.write_text("name: chip\nrows: 8\ncols: 8\nl1: 4 KB\nl2: 16 KB\n", encoding="utf-8")
    result = optimize("mobilenet_v1:size=32", str(chip), method="greedy")
    assert result.schedule.workload.name.startswith("mobilenet_v1")
    assert result.schedule.hardware.rows == 8


def test_the_search_is_told_seed_restarts_and_objective(monkeypatch):
    told = []
    monkeypatch.setitem(METHODS, "greedy", lambda *arguments: told.append(arguments) or iter(()))
    optimize(WORKLOAD, MACHINE, method="greedy", seed=5, restarts=3, objective="latency", budget_seconds=9)
    ((workload, hardware, settings, incumbent),) = told
    assert (workload, hardware) == (WORKLOAD, MACHINE)
    assert (settings.seed, settings.restarts, settings.objective) == (5, 3, "latency")
    assert settings.seconds_left <= 9
    assert incumbent.objective == "latency"


@pytest.mark.usefixtures("without_descent")
def test_the_default_method_fuses_and_reports_every_step():
    seen = []
    result = optimize(WORKLOAD, MACHINE, watch=lambda status, incumbent, seconds: seen.append(status.phase))
    assert result.schedule.fused_edges
    assert result.schedule.made_by["method"] == "gradient"
    assert result.best.edp_uj_cycles < result.unfused.edp_uj_cycles
    assert seen == [point.phase for point in result.trace]
    assert seen[0] == "greedy"


@pytest.mark.usefixtures("without_descent")
def test_a_process_that_computes_in_64_bits_finds_the_same_schedule_and_stays_so():
    seen = []
    expected = optimize(WORKLOAD, MACHINE)
    with jax.enable_x64(True):
        found = optimize(WORKLOAD, MACHINE, watch=lambda *_: seen.append(jnp.asarray(1.0).dtype))
    assert found.best.schedule == expected.best.schedule
    assert len(seen) > 1
    assert set(seen) == {jnp.dtype("float64")}


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
