"""What the model may do with a fusible edge, checked word by word.

A fused group may share its loops over N, P, Q, G or X as far as its rules allow. For any producer, any reshapes and
transpositions and any product behind them, every loop that the rules let the two layers share must really run over the
same words in both.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fadiff.workload import Layer
from fadiff.workload.importers.lowering import lower
from fadiff.workload.importers.operators import (
    Convolution,
    Elementwise,
    Operator,
    OperatorGraph,
    Product,
    Reshape,
    Tensor,
    Transpose,
)
from workload.importers.test_layout import factorizations

SIZES = st.sampled_from([1, 2, 3, 4])


class Views:
    """A producer's tensor, seen through reshapes and transpositions; `words` numbers the stored words."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.words = np.arange(prod(shape)).reshape(shape)
        self.tensors: dict[str, Tensor] = {}
        self.operators: list[Operator] = []

    def make(self, operator: Operator, shape: Sequence[int]) -> None:
        self.operators.append(operator)
        self.tensors[operator.outputs[0]] = Tensor(operator.outputs[0], tuple(shape))

    def fixed(self, name: str, *shape: int) -> str:
        self.tensors[name] = Tensor(name, shape, "parameter")
        return name


@st.composite
def producers(draw: st.DrawFn) -> tuple[Views, int]:
    """A convolution or a batched product, whose tensor is ``[N, G*K, P, Q]``, and its K."""
    if draw(st.booleans()):
        n, groups, k, p, q = (draw(SIZES) for _ in range(5))
        views = Views((n, groups * k, p, q))
        views.tensors["x"] = Tensor("x", (n, groups * 2, p, q), "input")
        views.fixed("w", groups * k, 2, 1, 1)
        convolution = Convolution(
            name="u", type="Conv", inputs=("x", "w"), outputs=("u",), groups=groups,
            stride=(1, 1), dilation=(1, 1), padding=((0, 0), (0, 0)),
        )  # fmt: skip
        views.make(convolution, views.words.shape)
        return views, k
    g, n, k = (draw(SIZES) for _ in range(3))
    views = Views((n, g * k, 1, 1))
    views.tensors["x"] = Tensor("x", (g, n, 2), "input")
    views.fixed("w", g, 2, k)
    batched = Product(name="u", type="MatMul", inputs=("x", "w"), outputs=("u",), left="gnc", right="gck", out="gnk")
    views.make(batched, (g, n, k))
    views.words = views.words.reshape(n, g, k).transpose(1, 0, 2)
    return views, k


@st.composite
def seen(draw: st.DrawFn) -> tuple[Views, int]:
    """A producer and up to five views of its tensor."""
    views, k = draw(producers())
    for i in range(draw(st.integers(0, 5))):
        shape = views.words.shape
        before, after = ("u" if i == 0 else f"v{i}"), f"v{i + 1}"
        if draw(st.booleans()):
            order = tuple(draw(st.permutations(range(len(shape)))))
            views.words = views.words.transpose(order)
            step: Operator = Transpose(name=after, type="T", inputs=(before,), outputs=(after,), permutation=order)
        else:
            # Mostly sensible ones: neighbours joined, or an axis split.
            views.words = views.words.reshape(draw(_reshapes(shape)))
            step = Reshape(name=after, type="R", inputs=(before,), outputs=(after,))
        views.make(step, views.words.shape)
    return views, k


