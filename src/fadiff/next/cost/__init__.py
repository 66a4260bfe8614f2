"""The cost model, once, for arrays: flows, latency and energy, exact and relaxed."""

from fadiff.next.cost.checked import load_schedule, save_schedule
from fadiff.next.cost.evaluate import Evaluation, evaluate
from fadiff.next.cost.flows import Flow, flow_table

__all__ = ["Evaluation", "Flow", "evaluate", "flow_table", "load_schedule", "save_schedule"]
