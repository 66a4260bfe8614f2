"""The account of a lowering: what became of each operator, and of each edge."""

from collections import Counter

from fadiff.workload.coverage import NotModelled
from fadiff.workload.graph import Workload
from fadiff.workload.importers.lowering.drafts import Net
from fadiff.workload.importers.lowering.edges import Edges
from fadiff.workload.importers.operators import Opaque, printable
from fadiff.workload.importers.report import FoldedOperator, ImportReport, OperatorCount


def gap(net: Net, operator: Opaque) -> NotModelled:
    """An operator that no layer will stand for, with the words it reads and makes."""
    tensors = net.graph.tensors
    read = [tensors[name] for name in dict.fromkeys(filter(None, operator.inputs))]
    weights = {tensor.name for tensor in read if tensor.role == "parameter"}.union(*(each.made_of for each in read))
    return NotModelled(
        name=printable(operator.name),
        type=printable(operator.type),
        reason=printable(operator.reason),
        macs=None if operator.macs is None else operator.macs * operator.repeat,
        weight_words=sum(tensors[name].words for name in weights),
        input_words=operator.repeat * sum(tensor.words for tensor in read if tensor.name not in net.fixed),
        output_words=operator.repeat * sum(tensors[name].words for name in operator.outputs if name),
    )


def account(net: Net, edges: Edges, workload: Workload) -> ImportReport:
    """The report on a finished lowering."""
    folded = _folded(net, edges)
    became = {number: row.into for number, row in folded.items()}
    macs = Counter[int]()
    for draft, layer in zip(net.drafts, workload.layers, strict=True):
        macs[draft.operator] += layer.macs * layer.repeat
        if layer.is_mac or became.get(draft.operator) != "layers":
            became[draft.operator] = "layers" if layer.is_mac else "add layers"
    became |= dict.fromkeys(net.not_modelled, "not modelled")
    parameters = _parameters(net)
    return ImportReport(
        operators=_by_type(net, macs, parameters, became),
        folded=tuple(folded[number] for number in sorted(folded)),
        edges=workload.edges,
        not_modelled=workload.not_modelled,
        notes=workload.notes,
        macs=workload.macs,
        parameters=sum(parameters.values()),
        layer_parameters=workload.parameter_words,
    )


def _folded(net: Net, edges: Edges) -> dict[int, FoldedOperator]:
    """Operators that became no layer, by number."""
    operators = net.graph.operators
    own = {draft.operator for draft in net.drafts}
    rows = {
        number: FoldedOperator(operators[number].name, operators[number].type, None, None, into)
        for number, into in net.folded.items()
    }
    for layer, draft in enumerate(net.drafts):
        stored = edges.stored[layer]
        for number, vector in draft.vectors.items():
            if number in own:
                continue
            name = vector.name if vector.resizes == stored[: len(vector.resizes)] else None
            into = draft.name if name is not None or vector.within is not None else f"what reads {draft.name}"
            rows[number] = FoldedOperator(operators[number].name, operators[number].type, draft.name, name, into)
        for number, (kind, _) in draft.resizes.items():
            here = number in stored
            into = draft.name if here else f"what reads {draft.name}"
            rows[number] = FoldedOperator(
                operators[number].name, operators[number].type, draft.name, kind if here else None, into
            )
    return rows


def _parameters(net: Net) -> dict[int, int]:
    """Parameters by the first operator that reads them, or something computed from them; each is counted once."""
    tensors = net.graph.tensors
    counted: set[str] = set()
    found: dict[int, int] = {}
    for number, operator in enumerate(net.graph.operators):
        read = {name for name in operator.inputs if name}
        read.update(*(tensors[name].made_of for name in tuple(read)))
        new = {name for name in read if tensors[name].role == "parameter"} - counted
        counted |= new
        found[number] = sum(tensors[name].words for name in new)
    return found


def _by_type(
    net: Net, macs: Counter[int], parameters: dict[int, int], became: dict[int, str]
) -> tuple[OperatorCount, ...]:
    """Operators by type, those with the most MACs first."""
    kinds: dict[str, list[int]] = {}
    for number, operator in enumerate(net.graph.operators):
        kinds.setdefault(operator.type, []).append(number)
    drafts = {draft.name for draft in net.drafts}
    rows: list[OperatorCount] = []
    for kind, numbers in kinds.items():
        told = Counter(_in_words(became.get(number, "nothing"), drafts) for number in numbers)
        rows.append(
            OperatorCount(
                kind,
                sum(
                    {
                        net.graph.operators[number].name: net.graph.operators[number].repeat for number in numbers
                    }.values()
                ),
                sum(macs[number] for number in numbers),
                sum(parameters[number] for number in numbers),
                ", ".join(f"{what} ({count})" if len(told) > 1 else what for what, count in told.most_common()),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.macs, -row.parameters, row.type)))


def _in_words(into: str, layers: set[str]) -> str:
    """Where an operator went, without names."""
    if into in layers:
        return "epilogues"
    return "on the fly" if into.startswith("what reads") else into
