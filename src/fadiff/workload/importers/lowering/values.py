"""What a tensor of the operator graph is, in terms of tensors that layers store."""

from dataclasses import dataclass, replace
from math import prod

from fadiff.workload.importers.lowering.layout import Layout, whole

Resizes = tuple[int, ...]
"""Poolings and upsamplings between a layer's own output and a tensor, as numbers of operators."""
EVERYWHERE = frozenset("ngkpq")
"""All directions in which words can be moved: rows, groups, channels of a group, image rows and columns."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stored tensor as somebody sees it.

    `layer` is the number of the layer; None is a network input. `axes` says where the axes of the view lie in the
    stored tensor after `resizes`; None where that is not known. `viewed`: it was reshaped or transposed. `padded`:
    rows above and columns to the left of what is stored, where its image axes are longer than that; None where they are
    not. `reason` says why this piece of a concatenation cannot be read on chip, though others may be.
    """

    layer: int | None
    axes: Layout | None = None
    resizes: Resizes = ()
    viewed: bool = False
    padded: tuple[int, int] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that is made while the network runs.

    `parts` lie end to end along `axis`; there is none where words were picked or moved in a way that no edge can say.
    `hint` is then a tensor that has the same rows, if one is known: its axes tell rows and columns from channels.
    `sources` are the stored tensors it is made of, with their resizings, whether parts tell how or not: empty for what
    comes from network inputs alone. `moved`: the directions in which its words are not in their places, or come from
    several. `history` numbers the vector operators since the one layer it comes from. `origin` is the tensor in which
    its words took the places they have, `within` all such tensors that alone determine it. `reason` says why nobody can
    read it on chip. `spread` is the number of words that were repeated to fill its shape; None where none were.
    """

    shape: tuple[int, ...]
    parts: tuple[Part, ...] = ()
    axis: int = 0
    sources: frozenset[tuple[int, Resizes]] = frozenset()
    moved: frozenset[str] = frozenset()
    history: tuple[int, ...] = ()
    reason: str | None = None
    hint: Part | None = None
    origin: str | None = None
    within: frozenset[str] = frozenset()
    spread: int | None = None

    @property
    def words(self) -> int:
        """How many of its words are different."""
        return prod(self.shape) if self.spread is None else min(self.spread, prod(self.shape))

    @property
    def layers(self) -> frozenset[int]:
        """Layers whose words it is made of."""
        return frozenset(layer for layer, _ in self.sources)

    @property
    def view(self) -> Part | None:
        """The one layer's tensor that it is a view of, axis by axis; None where it is not."""
        part = self.parts[0] if len(self.parts) == 1 else Part(None)
        return None if part.layer is None or part.axes is None or part.padded is not None else part

    @property
    def keeps_channels(self) -> bool:
        """Whether each word comes from its own channel, so that channels may be made a few at a time."""
        return self.moved.isdisjoint({"k", "g"})

    @property
    def like(self) -> Part | None:
        """The tensor that shows what its axes are, exactly or not."""
        if not self.parts:
            return self.hint
        made = [part for part in self.parts if part.layer is not None]
        part = next((part for part in made if part.axes is not None), made[0] if made else None)
        if part is None or part.axes is None or len(self.parts) == 1:
            return part
        before, after = part.axes[: self.axis], part.axes[self.axis + 1 :]
        return replace(part, axes=(*before, whole("x", self.shape[self.axis]), *after))

    def scattered(
        self,
        name: str,
        shape: tuple[int, ...],
        reason: str,
        moved: frozenset[str] = EVERYWHERE,
        axes: Layout | None = None,
    ) -> "Value":
        """Tensor `name` of the same words in other places, for a reason; `axes` are what is still known of where."""
        like = self.like
        return replace(
            self,
            shape=shape,
            parts=(),
            axis=0,
            moved=self.moved | moved,
            reason=self.reason or (reason if self.sources else None),
            hint=None if like is None or axes is None else replace(like, axes=axes, viewed=True, padded=None),
            origin=name,
            within=self.within | {name},
            spread=self.words,
        )


def merged(name: str, values: list[Value], shape: tuple[int, ...], reason: str) -> Value:
    """Tensor `name`, which is made of several others in a way that is not followed."""
    made = [value for value in values if value.sources]
    common = [tensor for tensor in (made[0].within if made else ()) if all(tensor in value.within for value in made)]
    sources = frozenset[tuple[int, Resizes]]().union(*(value.sources for value in made))
    return Value(
        shape,
        sources=sources,
        moved=frozenset[str]().union(*(value.moved for value in made)),
        history=max((value.history for value in made), key=len) if len({layer for layer, _ in sources}) == 1 else (),
        reason=reason if sources else None,
        origin=name,
        within=frozenset({name, *common}),
    )