@st.composite
def _reshapes(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    kind = draw(st.sampled_from(["join", "split", "any"]))
    if kind == "any":
        return draw(factorizations(prod(shape)))
    i = draw(st.integers(0, len(shape) - 1))
    if kind == "join" and i + 1 < len(shape):
        return (*shape[:i], shape[i] * shape[i + 1], *shape[i + 2 :])
    return (*shape[:i], *draw(factorizations(shape[i])), *shape[i + 1 :])


def same_blocks(rows: np.ndarray, of: np.ndarray) -> bool:
    """Whether all words of one index of `rows` have one index in `of`, another for each."""
    pairs = set(zip(rows.reshape(-1).tolist(), of.reshape(-1).tolist(), strict=True))
    return len({a for a, _ in pairs}) == len(pairs) == len({b for _, b in pairs})


@settings(max_examples=300)
@given(seen(), st.data())
def test_loops_that_may_be_shared_run_over_the_same_words(made: tuple[Views, int], data: st.DataObject) -> None:
    views, _ = made
    shape = views.words.shape
    assume(len(shape) <= 6 and min(shape) > 0)
    kinds = data.draw(st.lists(st.sampled_from("grc"), min_size=len(shape), max_size=len(shape)))
    letters = "abcdef"[: len(shape)]
    groups, rows, channels = ("".join(x for x, kind in zip(letters, kinds, strict=True) if kind == k) for k in "grc")
    size = dict(zip(letters, shape, strict=True))
    views.fixed("m", *(size[x] for x in groups), *(size[x] for x in channels), 3)
    source = "u" if len(views.operators) == 1 else f"v{len(views.operators) - 1}"
    out = groups + rows + "k"
    views.make(
        Product(
            name="v", type="MatMul", inputs=(source, "m"), outputs=("v",),
            left=letters, right=groups + channels + "k", out=out,
        ),
        [*(size[x] for x in groups + rows), 3],
    )  # fmt: skip
    workload = lower(OperatorGraph("g", views.tensors, tuple(views.operators), ("v",))).workload
    u, v = workload["u"], workload["v"]
    assert v.macs == prod(shape) * 3
    (operand,) = v.inputs
    if not operand.fusible:
        return
    check(u, v, views.words, letters, groups, rows, channels)


@settings(max_examples=150)
@given(seen(), st.data())
def test_groups_of_a_weight_port_are_those_of_its_producer(made: tuple[Views, int], data: st.DataObject) -> None:
    views, _ = made
    shape = views.words.shape
    assume(len(shape) <= 6)
    kinds = data.draw(st.lists(st.sampled_from("gco"), min_size=len(shape), max_size=len(shape)))
    letters = "abcdef"[: len(shape)]
    groups, channels, outs = ("".join(x for x, kind in zip(letters, kinds, strict=True) if kind == k) for k in "gco")
    size = dict(zip(letters, shape, strict=True))
    views.tensors["y"] = Tensor("y", (*(size[x] for x in groups), 5, *(size[x] for x in channels)), "input")
    source = "u" if len(views.operators) == 1 else f"v{len(views.operators) - 1}"
    views.make(
        Product(
            name="v", type="MatMul", inputs=("y", source), outputs=("v",),
            left=groups + "r" + channels, right=letters, out=groups + "r" + outs,
        ),
        [*(size[x] for x in groups), 5, *(size[x] for x in outs)],
    )  # fmt: skip
    workload = lower(OperatorGraph("g", views.tensors, tuple(views.operators), ("v",))).workload
    u, v = workload["u"], workload["v"]
    assert v.weight_words == prod(shape)
    assert v.macs == prod(shape) * 5
    (operand,) = (operand for operand in v.inputs if operand.port == "weight")
    if operand.fusible and u.dims.G == v.dims.G > 1:
        _, c, _, _ = np.unravel_index(views.words, (u.dims.N, u.channels, *u.stored))
        place = np.indices(shape)
        parts = [place[letters.index(x)] for x in groups]
        assert same_blocks(np.ravel_multi_index(parts, [size[x] for x in groups]), c // u.dims.K)


@settings(max_examples=150)
@given(st.tuples(SIZES, SIZES, SIZES, SIZES), st.data())
def test_addends_that_can_be_fused_are_laid_out_alike(stored: tuple[int, ...], data: st.DataObject) -> None:
    """Two tensors, each seen through views of its own, and summed: word by word in the same place, or not fusible."""
    views = Views(stored)
    views.tensors["x"] = Tensor("x", (stored[0], 2, *stored[2:]), "input")
    views.fixed("w", stored[1], 2, 1, 1)
    steps = data.draw(st.lists(st.sampled_from(["turn", "join", "split"]), max_size=4))
    seen_as: list[np.ndarray] = []
    for side in "ab":
        convolution = Convolution(
            name=side, type="Conv", inputs=("x", "w"), outputs=(side,), stride=(1, 1), dilation=(1, 1),
            padding=((0, 0), (0, 0)),
        )  # fmt: skip
        views.make(convolution, stored)
        words, name = np.arange(prod(stored)).reshape(stored), side
        for i, kind in enumerate(steps):
            before, name = name, f"{side}{i}"
            if kind == "turn":
                order = tuple(data.draw(st.permutations(range(words.ndim))))
                words = words.transpose(order)
                step: Operator = Transpose(name=name, type="T", inputs=(before,), outputs=(name,), permutation=order)
            else:
                words = words.reshape(data.draw(_reshapes(words.shape)))
                step = Reshape(name=name, type="R", inputs=(before,), outputs=(name,))
            views.make(step, words.shape)
        seen_as.append(words)
    assume(seen_as[0].shape == seen_as[1].shape)
    names = tuple(f"{side}{len(steps) - 1}" if steps else side for side in "ab")
    total = Elementwise(name="sum", type="Add", inputs=names, outputs=("sum",), function="add")
    views.make(total, seen_as[0].shape)
    workload = lower(OperatorGraph("g", views.tensors, tuple(views.operators), ("sum",))).workload
    assert workload["sum"].output_words == prod(stored)
    if all(operand.fusible for operand in workload["sum"].inputs):
        assert np.array_equal(*seen_as)


def check(u: Layer, v: Layer, words: np.ndarray, letters: str, groups: str, rows: str, channels: str) -> None:
    """Compare where words lie in the producer with which iteration of the consumer reads them."""
    n, c, p, q = np.unravel_index(words, (u.dims.N, u.channels, *u.stored))
    place = {x: np.indices(words.shape)[i] for i, x in enumerate(letters)}
    number = {
        name: np.ravel_multi_index([place[x] for x in part], [words.shape[letters.index(x)] for x in part])
        if part
        else np.zeros(words.shape, int)
        for name, part in (("g", groups), ("r", rows), ("c", channels))
    }
    assert words.size == v.dims.G * v.dims.N * v.dims.P * v.dims.Q * v.dims.C
    shared_image = u.stored == (v.dims.P, v.dims.Q) and u.stored != (1, 1)
    if shared_image and "transpose" not in u.epilogue:
        assert u.dims.N == v.dims.N
        assert same_blocks(number["r"], np.ravel_multi_index((n, p, q), (u.dims.N, *u.stored)))
    elif u.dims.N == v.dims.N > 1 and "transpose" not in u.epilogue:
        assert same_blocks(number["r"], n)
    if u.dims.G == v.dims.G > 1:
        assert same_blocks(number["g"], c // u.dims.K)
    if u.dims.G == v.dims.G and u.dims.K == v.dims.C > 1:
        assert same_blocks(number["g"] * v.dims.C + number["c"], c), (
            "the channel loop X would run over different channels"
        )


def test_the_check_itself_sees_a_permutation() -> None:
    rows = np.repeat(np.arange(3), 2)
    assert same_blocks(rows, np.repeat([2, 0, 1], 2))
    assert not same_blocks(rows, np.tile([0, 1], 3))
    assert not same_blocks(rows, np.zeros(6, int))
