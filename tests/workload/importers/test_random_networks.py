"""Random networks that make sense: they are imported, every product is counted, and they can be scheduled.

The generator draws operators that fit the tensors there are, and counts multiply-accumulates and parameters itself.
"""

import json
import random
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fadiff import greedy, load_hardware, violations
from fadiff.workload import load_workload
from fadiff.workload.file import workload_to_json
from fadiff.workload.importers import ImportedModel, import_onnx
from workload.importers.graphs import GraphBuilder

Shape = tuple[int, ...]


@dataclass
class Generator:
    """A network under construction, and the counts that its import must come to."""

    draw: random.Random
    net: GraphBuilder = field(default_factory=GraphBuilder)
    shapes: dict[str, Shape] = field(default_factory=dict)
    macs: int = 0
    weights: int = 0

    def put(self, name: str, shape: Shape) -> str:
        self.shapes[name] = shape
        return name

    def pick(self, *ranks: int) -> str | None:
        """A tensor of one of some ranks; the newest are the likeliest, so that networks grow long."""
        fitting = [name for name, shape in self.shapes.items() if len(shape) in ranks]
        return self.draw.choice(fitting[-4:]) if fitting else None

    def multiply(self, macs: int, weights: int) -> None:
        self.macs += macs
        self.weights += weights

    def step(self) -> None:
        getattr(self, self.draw.choice([name for name in dir(self) if name.startswith("make_")]))()

    def make_conv(self) -> None:
        if (x := self.pick(3, 4)) is None:
            return
        n, c, *image = self.shapes[x]
        groups = self.draw.choice([1, 1, c] + [2] * (c % 2 == 0))
        k = groups * self.draw.randrange(1, 5)
        kernel = [self.draw.choice([1, 1, 2, 3]) for _ in image]
        stride = [self.draw.choice([1, 1, 2]) for _ in image]
        dilation = [self.draw.choice([1, 1, 2]) for _ in image]
        pads = [[self.draw.randrange((r - 1) * d + 1) for r, d in zip(kernel, dilation, strict=True)] for _ in range(2)]
        sizes = zip(image, *pads, kernel, stride, dilation, strict=True)
        out = [(size + a + b - (r - 1) * d - 1) // s + 1 for size, a, b, r, s, d in sizes]
        if min(out) < 1:
            return
        made = self.net.add(
            "Conv", x, self.net.weight(k, c // groups, *kernel), group=groups, strides=stride, dilations=dilation,
            pads=pads[0] + pads[1],
        )  # fmt: skip
        self.multiply(n * k * prod(out) * c // groups * prod(kernel), k * c // groups * prod(kernel))
        self.put(made, (n, k, *out))

    def make_linear(self) -> None:
        if (x := self.pick(2, 3, 4)) is not None and self.shapes[x][-1] > 1:
            *rows, c = self.shapes[x]
            k = self.draw.randrange(1, 9)
            self.put(self.net.linear(x, c, k), (*rows, k))
            self.multiply(prod(rows) * c * k, c * k)

    def make_product(self) -> None:
        """Two activations: anything times its own transpose, or times another that fits."""
        if (x := self.pick(2, 3, 4)) is None or self.shapes[x][-1] == 1:
            return  # an outer product of inputs alone is a vector operator
        shape = self.shapes[x]
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        others = [
            name for name, other in self.shapes.items() if other[:-2] == shape[:-2] and other[-2:-1] == shape[-1:]
        ]
        if others and self.draw.random() < 0.5:
            y = self.draw.choice(others)
        else:
            y = self.put(self.net.add("Transpose", x, perm=order), (*shape[:-2], shape[-1], shape[-2]))
        out = (*shape[:-1], self.shapes[y][-1])
        self.put(self.net.add("MatMul", x, y), out)
        self.multiply(prod(out) * shape[-1], 0)

    def make_elementwise(self) -> None:
        if (x := self.pick(1, 2, 3, 4)) is None:
            return
        shape = self.shapes[x]
        same = [name for name, other in self.shapes.items() if other == shape]
        kind = self.draw.choice(["Relu", "Sigmoid", "Add", "Mul", "constant", "broadcast", "Tanh"])
        if kind in ("Add", "Mul"):
            self.put(self.net.add(kind, x, self.draw.choice(same)), shape)
        elif kind == "constant":
            self.put(self.net.add("Add", x, self.net.weight(*shape[-1:])), shape)
        elif kind == "broadcast":
            axis = self.draw.randrange(len(shape))
            mean = self.net.add("ReduceMean", self.draw.choice(same), axes=[axis])
            self.put(self.net.add("Mul", x, mean), shape)
        else:
            self.put(self.net.add(kind, x), shape)

    def make_norm(self) -> None:
        if (x := self.pick(2, 3, 4)) is not None:
            shape = self.shapes[x]
            if self.draw.random() < 0.5:
                self.put(self.net.add("Softmax", x, axis=self.draw.randrange(len(shape))), shape)
            else:
                self.put(self.net.layer_norm(x, shape[-1]), shape)

    def make_pool(self) -> None:
        if (x := self.pick(4)) is None:
            return
        n, c, *image = self.shapes[x]
        if self.draw.random() < 0.3:
            self.put(self.net.add("GlobalAveragePool", x), (n, c, 1, 1))
        elif min(image) >= 2:
            kind = self.draw.choice(["MaxPool", "AveragePool"])
            made = self.net.add(kind, x, kernel_shape=[2, 2], strides=[2, 2])
            self.put(made, (n, c, *(size // 2 for size in image)))
        else:
            made = self.net.add("Resize", x, "", self.net.constant(1, 1, 2, 2))
            self.put(made, (n, c, *(2 * size for size in image)))

    def make_view(self) -> None:
        if (x := self.pick(1, 2, 3, 4, 5)) is None:
            return
        shape = self.shapes[x]
        if self.draw.random() < 0.5:
            order = self.draw.sample(range(len(shape)), len(shape))
            self.put(self.net.add("Transpose", x, perm=order), tuple(shape[i] for i in order))
            return
        new: list[int] = []
        left = prod(shape)
        while left > 1 and len(new) < 3:
            new.append(self.draw.choice([d for d in range(1, left + 1) if left % d == 0]))
            left //= new[-1]
        self.put(self.net.add("Reshape", x, self.net.integers(*new, left)), (*new, left))

    def make_concat(self) -> None:
        if (x := self.pick(2, 3, 4)) is None:
            return
        shape = self.shapes[x]
        axis = self.draw.choice([1, 1, 0, len(shape) - 1])
        others = [y for y, s in self.shapes.items() if s[:axis] == shape[:axis] and s[axis + 1 :] == shape[axis + 1 :]]
        others = [y for y in others if len(self.shapes[y]) == len(shape)]
        parts = [x, *self.draw.choices(others, k=self.draw.randrange(1, 3))]
        total = sum(self.shapes[y][axis] for y in parts)
        self.put(self.net.add("Concat", *parts, axis=axis), (*shape[:axis], total, *shape[axis + 1 :]))

    def make_slice(self) -> None:
        if (x := self.pick(1, 2, 3, 4)) is None:
            return
        shape = self.shapes[x]
        axis = self.draw.randrange(len(shape))
        first = self.draw.randrange(shape[axis])
        last = self.draw.randrange(first + 1, shape[axis] + 1)
        made = self.net.add("Slice", x, *(self.net.integers(i) for i in (first, last, axis)))
        self.put(made, (*shape[:axis], last - first, *shape[axis + 1 :]))

    def make_recurrent(self) -> None:
        if (x := self.pick(3)) is None:
            return
        time, batch, features = self.shapes[x]
        hidden = self.draw.randrange(1, 5)
        w, r = self.net.weight(1, 4 * hidden, features), self.net.weight(1, 4 * hidden, hidden)
        made = self.net.add("Squeeze", self.net.add("LSTM", x, w, r, hidden_size=hidden), self.net.integers(1))
        self.put(made, (time, batch, hidden))
        self.multiply(time * batch * 4 * hidden * (features + hidden), 4 * hidden * (features + hidden))


def generated(seed: int) -> Generator:
    draw = random.Random(seed)
    made = Generator(draw)
    for i in range(2):
        shape = draw.choice([(1, 4, 8, 8), (2, 6, 4, 4), (1, 6, 8), (2, 5, 4), (6, 8)])
        made.put(made.net.input(f"x{i}", shape), shape)
    made.make_conv()
    made.make_linear()
    for _ in range(draw.randrange(4, 16)):
        made.step()
    return made


def imported(made: Generator, folder: Path) -> ImportedModel:
    """All tensors that nobody reads are outputs, so that all operators count."""
    read = {name for node in made.net.nodes for name in node.input}
    outputs = [name for name in made.shapes if name not in read and not name.startswith("x")]
    return import_onnx(made.net.save(folder, *outputs))


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32))
def test_every_product_and_every_weight_is_counted(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = generated(seed)
    found = imported(made, tmp_path_factory.getbasetemp())
    assert found.report.macs == made.macs
    assert found.report.layer_parameters == made.weights
    assert found.report.not_modelled == ()
    assert sum(row.macs for row in found.report.operators) == made.macs


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_what_is_imported_can_be_saved_and_scheduled(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    workload = imported(generated(seed), folder).workload
    path = folder / "network.json"
    path.write_text(json.dumps(workload_to_json(workload)), encoding="utf-8")
    assert load_workload(path) == workload
    assert load_workload(path).edges == workload.edges  # reasons too
    assert violations(greedy(workload, load_hardware("gemmini-small"))) == []
