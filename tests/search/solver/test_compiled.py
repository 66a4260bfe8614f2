"""What is compiled does what Python does, and is kept where it can be."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.caching import FunctionCache

from fadiff.hardware import load_machine
from fadiff.search.solver import compiled
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.place import ON_ITS_OWN
from search.networks import mac

LAYER, MACHINE, WEIGHTS = mac("a", "K6 C12 P11 R3", stride=(2, 1)), "eyeriss", (1.0, 100.0)


def found() -> list[float]:
    bound = LayerBound(LAYER, load_machine(MACHINE), (ON_ITS_OWN,))
    return [bound.at(WEIGHTS, passes=passes) for passes in (1, 2, 5)]


def test_walks_do_what_python_does():
    code = "import json; from search.solver.test_compiled import found; print(json.dumps(found()))"
    told = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(told.stdout) == pytest.approx(found(), rel=1e-12)


def test_what_is_compiled_is_kept_in_the_users_cache_where_the_package_cannot_be_written(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiled._folder() == compiled.FOLDER
    monkeypatch.setattr(os, "access", lambda path, _: str(tmp_path) in str(path))
    assert compiled._folder() == tmp_path / "fadiff" / compiled.FOLDER.name
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert compiled._folder() is None
    assert compiled.known()


def test_a_full_disk_costs_time_and_nothing_else(monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FunctionCache, "save_overload", full)

    def twice(value: float) -> float:
        return 2 * value

    assert compiled.compiled(twice)(3.0) == 6.0
