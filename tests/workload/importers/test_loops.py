"""Loops become layers that repeat, whether they were unrolled or not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import NodeProto, TensorProto, ValueInfoProto, helper
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from transformers import AutoConfig
from transformers.models.rwkv import modeling_rwkv

from fadiff import Workload
from fadiff.workload.importers import ImportedModel, ImportFailure, import_onnx
from fadiff.workload.importers.torch_front_end import state_space
from fadiff.workload.importers.torch_models import import_huggingface, import_torch
from workload.importers.graphs import GraphBuilder

STEPS, WIDTH, STATE = 20, 6, 4


class Source(nn.Module):
    """Makes what a loop reads: decay and update of every step, and what is wanted of the state."""

    def __init__(self):
        super().__init__()
        self.decay, self.update = nn.Linear(8, WIDTH * STATE), nn.Linear(8, WIDTH * STATE)
        self.wanted, self.head = nn.Linear(8, STATE), nn.Linear(WIDTH, 3)

    def made(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shape = (-1, WIDTH, STATE)
        return self.decay(x).view(shape), self.update(x).view(shape), self.wanted(x)


class Unrolled(Source):
    """A recurrence in a loop over time."""

    def forward(self, x: Tensor) -> Tensor:
        decay, update, wanted = self.made(x)
        state, outputs = torch.zeros(WIDTH, STATE), []
        for i in range(len(x)):
            state = decay[i] * state + update[i]
            outputs.append(torch.matmul(state, wanted[i].unsqueeze(-1))[:, 0])
        return self.head(torch.stack(outputs))


class Scanned(Source):
    """The same by PyTorch's scan."""

    def forward(self, x: Tensor) -> Tensor:
        def step(state: Tensor, now: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            decay, update, wanted = now
            state = decay * state + update
            return state.clone(), torch.matmul(state, wanted.unsqueeze(-1))[:, 0]

        _, outputs = scan(step, torch.zeros(WIDTH, STATE), self.made(x))
        return self.head(outputs)


def plain(network: Workload) -> list[object]:
    """Layers without their names."""
    number = {layer.name: i for i, layer in enumerate(network.layers)}
    return [
        (
            layer.kind,
            layer.dims,
            layer.repeat,
            [(o.source and number[o.source], o.port, o.fusible) for o in layer.inputs],
        )
        for layer in network.layers
    ]


def imported(module: nn.Module, steps: int = STEPS) -> ImportedModel:
    return import_torch(module, torch.zeros(steps, 8), unfold=True)


def test_steps_of_an_unrolled_loop_are_one_that_repeats():
    model = imported(Unrolled())
    assert [(layer.kind, layer.repeat) for layer in model.workload.layers] == [
        ("mac", 1), ("mac", 1), ("mac", 1), ("add", STEPS), ("add", STEPS), ("mac", STEPS), ("mac", 1)
    ]  # fmt: skip
    assert "a loop of 20 steps became layers that repeat" in model.report.notes
    assert model.report.macs == STEPS * (8 * (2 * WIDTH * STATE + STATE) + WIDTH * STATE + WIDTH * 3)
    assert model.report.parameters == model.report.layer_parameters + 2 * WIDTH * STATE + STATE + 3
    assert model.report.not_modelled == ()


def test_a_state_is_written_and_what_a_loop_leaves_is_read_from_dram():
    report = imported(Unrolled()).report
    reasons = {(edge.source, edge.target): edge.reason for edge in report.edges}
    assert "the state of a loop" in (reasons["add", "matmul"] or "")
    assert reasons["mul", "add"] is None
    assert reasons["matmul", "head"] == "a loop leaves it step by step"


def test_a_scan_has_the_layers_of_the_unrolled_loop():
    assert plain(imported(Scanned()).workload) == plain(imported(Unrolled()).workload)


def test_a_long_scan_has_no_more_layers_than_a_short_one():
    assert len(imported(Scanned(), 5000).workload.layers) == 7


def test_a_few_steps_are_no_loop():
    assert all(layer.repeat == 1 for layer in imported(Unrolled(), 7).workload.layers)


class Cell(nn.Module):
    """A recurrent cell with weights, over time steps that are taken apart first."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.Linear(12, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(2, 8)
        for now in x.unbind(1):
            state = torch.tanh(self.cell(torch.cat([now, state], -1)))
        return self.head(state)


class ScannedCell(Cell):
    def forward(self, x: Tensor) -> Tensor:
        def step(state: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
            state = torch.tanh(torch.nn.functional.linear(torch.cat([now, state], -1), self.cell.weight))
            return state, state.clone()

        return self.head(scan(step, x.new_zeros(2, 8), x.transpose(0, 1))[0])


@pytest.mark.parametrize("kind", [Cell, ScannedCell])
def test_weights_of_a_loop_are_parameters_once(kind: type[Cell]):
    model = import_torch(kind(), torch.zeros(2, 10, 4))
    first, rest, head = model.workload.layers
    assert (first.repeat, rest.repeat, head.repeat) == (1, 9, 1)
    assert "weight" in [operand.port for operand in rest.inputs if operand.source is None]
    assert any(operand.source == first.name for operand in rest.inputs)
    assert model.workload.parameter_words == 12 * 8 + 8 * 3
    assert model.workload.macs == 10 * 2 * 12 * 8 + 2 * 8 * 3
    assert head.inputs[0].source == rest.name
    assert not head.inputs[0].fusible


def test_blocks_with_weights_of_their_own_are_no_loop():
    module = nn.Sequential(*(nn.Linear(8, 8) for _ in range(9)))
    report = import_torch(module, torch.zeros(2, 8)).report
    assert not any("a loop of" in note for note in report.notes)
    assert report.layer_parameters == 9 * 64


class Watched(Unrolled):
    """Somebody outside reads a state near the end."""

    def forward(self, x: Tensor) -> Tensor:
        decay, update, _ = self.made(x)
        state, middle = torch.zeros(WIDTH, STATE), torch.zeros(WIDTH, STATE)
        for i in range(len(x)):
            state = decay[i] * state + update[i]
            middle = state if i == STEPS - 4 else middle
        return self.head((state + torch.relu(middle)).T)


class Skipping(Unrolled):
    """The slices of the steps do not follow each other."""

    def forward(self, x: Tensor) -> Tensor:
        decay, update, _ = self.made(x)
        state = torch.zeros(WIDTH, STATE)
        for i in range(len(x)):
            state = decay[i] * state + update[i * i % len(x)]
        return self.head(state.T)


def test_a_loop_ends_where_others_read_its_state():
    repeats = [layer.repeat for layer in imported(Watched()).workload.layers]
    assert repeats.count(STEPS - 3) == 2
    assert max(repeats) == STEPS - 3


def test_steps_whose_slices_do_not_follow_each_other_are_no_loop():
    assert all(layer.repeat == 1 for layer in imported(Skipping()).workload.layers)


def test_mamba_has_the_layers_that_its_loop_over_tokens_has(monkeypatch: pytest.MonkeyPatch):
    config = AutoConfig.for_model("mamba", hidden_size=16, num_hidden_layers=1, state_size=4, vocab_size=100)
    scanned = import_huggingface(config, seq=16)
    monkeypatch.setattr(state_space, "KERNELS", {})
    unrolled = import_huggingface(config, seq=16)
    assert "a loop of 16 steps became layers that repeat" in unrolled.report.notes
    assert plain(scanned.workload) == plain(unrolled.workload)
    assert scanned.report.macs == unrolled.report.macs
    assert scanned.report.not_modelled == ()


def test_many_blocks_of_many_tokens_are_a_few_layers():
    tiny = {"hidden_size": 16, "state_size": 4, "vocab_size": 100}
    one, many = (AutoConfig.for_model("mamba", num_hidden_layers=blocks, **tiny) for blocks in (1, 17))
    network = import_huggingface(many, seq=1000).workload
    assert len(network.layers) <= 30
    assert network.macs == 17 * import_huggingface(one, seq=1000).workload.macs


def test_a_selective_scan_computes_the_recurrence():
    torch.manual_seed(0)
    batch, width, time, state = 2, 3, 5, 4
    x, dt, z = (torch.rand(batch, width, time) for _ in range(3))
    a, b, c = -torch.rand(width, state), torch.rand(batch, state, time), torch.rand(batch, state, time)
    skip = torch.rand(width)
    found, last = state_space.selective_scan(
        x, dt, a, b, c, D=skip, z=z, delta_softplus=True, delta_bias=torch.ones(width), return_last_state=True
    )
    step = torch.log1p(torch.exp(dt + 1))
    h = torch.zeros(batch, width, state)
    for t in range(time):
        now = step[:, :, t, None]
        h = torch.exp(now * a) * h + now * b[:, None, :, t] * x[:, :, t, None]
        y = ((h * c[:, None, :, t]).sum(-1) + skip * x[:, :, t]) * z[:, :, t] * torch.sigmoid(z[:, :, t])
        assert torch.allclose(found[:, :, t], y, atol=1e-6)
    assert torch.allclose(last, h)


def test_a_scan_of_one_step_is_no_loop():
    config = AutoConfig.for_model("mamba", hidden_size=16, num_hidden_layers=1, state_size=4, vocab_size=100)
    found = import_huggingface(config, seq=1)
    assert {layer.repeat for layer in found.workload.layers} == {1}
    assert not any("loop" in note for note in found.report.notes)


def test_the_scan_of_rwkv_computes_what_its_loop_over_tokens_does():
    torch.manual_seed(0)
    decay, first = torch.rand(3), torch.rand(3)
    key, value = 4 * torch.rand(2, 2, 6, 3)
    whole, _ = modeling_rwkv.rwkv_linear_attention_cpu(decay, first, key, value)
    begun, state = state_space.averaging_scan(decay, first, key[:, :4], value[:, :4], return_state=True)
    ended, _ = state_space.averaging_scan(decay, first, key[:, 4:], value[:, 4:], state)
    assert torch.allclose(torch.cat([begun, ended], dim=1), whole, atol=1e-6)
    assert state_space.averaging_scan(decay, first, key, value)[1] is None


def test_rwkv_of_many_tokens_is_a_step_that_repeats():
    config = AutoConfig.for_model("rwkv", hidden_size=16, num_hidden_layers=1, vocab_size=100)
    found = import_huggingface(config, seq=128)
    assert found.report.not_modelled == ()
    assert "a loop of 128 steps became layers that repeat" in found.report.notes
    # Keys, values, receptances and what leaves, then a feed-forward of four times the width.
    assert found.workload.macs == 128 * (4 + 9) * 16 * 16
    repeats = [layer.repeat for layer in found.workload.layers]
    assert set(repeats) == {1, 128}
    # For a token and for the state: the largest exponent, two distances from it, and two sums; then their quotient.
    assert repeats.count(128) == 2 * (1 + 2 + 3 + 2) + 1


def info(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def step_nodes() -> list[NodeProto]:
    """state * decay + now, and a product of it."""
    return [
        helper.make_node("Mul", ["state", "decay"], ["held"], name="mul"),
        helper.make_node("Add", ["held", "now"], ["next"], name="add"),
        helper.make_node("MatMul", ["next", "wanted"], ["seen"], name="matmul"),
    ]


def by_scan(net: GraphBuilder, made: str, decay: str, wanted: str) -> str:
    inputs = [info("state", 4, 8), info("now", 4, 8), info("decay", 4, 8), info("wanted", 8, 1)]
    body = helper.make_graph(step_nodes(), "body", inputs, [info("next", 4, 8), info("seen", 4, 1)])
    state = net.constant(*([0.0] * 32))
    start = net.add("Reshape", state, net.integers(4, 8))
    return net.add_all("Scan", start, made, decay, wanted, outputs=2, name="scan", body=body, num_scan_inputs=3)[1]


def by_loop(net: GraphBuilder, made: str, decay: str, wanted: str) -> str:
    """The same; every step picks its slices itself."""
    picked = [
        helper.make_node("Gather", [source, "i"], [name], name=f"pick_{name}", axis=0)
        for source, name in ((made, "now"), (decay, "decay"), (wanted, "wanted"))
    ]
    inputs = [info("i", kind=TensorProto.INT64), info("go", kind=TensorProto.BOOL), info("state", 4, 8)]
    outputs = [info("on", kind=TensorProto.BOOL), info("next", 4, 8), info("seen", 4, 1)]
    nodes = [*picked, helper.make_node("Identity", ["go"], ["on"]), *step_nodes()]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    start = net.add("Reshape", net.constant(*([0.0] * 32)), net.integers(4, 8))
    count = net.constant(1000, scalar=True, kind=np.int64)
    return net.add_all("Loop", count, "", start, outputs=2, name="loop", body=body)[1]


@pytest.mark.parametrize("loop", [by_scan, by_loop])
def test_a_loop_of_an_onnx_file_is_layers_that_repeat(loop: Callable[..., str], tmp_path: Path):
    net = GraphBuilder()
    x = net.input("x", (1000, 4, 8))
    made, decay = (net.add("MatMul", x, net.weight(8, 8), name=name) for name in ("made", "decay_of"))
    wanted = net.add("MatMul", net.input("y", (1000, 8, 3)), net.weight(3, 1), name="wanted_of")
    net.add("MatMul", loop(net, made, decay, wanted), net.weight(1, 5), name="head")
    model = import_onnx(net.save(tmp_path, "head"))
    assert [(layer.kind, layer.repeat) for layer in model.workload.layers] == [
        ("mac", 1), ("mac", 1), ("mac", 1), ("add", 1000), ("add", 1000), ("mac", 1000), ("mac", 1)
    ]  # fmt: skip
    assert model.workload.macs == 1000 * (2 * 4 * 8 * 8 + 8 * 3 + 4 * 8 + 4 * 5)
    assert "a loop of 1000 steps became layers that repeat" in model.report.notes
    assert model.report.not_modelled == ()


def looped_product(net: GraphBuilder, count: str, goes_on: str = "", condition: str = "go") -> str:
    """A product with the same weights in every step, by Loop."""
    inputs = [info("i", kind=TensorProto.INT64), info("go", kind=TensorProto.BOOL), info("state", 4, 8)]
    nodes = [
        helper.make_node("MatMul", ["state", "w"], ["raw"], name="cell"),
        helper.make_node("Tanh", ["raw"], ["next"], name="tanh"),
        helper.make_node("Identity", [condition], ["on"]),
    ]
    outputs = [info("on", kind=TensorProto.BOOL), info("next", 4, 8)]
    weight = TensorProto(name="w", dims=(8, 8), data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="not-there.bin")
    body = helper.make_graph(nodes, "body", inputs, outputs, [weight])
    start = net.add("MatMul", net.input("x", (4, 6)), net.weight(6, 8), name="start")
    return net.add(
        "MatMul", net.add("Loop", count, goes_on, start, name="loop", body=body), net.weight(8, 3), name="head"
    )


def test_weights_of_a_loop_of_an_onnx_file_are_parameters_once(tmp_path: Path):
    net = GraphBuilder()
    looped_product(net, net.constant(20, scalar=True, kind=np.int64))
    model = import_onnx(net.save(tmp_path, "head"))
    assert [layer.repeat for layer in model.workload.layers] == [1, 1, 19, 1]
    assert model.report.layer_parameters == model.report.parameters == 6 * 8 + 8 * 8 + 8 * 3
    assert model.workload.macs == 4 * (6 * 8 + 20 * 8 * 8 + 8 * 3)


def test_a_loop_that_only_the_run_ends_is_refused(tmp_path: Path):
    told = "Loop 'loop' repeats its body while the network runs, and there is MatMul inside"
    counted = GraphBuilder()
    looped_product(counted, counted.input("count", (), TensorProto.INT64))
    ended = GraphBuilder()
    condition = ended.input("ready", (), TensorProto.BOOL)
    looped_product(ended, ended.constant(20, scalar=True, kind=np.int64), condition=condition)
    for net in (counted, ended):
        with pytest.raises(ImportFailure, match=told):
            import_onnx(net.save(tmp_path, "head"))


def test_an_unrolled_loop_in_an_onnx_file_is_rolled_up(tmp_path: Path):
    net = GraphBuilder()
    x = net.conv(net.input("x", (1, 4, 12, 1)), (4, 8), norm=False, name="source")
    state = net.conv(net.input("start", (1, 8, 1, 1)), (8, 8), norm=False, name="first")
    for i in range(12):
        now = net.add("Slice", x, net.integers(i), net.integers(i + 1), net.integers(2), name=f"now{i}")
        state = net.add("Tanh", net.add("Add", now, state, name=f"sum{i}"), name=f"state{i}")
    net.conv(state, (8, 2), norm=False, name="head")
    layers = import_onnx(net.save(tmp_path, "head")).workload.layers
    assert [(layer.name, layer.repeat) for layer in layers] == [("source", 1), ("first", 1), ("sum0", 12), ("head", 1)]
