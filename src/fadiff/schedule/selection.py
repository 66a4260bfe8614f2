"""Which layers somebody speaks of: by name, pattern or kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from fadiff.errors import FadiffError

if TYPE_CHECKING:
    from fadiff.workload import Layer, Workload

LAYER_KINDS = ("mac", "conv", "depthwise", "pointwise", "matmul", "add")
"""Kinds of layers that can be selected; every MAC layer is of one of the four after `mac`, too."""
REST = "*"
"""In a selection: any layer; in an order: where all loops stand that it does not name."""


class ConstraintError(FadiffError):
    """A constraint that says nothing about a network on a machine: one sentence."""


@dataclass(frozen=True)
class Layers:
    """Which layers: by name or pattern, of some kinds, but for others."""

    names: tuple[str, ...] = (REST,)
    kinds: tuple[str, ...] = ()
    but: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in LAYER_KINDS:
                raise ConstraintError(f"kind {kind!r} is unknown: use one of {', '.join(LAYER_KINDS)}")

    def __contains__(self, layer: Layer) -> bool:
        named = _any_matches(layer.name, self.names) and not _any_matches(layer.name, self.but)
        return named and (not self.kinds or any(kind in kinds_of(layer) for kind in self.kinds))

    def __str__(self) -> str:
        every = self.names == (REST,)
        told = "all layers" if every else ", ".join(self.names)
        if self.kinds:
            told = f"{' and '.join(self.kinds)} layers{'' if every else f' of {told}'}"
        return f"{told} but {', '.join(self.but)}" if self.but else told

    def check(self, workload: Workload) -> None:
        """Refuse a name or a pattern that no layer has."""
        known = [layer.name for layer in workload.layers]
        for name in (*self.names, *self.but):
            if not any(_any_matches(one, (name,)) for one in known):
                raise ConstraintError(f"{name!r} is no layer of {workload.name}{close_to(name, known)}")
        if not any(layer in self for layer in workload.layers):
            raise ConstraintError(f"{workload.name} has no {self}")


EVERY = Layers()


def kinds_of(layer: Layer) -> frozenset[str]:
    """The kinds that a layer is of."""
    if not layer.is_mac:
        return frozenset({"add"})
    dims = layer.dims
    if dims.G > 1 and dims.K == dims.C == 1:
        return frozenset({"mac", "depthwise"})
    plain = dims.R * dims.S == 1
    return frozenset({"mac", "matmul" if plain and dims.P * dims.Q == 1 else "pointwise" if plain else "conv"})


def _any_matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def close_to(name: str, known: Sequence[str]) -> str:
    """What may have been meant, for an error."""
    close = get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
