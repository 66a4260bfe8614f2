"""What tests of the command line set up."""

import pytest

from search.rows import use_few_programs


@pytest.fixture
def small_and_quick(monkeypatch: pytest.MonkeyPatch):
    """Searches compile few programs and keep none; tables have one width."""
    monkeypatch.setenv("FADIFF_CACHE_DIR", "")
    monkeypatch.setenv("COLUMNS", "100")
    use_few_programs(monkeypatch)
