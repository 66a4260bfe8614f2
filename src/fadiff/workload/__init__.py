"""Networks: the immutable graph, the model zoo, and workload files."""

from fadiff.workload.file import load_workload
from fadiff.workload.graph import DIMS, Dims, Edge, Input, Layer, Workload, WorkloadError

__all__ = ["DIMS", "Dims", "Edge", "Input", "Layer", "Workload", "WorkloadError", "load_workload"]
