import jax
import pytest

from fadiff.search.exact import menus


@pytest.fixture(autouse=True, scope="package")
def quick_programs():
    """Few steps run here: compiling them well would take longer. The exact search works in small chunks."""
    jax.config.update("jax_disable_most_optimizations", True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(menus, "MOVES_PER_CALL", 64 * 192)
        patch.setattr(menus, "PAIRS_PER_CALL", 4 * 96**2)
        yield
    jax.config.update("jax_disable_most_optimizations", False)
