"""Search: one driver, one budget, one incumbent; a room for each family of methods."""

from fadiff.next.search.greedy import greedy
from fadiff.next.search.optimize import optimize

__all__ = ["greedy", "optimize"]
