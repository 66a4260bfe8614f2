"""The differentiable search: mapping and fusion relaxed together, and descended on as one batch of restarts."""

from fadiff.search.gradient.descent import Proposals, State, init, read_out, step
from fadiff.search.gradient.options import DescentOptions
from fadiff.search.gradient.problem import Problem, pack_problem

__all__ = ["DescentOptions", "Problem", "Proposals", "State", "init", "pack_problem", "read_out", "step"]
