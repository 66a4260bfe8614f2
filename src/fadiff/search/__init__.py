"""Search: one driver, one budget, one incumbent; a room for each family of methods."""

from fadiff.search.driver import Incumbent, Limits, Result, Settings, Status
from fadiff.search.greedy import greedy
from fadiff.search.objective import Charge, Objective
from fadiff.search.optimize import METHODS, optimize

__all__ = [
    "METHODS",
    "Charge",
    "Incumbent",
    "Limits",
    "Objective",
    "Result",
    "Settings",
    "Status",
    "greedy",
    "optimize",
]
