"""Layers that are the same to the bound, and the bound that they share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fadiff.search.solver.add_bound import AddBound
from fadiff.search.solver.layer_bound import LayerBound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fadiff.search.restrictions import Restrictions
    from fadiff.search.solver.parts import Term
    from fadiff.search.solver.place import Fused, Links, Place


@dataclass
class Kind:
    """Layers that are the same to the bound."""

    bound: LayerBound | AddBound
    names: list[str] = field(default_factory=list[str])
    layers: list[int] = field(default_factory=list[int])


def kinds_of(
    links: Links,
    asked: Restrictions,
    possible: Sequence[Sequence[tuple[Fused, Place]]],
    binds: Callable[[int], Term],
    *,
    exact_factors: bool,
) -> list[Kind]:
    """The kind of each layer, in the places that each may have; `binds` tells what probably takes a layer's time."""
    machine = links.machine
    found: dict[object, Kind] = {}
    kind_of: list[Kind] = []
    for i, layer in enumerate(links.workload.layers):
        mine = tuple(place for _, place in possible[i])
        shape = (layer.kind, layer.dims, layer.stride, layer.dilation, layer.stored, len(layer.inputs))
        alike = (*shape, machine.vector_operations(layer), repr(mine), asked.of_layer(i))
        if alike not in found:
            found[alike] = Kind(
                LayerBound(layer, machine, mine, binds(i), exact_factors, asked.layer_asked(i))
                if layer.is_mac
                else AddBound(layer, machine, mine)
            )
        found[alike].names.append(layer.name)
        found[alike].layers.append(i)
        kind_of.append(found[alike])
    return kind_of
