import pytest

from fadiff.search.exact import menus
from search.exact.rows import MOVES, PAIRED_MOVES


@pytest.fixture(autouse=True, scope="package")
def few_programs():
    """Programs of one size for all tests here: chunks say how work is compiled, never what comes out of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(menus, "MOVES_PER_CALL", 64 * MOVES)
        patch.setattr(menus, "PAIRS_PER_CALL", 4 * PAIRED_MOVES**2)
        yield
