"""Settings that all tests share. Being here also puts this folder on the import path, for `oracle`."""

import os

from hypothesis import settings

# Tables are as wide as they are without a terminal; parallel runs of pytest set this variable.
os.environ.pop("COLUMNS", None)

# The same examples on every run and on every machine: a red test is a change, never luck.
settings.register_profile("fadiff", derandomize=True, deadline=None, database=None)
settings.load_profile("fadiff")
