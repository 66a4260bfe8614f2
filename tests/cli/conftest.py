"""What tests of the command line set up."""

import pytest


@pytest.fixture
def small_and_quick(monkeypatch: pytest.MonkeyPatch):
    """Searches keep no compiled programs; tables have one width."""
    monkeypatch.setenv("FADIFF_CACHE_DIR", "")
    monkeypatch.setenv("COLUMNS", "100")
