"""What an import did: the account that `fadiff import` prints, as data."""

from collections.abc import Iterable
from dataclasses import dataclass

from fadiff.workload.graph import Workload
from fadiff.workload.layer import Port, VectorOp


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


@dataclass(frozen=True, slots=True)
class EdgeNote:
    """An edge of the workload; `reason` says why it cannot be fused, and is None where it can."""

    source: str
    target: str
    port: Port
    reason: str | None

    @property
    def fusible(self) -> bool:
        """Whether a schedule may keep its tensor on chip."""
        return self.reason is None


@dataclass(frozen=True, slots=True)
class NotModelledOperator:
    """An operator that no layer stands for.

    `macs` is an estimate of its multiply-accumulates and `share` its part of the network's; None where nobody can tell.
    """

    name: str
    type: str
    reason: str
    macs: int | None
    share: float | None


@dataclass(frozen=True)
class ImportReport:
    """What became of every operator of a model, and why edges fuse or not."""

    operators: tuple[OperatorCount, ...]
    folded: tuple[FoldedOperator, ...]
    edges: tuple[EdgeNote, ...]
    not_modelled: tuple[NotModelledOperator, ...]
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


def shares(rows: Iterable[tuple[str, str, str, int | None]], macs: int) -> tuple[NotModelledOperator, ...]:
    """Operators that are not modelled, with their shares of all known multiply-accumulates."""
    listed = list(rows)
    total = macs + sum(estimate or 0 for _, _, _, estimate in listed)
    return tuple(
        NotModelledOperator(name, kind, reason, estimate, None if estimate is None else estimate / max(total, 1))
        for name, kind, reason, estimate in listed
    )
