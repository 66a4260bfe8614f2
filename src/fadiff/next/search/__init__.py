"""Search: one driver, one budget, one incumbent; a room for each family of methods."""

from fadiff.next.search.driver import Incumbent, Result, Settings, Status
from fadiff.next.search.greedy import greedy
from fadiff.next.search.optimize import METHODS, optimize

__all__ = ["METHODS", "Incumbent", "Result", "Settings", "Status", "greedy", "optimize"]
