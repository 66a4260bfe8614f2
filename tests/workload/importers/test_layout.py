"""Layouts against NumPy: an array of the stored tensor's own indices, reshaped and transposed, tells the truth."""

import doctest
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fadiff.workload.importers.lowering import convolutions, layout, naming
from fadiff.workload.importers.lowering.convolutions import phases
from fadiff.workload.importers.lowering.layout import Atom, Axis, Layout, joined, reshaped, stored, whole

SIZES = st.sampled_from([1, 2, 3, 4, 6])


def places(axis: Axis) -> list[dict[str, int]]:
    """For every place along an axis of a view: how far it moves along each stored axis."""
    found: list[dict[str, int]] = [{}]
    for atom in axis:
        found = [
            {**moved, atom.of: moved.get(atom.of, 0) + i * atom.stride} for moved in found for i in range(atom.size)
        ]
    return found


def view(axes: Layout, sizes: dict[str, int]) -> np.ndarray:
    """The numbers of stored words that a layout says its view holds."""
    weight = {"n": sizes["c"] * sizes["p"] * sizes["q"], "c": sizes["p"] * sizes["q"], "p": sizes["q"], "q": 1, "b": 0}
    made = np.zeros((), int)
    for axis in axes:
        along = [sum(step * weight[of] for of, step in moved.items()) for moved in places(axis)]
        made = made[..., None] + np.asarray(along)
    return made


@st.composite
def chains(draw: st.DrawFn) -> tuple[dict[str, int], list[tuple[int, ...] | list[int]]]:
    """Sizes of a stored tensor, and reshapes (tuples) and transpositions (lists) of it."""
    sizes = {of: draw(SIZES) for of in "ncpq"}
    shape = tuple(sizes.values())
    steps: list[tuple[int, ...] | list[int]] = []
    for _ in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            order = draw(st.permutations(range(len(shape))))
            steps.append(list(order))
            shape = tuple(shape[i] for i in order)
        else:
            shape = draw(factorizations(prod(shape)))
            steps.append(shape)
    return sizes, steps


@st.composite
def factorizations(draw: st.DrawFn, total: int) -> tuple[int, ...]:
    shape: list[int] = []
    while total > 1 and len(shape) < 5:
        factor = draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
        shape.append(factor)
        total //= factor
    return (*shape, total)


@given(chains())
def test_a_layout_says_where_every_word_of_a_view_is_stored(chain) -> None:
    sizes, steps = chain
    words = np.arange(prod(sizes.values())).reshape(tuple(sizes.values()))
    axes: Layout | None = stored(n=sizes["n"], channels=sizes["c"], rows=sizes["p"], cols=sizes["q"])
    for step in steps:
        if isinstance(step, list):
            words, axes = words.transpose(step), tuple(axes[i] for i in step)
        else:
            words, axes = words.reshape(step), reshaped(axes, step)
        if axes is None:
            return
        assert np.array_equal(view(axes, sizes), words)


@given(chains())
def test_a_reshape_to_what_it_was_is_no_reshape(chain) -> None:
    sizes, _ = chain
    axes = stored(n=sizes["n"], channels=sizes["c"], rows=sizes["p"], cols=sizes["q"])
    flat = reshaped(axes, (prod(sizes.values()),))
    assert flat is not None
    assert reshaped(flat, tuple(sizes.values())) == axes


def test_a_cut_through_the_middle_of_an_axis_is_not_followed() -> None:
    assert reshaped(stored(n=4, channels=6), (8, 3)) == ((Atom("n", 4, 1), Atom("c", 2, 3)), (Atom("c", 3, 1),))
    assert reshaped(stored(n=4, channels=6), (6, 4)) is None
    assert reshaped(stored(n=4, channels=6), (5, 5)) is None


def test_pieces_that_continue_each_other_are_one() -> None:
    assert joined([Atom("c", 2, 6), Atom("c", 1, 6), Atom("c", 6, 1)]) == whole("c", 12)
    assert joined([Atom("c", 6, 1), Atom("c", 2, 6)]) == (Atom("c", 6, 1), Atom("c", 2, 6))


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.integers(0, 4), st.integers(0, 3))
def test_phases_hold_the_products_of_a_transposed_convolution(
    size: int, kernel: int, stride: int, dilation: int, before: int, cut: int
) -> None:
    """Counted one by one: output o gets input i times tap t for o = i*stride + t*dilation - before."""
    reach = (kernel - 1) * dilation
    outputs = (size - 1) * stride + reach + 1 - before - cut
    if outputs < 1:
        return
    found = phases(outputs, kernel, stride, dilation, before)
    assert sum(phase.outputs for phase in found) == outputs
    for first, phase in enumerate(found):
        met = {t for t in range(kernel) for i in range(-40, 40) if i * stride + t * dilation - before == first}
        assert phase.taps == len(met)
        # It is a plain convolution whose first tap lies `before` rows above the first input.
        for j, o in enumerate(range(first, outputs, stride)):
            window = [j - phase.before + tap * phase.spacing for tap in range(phase.taps)]
            assert window == sorted(i for t in met for i in range(-40, 40) if i * stride + t * dilation - before == o)
        # Away from the borders every output of the phase meets as many inputs as there are taps.
        for o in range(first, outputs, stride):
            inputs = [i for t in range(kernel) for i in range(size) if i * stride + t * dilation - before == o]
            assert len(inputs) <= phase.taps
            if reach <= o + before <= (size - 1) * stride:
                assert len(inputs) == phase.taps
                assert all(b - a == phase.spacing for a, b in zip(sorted(inputs), sorted(inputs)[1:], strict=False))


def test_examples_in_docstrings_hold() -> None:
    for module in (layout, naming, convolutions):
        assert doctest.testmod(module).attempted > 0
        assert doctest.testmod(module).failed == 0
