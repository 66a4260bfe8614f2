"""What tests of the command line set up."""

from importlib import import_module

import pytest


@pytest.fixture
def small_and_quick(monkeypatch: pytest.MonkeyPatch):
    """Searches keep no compiled programs and prove little; tables have one width."""
    monkeypatch.setattr(import_module("fadiff.search.solver.network_bound"), "PROVEN_GAP", 1.0)
    monkeypatch.setenv("FADIFF_CACHE_DIR", "")
    monkeypatch.setenv("COLUMNS", "100")
