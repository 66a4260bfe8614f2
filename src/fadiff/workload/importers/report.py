"""What an import did: the account that `fadiff import` prints, as data."""

from dataclasses import dataclass

from fadiff.workload.coverage import NotModelled
from fadiff.workload.graph import Edge, Workload
from fadiff.workload.layer import VectorOp


@dataclass(frozen=True, slots=True)
class OperatorCount:
    """All operators of one type: how many, their MACs as layers, their parameters, and what they became."""

    type: str
    count: int
    macs: int
    parameters: int
    became: str


@dataclass(frozen=True, slots=True)
class FoldedOperator:
    """An operator that became no layer. `epilogue` is what it is called in the epilogue of `layer`, if it is there.

    `into` says in words where it went.
    """

    name: str
    type: str
    layer: str | None
    epilogue: VectorOp | None
    into: str


@dataclass(frozen=True)
class ImportReport:
    """What became of every operator of a model, and why edges fuse or not.

    Edges, operators that are not modelled, and notes are those of the workload.
    """

    operators: tuple[OperatorCount, ...]
    folded: tuple[FoldedOperator, ...]
    edges: tuple[Edge, ...]
    not_modelled: tuple[NotModelled, ...]
    notes: tuple[str, ...]
    macs: int
    """MACs of the layers, repeats counted."""
    parameters: int
    """Elements of all parameters that the network reads, each counted once: biases, norms and tables too."""
    layer_parameters: int
    """Weights of all layers; those that two layers share count twice."""

    @property
    def fusible_edges(self) -> int:
        """Edges that a schedule may fuse."""
        return sum(edge.fusible for edge in self.edges)


@dataclass(frozen=True)
class ImportedModel:
    """A model as a workload, with the account of how it became one."""

    workload: Workload
    report: ImportReport
