import pytest

from search.rows import use_few_programs


@pytest.fixture(autouse=True, scope="session")
def few_programs():
    with pytest.MonkeyPatch.context() as patch:
        use_few_programs(patch)
        yield
