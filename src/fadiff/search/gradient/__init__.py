"""The differentiable search: mapping and fusion relaxed together, and descended on as one batch of restarts."""

from fadiff.search.gradient.descent import Proposals, State, compile_steps, init, read_out, step
from fadiff.search.gradient.device import restarts_on
from fadiff.search.gradient.problem import Problem, pack_problem
from fadiff.search.gradient.settings import DescentSettings

__all__ = [
    "DescentSettings",
    "Problem",
    "Proposals",
    "State",
    "compile_steps",
    "init",
    "pack_problem",
    "read_out",
    "restarts_on",
    "step",
]
