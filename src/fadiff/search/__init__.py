"""Search: every method that turns a workload and an accelerator into a schedule."""

from fadiff.search.greedy import greedy

__all__ = ["greedy"]
