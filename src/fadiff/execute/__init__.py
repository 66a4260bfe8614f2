"""The executor: runs a schedule on real tensors and counts every word that moves.

It shares no code with the cost model, so that each can witness for the other: here tiles are really moved through
bounded memories, in the schedule's own loop order, and outputs are compared with a direct computation.
"""

from fadiff.execute.counts import Counts, Execution, Mismatch, Overflow, Peak
from fadiff.execute.run import execute
from fadiff.execute.runnable import ExecutionError

__all__ = ["Counts", "Execution", "ExecutionError", "Mismatch", "Overflow", "Peak", "execute"]
