"""The executor: runs a schedule on real integers, on any machine, and counts every word that moves.

It shares no code with the cost model, so that each can witness for the other: here tiles are really moved between
memories, in the schedule's own loop order, and outputs are compared with a direct computation. What the model counts
otherwise than it happens is computed too, and why: see :mod:`fadiff.execute.result`.
"""

from fadiff.execute.result import Access, Count, Execution, ExecutionError, LayerRun, Mismatch, Peak
from fadiff.execute.run import execute

__all__ = ["Access", "Count", "Execution", "ExecutionError", "LayerRun", "Mismatch", "Peak", "execute"]
