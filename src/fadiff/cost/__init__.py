"""The cost model, once, for arrays: flows, latency and energy, exact and relaxed."""

from fadiff.cost.checked import load_schedule, save_schedule
from fadiff.cost.evaluate import Evaluation, evaluate
from fadiff.cost.flows import Flow, flow_table
from fadiff.cost.many import Prices, evaluate_on

__all__ = ["Evaluation", "Flow", "Prices", "evaluate", "evaluate_on", "flow_table", "load_schedule", "save_schedule"]
