import pytest

from fadiff.search.evolutionary import fitting, repair
from fadiff.search.programs import compile_in_time

PROGRAMS = {name: getattr(fitting, name) for name in ("examine", "relieve", "price")}


@pytest.fixture(autouse=True, scope="session")
def uncompiled():
    """The functions behind the programs, on NumPy arrays: compiling takes longer than running, machine by machine."""
    with pytest.MonkeyPatch.context() as patch:
        for name, program in PROGRAMS.items():
            patch.setattr(fitting, name, program.__wrapped__)
        patch.setattr(fitting, "compile_in_time", lambda *_: None)
        patch.setattr(repair, "ROWS", 160)
        yield


@pytest.fixture
def compiled(monkeypatch):
    """The programs as they are run."""
    for name, program in PROGRAMS.items():
        monkeypatch.setattr(fitting, name, program)
    monkeypatch.setattr(fitting, "compile_in_time", compile_in_time)
