"""Recurrent operators as their matrix products.

For each direction: the inputs of all time steps are multiplied at once, ``[time*batch, features] x [features,
gates*hidden]``. Then, step after step, the hidden state is multiplied, ``[batch, hidden] x [hidden, gates*hidden]``,
and an add layer puts the two together and applies the gates. The step repeats `time` times. Its weights are the same in
every step, so only the first step has them as parameters; the others, layers of their own that repeat time - 1 times,
read them again as an operand.

Biases, gates and the cell state are vector operators. What leaves the add layer is counted with all its gates,
gates*hidden words; an LSTM really leaves a hidden and a cell state, 2*hidden words, and reads a cell state.
"""

from fadiff.workload.importers.lowering.drafts import Draft, Net, Operand, Vector
from fadiff.workload.importers.lowering.products import Letters, Side, read_rows, scattered
from fadiff.workload.importers.lowering.values import Part, Value, merged
from fadiff.workload.importers.operators import Recurrent
from fadiff.workload.layer import Dims


def recurrent(net: Net, number: int, operator: Recurrent) -> None:
    """Layers of an LSTM, GRU or RNN."""
    shape = net.graph.shape(operator.inputs[0])
    time, batch = (shape[1], shape[0]) if operator.batch_first else shape[:2]
    features, hidden = shape[-1], operator.hidden
    states = [net.values[name] for name in operator.inputs[1:] if name and name not in net.fixed]
    letters = "btc" if operator.batch_first else "tbc"
    value = net.values.get(operator.inputs[0], Value(shape, (Part(None),)))
    source = Side(letters, dict(zip(letters, shape, strict=True)), value)
    width = operator.gates * hidden
    lasts: list[int] = []
    for direction in range(operator.directions):
        name = operator.label if operator.directions == 1 else f"{operator.label}.{('forward', 'backward')[direction]}"
        rows, reads = read_rows(net, source, Letters(groups="", rows=source.letters[:2], outs="k", channels="c"))
        gates = net.add(Draft(f"{name}.input", number, "mac", rows._replace(K=width, C=features), reads))
        lasts.append(_steps(net, number, name, gates, states, Dims(N=batch, K=width, C=hidden), time))
    sources = frozenset((layer, ()) for layer in lasts)
    for name in filter(None, operator.outputs):
        net.values[name] = Value(net.graph.shape(name), sources=sources).scattered(
            name, net.graph.shape(name), f"{operator.type} {operator.name} leaves it step by step"
        )


def _steps(net: Net, number: int, name: str, gates: int, states: list[Value], dims: Dims, time: int) -> int:
    """The first step with the parameters, and the others; the number of the last add layer."""
    start = merged(name, states, (), f"{name} starts from it") if states else Value(())
    last = -1
    for first, repeat in ((True, 1), (False, time - 1)):
        if repeat < 1:
            continue
        suffix = "" if first else ".rest"
        reads = (
            scattered(start, "input")
            if first
            else [Operand(last, "input", exact=False, reason="it is the state of the step before")]
        )
        if not first:
            reads.append(Operand(None, "weight"))
        state = net.add(Draft(f"{name}.state{suffix}", number, "mac", dims, reads, repeat=repeat))
        joins = [
            Operand(state, "addend"),
            Operand(gates, "addend", reason=None if time == 1 else "each step reads its own rows of it"),
        ]
        last = net.add(Draft(f"{name}.gates{suffix}", number, "add", Dims(N=dims.N, K=dims.K), joins, repeat=repeat))
        net.drafts[last].vectors[number] = Vector("tanh", frozenset({"tanh"}), ())
    return last
