"""Questions about values that all kinds of operators ask."""

from dataclasses import replace
from typing import Literal

from fadiff.workload.importers.lowering.drafts import Net
from fadiff.workload.importers.lowering.layout import Axis, Layout, whole
from fadiff.workload.importers.lowering.values import EVERYWHERE, Part, Value


def unit_axes_changed(value: Value, shape: tuple[int, ...]) -> Value:
    """A value in a shape that differs in axes of size 1 only."""
    if value.shape == shape:
        return value
    before = [i for i, size in enumerate(value.shape) if size != 1]
    after = [i for i, size in enumerate(shape) if size != 1]
    place = dict(zip(before, after, strict=True))

    def fitted(axes: Layout) -> Layout:
        moved: list[Axis] = [()] * len(shape)
        for old, new in place.items():
            moved[new] = axes[old]
        return tuple(moved)

    def changed(part: Part) -> Part:
        return replace(part, axes=None if part.axes is None else fitted(part.axes))

    return replace(
        value,
        shape=shape,
        parts=tuple(map(changed, value.parts)),
        axis=place.get(value.axis, 0),
        hint=None if value.hint is None else changed(value.hint),
    )


def directions(net: Net, value: Value, axes: tuple[int, ...]) -> frozenset[str]:
    """Directions of the stored tensor along some axes of a value: n, p, q, k (within a group) or g (across groups)."""
    part = value.view
    if part is None or part.layer is None or part.axes is None:
        return EVERYWHERE
    within = net.drafts[part.layer].dims.K
    found: set[str] = set()
    for axis in axes:
        for atom in part.axes[axis]:
            if atom.of == "c":
                found.add("k" if atom.stride * atom.size <= within else "g")
            elif atom.of != "b":
                found.add(atom.of)
    return frozenset(found)


def image_axis(axes: Layout, number: int, sizes: dict[str, int]) -> Literal["p", "q"] | None:
    """The stored image axis that an axis of a view is; one of a single row or column is known by its place."""
    if axes[number]:
        return next((of for of in ("p", "q") if axes[number] == whole(of, sizes[of])), None)
    of = {2: "p", 3: "q"}.get(number)
    return ("p" if of == "p" else "q") if of is not None and sizes[of] == 1 else None


def only_layer(value: Value) -> int | None:
    """The one layer that a value comes from; None if there are several, or it is a concatenation."""
    return next(iter(value.layers)) if len(value.layers) == 1 and len(value.parts) < 2 else None


def resizes_of(value: Value) -> tuple[int, ...]:
    """The resizings before a vector operator on a value of one layer."""
    return max((resizes for _, resizes in value.sources), key=len)


def on_the_fly(net: Net, value: Value) -> str:
    """Where an operator went that is applied by those who read a value."""
    layers = ", ".join(net.label(layer) for layer in sorted(value.layers))
    return f"what reads {layers}" if layers else "network input"
