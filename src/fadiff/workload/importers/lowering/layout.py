"""Where the axes of a tensor lie in the tensor that a layer stores.

A layer stores ``[N, channels, P', Q']`` with channels = G*K. What a framework sees may be a reshaped and transposed
view of it: attention heads are a part of the channels, tokens are rows N or the pixels of an image. An *atom* is a
piece of one stored axis; an axis of a view is a row of atoms, outer to inner. So `[tokens, heads, width]` of a linear
layer's output is

>>> reshaped(stored(n=6, channels=12), (6, 3, 4)) == ((Atom("n", 6, 1),), (Atom("c", 3, 4),), (Atom("c", 4, 1),))
True

and an edge between two layers is exact where the consumer's axes are whole axes of the producer again. What cannot be
followed atom by atom is None, and the edge is then judged without it.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

Stored = Literal["n", "c", "p", "q", "b", "x"]
"""Axes of a stored tensor: rows or batch, channels of all groups, image rows, image columns. Two are none: b repeats
words, and x holds words that were picked or moved along it."""


class Atom(NamedTuple):
    """`size` places, `stride` apart, along a stored axis. A repeated word (b) has no stride: it is 0."""

    of: Stored
    size: int
    stride: int


Axis = tuple[Atom, ...]
Layout = tuple[Axis, ...]


def whole(of: Stored, size: int) -> Axis:
    """All of a stored axis."""
    return (Atom(of, size, 1),) if size > 1 else ()


def stored(*, n: int, channels: int, rows: int | None = None, cols: int | None = None) -> Layout:
    """The layout of a layer's output in its natural shape, image axes as far as they are given."""
    image = () if rows is None else (whole("p", rows),) if cols is None else (whole("p", rows), whole("q", cols))
    return (whole("n", n), whole("c", channels), *image)


def joined(atoms: Iterable[Atom]) -> Axis:
    """A row of atoms with neighbours that continue each other made one, and those of size 1 left away.

    >>> joined([Atom("c", 3, 4), Atom("c", 4, 1)])
    (Atom(of='c', size=12, stride=1),)
    """
    result: list[Atom] = []
    for atom in atoms:
        if atom.size == 1:
            continue
        last = result[-1] if result else None
        if last is not None and last.of == atom.of and last.stride == atom.stride * atom.size:
            result[-1] = Atom(atom.of, last.size * atom.size, atom.stride)
        else:
            result.append(atom)
    return tuple(result)


def reshaped(layout: Layout, shape: Sequence[int]) -> Layout | None:
    """The same sequence of words in another shape; None where an axis would be cut in the middle of an atom.

    >>> reshaped(stored(n=4, channels=6), (6, 4)) is None
    True
    """
    atoms = [atom for axis in layout for atom in axis][::-1]
    result: list[Axis] = []
    for size in shape:
        axis: list[Atom] = []
        while size > 1:
            if not atoms:
                return None
            of, there, stride = atoms.pop()
            if size % there == 0:
                axis.append(Atom(of, there, stride))
                size //= there
            elif there % size == 0:
                inner = there // size
                axis.append(Atom(of, size, stride * inner))
                atoms.append(Atom(of, inner, stride))
                size = 1
            else:
                return None
        result.append(joined(axis))
    return tuple(result) if not atoms else None
