import jax
import pytest


@pytest.fixture(autouse=True, scope="package")
def quick_programs():
    """Few steps run here: compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
