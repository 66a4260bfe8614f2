"""DeFiNES' networks as workloads, and the stacks of layers that it runs depth first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fadiff.workload import Dims, Input, Layer, Workload

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.reproduce.defines.machines.reference import Network, NetworkLayer


def to_workload(name: str, network: Network) -> Workload:
    """The network, layers named l0, l1, ...

    Nothing is padded. A pooling layer becomes the epilogue of its producer. An addend of another shape than the sum
    (DeFiNES crops it) is read from DRAM.
    """
    layers: dict[int, Layer] = {}
    for layer in network.layers:
        if layer.kind == "pool":
            producer = layers[layer.sources[0]]
            operator = "global_pool" if (layer.P, layer.Q) == (1, 1) else "max_pool"
            pooled = replace(producer, epilogue=(*producer.epilogue, operator), out=(layer.P, layer.Q))
            layers |= {number: pooled for number, one in layers.items() if one.name == producer.name}
            layers[layer.id] = pooled
        else:
            layers[layer.id] = _layer(layer, layers)
    return Workload(name, tuple({layer.name: layer for layer in layers.values()}.values()))


def _layer(layer: NetworkLayer, before: dict[int, Layer]) -> Layer:
    sources = [before.get(number) for number in layer.sources]
    if layer.kind == "add":
        shape = (layer.G, layer.P, layer.Q)
        fits = [source is None or (source.channels, *source.stored) == shape for source in sources]
        operands = [Input(s and s.name, "addend", fusible=fit) for s, fit in zip(sources, fits, strict=True)]
        return Layer(f"l{layer.id}", "add", Dims(K=layer.G, P=layer.P, Q=layer.Q), tuple(operands))
    return Layer(
        name=f"l{layer.id}",
        kind="mac",
        dims=Dims(G=layer.G, K=layer.K, C=layer.C, P=layer.P, Q=layer.Q, R=layer.R, S=layer.S),
        inputs=tuple(Input(source and source.name) for source in sources),
        stride=(layer.stride, layer.stride),
        pad=(0, 0),
    )


def stacks(workload: Workload, machine: Machine) -> list[tuple[str, ...]]:
    """The layers that DeFiNES runs depth first together: as many as have room for their weights on chip.

    The room is the outermost memory below DRAM that keeps weights. Branches are not torn apart: a stack may end where
    a single tensor goes on; branches whose weights do not fit run layer by layer.
    """
    home = machine.structure.home("W")
    room = next((memory.usable_bytes for memory in machine.memories if machine.number[memory.name] == home), 0)
    found: list[tuple[str, ...]] = []
    open_bytes = room + 1.0
    for unit in _units(workload):
        unit_bytes = sum(workload[name].weight_words for name in unit) * machine.bits.W / 8
        if unit_bytes > room:
            found += [(name,) for name in unit]
            open_bytes = room + 1.0
        elif open_bytes + unit_bytes > room:
            found.append(unit)
            open_bytes = unit_bytes
        else:
            found[-1] += unit
            open_bytes += unit_bytes
    return found


def _units(workload: Workload) -> list[tuple[str, ...]]:
    """Runs of layers between places where a single tensor goes on."""
    names, place = workload.topological, workload.depth
    units: list[tuple[str, ...]] = []
    begin = 0
    for i, name in enumerate(names):
        passing = {edge.source for edge in workload.edges if place[edge.source] <= i < place[edge.target]}
        if passing <= {name}:
            units.append(names[begin : i + 1])
            begin = i + 1
    return units
