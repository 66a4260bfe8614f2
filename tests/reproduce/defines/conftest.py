import pytest

from fadiff.reproduce.defines import given_groups
from fadiff.reproduce.defines.machines import cell
from fadiff.search.exact import menus


@pytest.fixture(autouse=True, scope="package")
def few_starts():
    """Fewer starts than a user's run has: quicker, and legal all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(menus, "FURTHER_MAPPINGS", 1)
        patch.setattr(given_groups, "STARTS", 2)
        patch.setattr(given_groups, "POLISHES", 0)
        patch.setattr(cell, "STARTS", 2)
        yield
