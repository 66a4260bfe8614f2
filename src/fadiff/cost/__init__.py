"""The cost model, once, for arrays: traffic, capacity, latency and energy, exact and relaxed."""

from fadiff.cost.checked import load_schedule, save_schedule
from fadiff.cost.evaluate import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate", "load_schedule", "save_schedule"]
