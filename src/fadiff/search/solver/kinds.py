"""Layers that are the same to the bound, and the bound that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fadiff.search.solver.add_bound import AddBound
from fadiff.search.solver.layer_bound import LayerBound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fadiff.search.restrictions import Restrictions
    from fadiff.search.solver.modes import Mode, Modes
    from fadiff.search.solver.parts import Term, Wanted
    from fadiff.search.solver.place import Fused, Links, Place


class Kind(NamedTuple):
    """Layers of one shape, and what they cost in all places that any of them may have."""

    bound: LayerBound | AddBound
    names: list[str]
    layers: list[int]


def kinds_of(
    links: Links,
    asked: Restrictions,
    possible: Sequence[Sequence[tuple[Fused, Place]]],
    binds: Callable[[int], Term],
    *,
    exact_factors: bool,
) -> list[Kind]:
    """The kind of each layer, in the places that each may have; `binds` tells what probably takes a layer's time."""
    machine, layers = links.machine, links.workload.layers
    shapes: dict[object, list[int]] = {}
    for i, layer in enumerate(layers):
        shape = (layer.kind, layer.dims, layer.stride, layer.dilation, layer.stored, len(layer.inputs))
        shapes.setdefault((*shape, machine.vector_operations(layer), asked.of_layer(i)), []).append(i)
    kind_of: dict[int, Kind] = {}
    for alike in shapes.values():
        first, layer = alike[0], layers[alike[0]]
        # What is found out of a place holds of all layers that may be in it.
        anywhere = tuple(dict.fromkeys(place for i in alike for _, place in possible[i]))
        bound = (
            LayerBound(layer, machine, anywhere, binds(first), exact_factors, asked.layer_asked(first))
            if layer.is_mac
            else AddBound(layer, machine, anywhere)
        )
        kind_of |= dict.fromkeys(alike, Kind(bound, [layers[i].name for i in alike], alike))
    return [kind_of[i] for i in range(len(layers))]


def asks(kind_of: Sequence[Kind], modes: Modes, mode: Mode) -> Wanted:
    """What a mode asks of the bound of its layer."""
    _, place = modes.places[mode.layer][mode.place]
    return kind_of[mode.layer].bound.numbers[place], mode.tile
