"""Networks: the immutable graph, the model zoo, and workload files."""

from fadiff.workload.coverage import Coverage, NotModelled
from fadiff.workload.file import load_workload, save_workload
from fadiff.workload.graph import Edge, Workload
from fadiff.workload.layer import DIMS, Dims, Input, Layer, WorkloadError
from fadiff.workload.zoo import describe, load_model, zoo_names

__all__ = [
    "DIMS",
    "Coverage",
    "Dims",
    "Edge",
    "Input",
    "Layer",
    "NotModelled",
    "Workload",
    "WorkloadError",
    "describe",
    "load_model",
    "load_workload",
    "save_workload",
    "zoo_names",
]
