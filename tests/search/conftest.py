"""Programs of one size for all tests of the search: chunks say how work is compiled, never what comes out of it."""

import pytest

from fadiff.search import conditions, options


@pytest.fixture(autouse=True, scope="session")
def few_programs():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conditions, "MOVE_WIDTHS", (80,))
        patch.setattr(options, "ROW_CHUNKS", (64,))
        patch.setattr(options, "PAIR_CHUNKS", (8,))
        yield
