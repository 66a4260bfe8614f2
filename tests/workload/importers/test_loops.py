"""Loops become layers that repeat, whether they were unrolled or not."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from transformers import AutoConfig

from fadiff import Workload
from fadiff.workload.importers import ImportedModel, import_onnx
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
    monkeypatch.setattr(state_space, "SELECTIVE_SCAN", "a name that no module has")
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
