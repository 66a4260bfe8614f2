"""Modules traced by torch.export: side effects, names, roles of tensors, and what cannot be traced."""

import builtins
import importlib.util
import logging
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.export import export as torch_export

import fadiff
from fadiff.errors import FadiffError
from fadiff.files import FileError
from fadiff.workload import Dims
from fadiff.workload.importers.operators import Elementwise, Product
from fadiff.workload.importers.torch_front_end.program import export, functional
from fadiff.workload.importers.torch_front_end.translation import operator_graph
from fadiff.workload.importers.torch_models import import_torch, import_torch_file, is_torch_file

X = torch.zeros(4, 8)


class Net(nn.Module):
    """Two linear layers and a function between them."""

    def __init__(self, between=lambda x: x):
        super().__init__()
        self.first, self.between, self.last = nn.Linear(8, 8), between, nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.between(self.first(x)))


def graph_of(module, *inputs):
    return operator_graph(export(module, inputs, {}), "net")


def edges(workload):
    return [(edge.source, edge.target, edge.fusible) for edge in workload.edges]


# --- programs ---------------------------------------------------------------------------------------------------------


def test_a_module_becomes_layers_named_after_its_parts():
    network = fadiff.from_torch(Net(torch.relu), X)
    assert network.name == "Net"
    assert [(layer.name, layer.dims) for layer in network.layers] == [
        ("first", Dims(N=4, K=8, C=8)),
        ("last", Dims(N=4, K=2, C=8)),
    ]
    assert network["first"].epilogue == ("bias", "relu")
    assert edges(network) == [("first", "last", True)]


def test_inputs_may_be_a_tensor_a_sequence_or_named():
    expected = fadiff.from_torch(Net(), X)
    assert (
        fadiff.from_torch(Net(), (X,))
        == fadiff.from_torch(Net(), [X])
        == fadiff.from_torch(Net(), {"x": X})
        == expected
    )
    assert fadiff.from_torch(Net(), X, name="mine").name == "mine"


def test_a_module_without_weights_gives_the_same_network():
    with torch.device("meta"):
        module = Net()
    assert fadiff.from_torch(module, X) == fadiff.from_torch(Net(), X)


def test_a_module_is_left_as_it_was():
    module = Net(nn.Dropout())
    module.last.eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    fadiff.from_torch(module, X)
    assert (module.training, module.first.training, module.last.training) == (True, True, False)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_an_exported_program_gives_the_same_network():
    program = torch_export(Net(torch.relu).eval(), (X,))
    assert fadiff.from_torch(program, name="Net") == fadiff.from_torch(Net(torch.relu), X)


def test_sizes_left_open_are_those_of_the_example():
    program = torch_export(Net().eval(), (X,), dynamic_shapes=({0: Dim("rows", min=2, max=64)},))
    assert fadiff.from_torch(program, name="Net") == fadiff.from_torch(Net(), X)


def test_parameters_buffers_and_inputs_have_their_roles():
    graph = graph_of(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)), torch.zeros(1, 3, 4, 4))
    roles = {name: tensor.role for name, tensor in graph.tensors.items()}
    assert roles["0.weight"] == roles["1.bias"] == "parameter"
    assert roles["1.running_mean"] == "constant"
    assert roles["input"] == "input"


def test_what_is_known_beforehand_takes_no_operator():
    graph = graph_of(Net(lambda x: x + torch.arange(8).cumsum(0).float().sqrt()), X)
    assert [type(operator) for operator in graph.operators] == [Product, Elementwise, Product]


def test_two_calls_of_one_module_are_two_layers():
    module = Net()
    module.between = lambda x: module.first(torch.relu(x))
    imported = import_torch(module, X)
    assert [layer.name for layer in imported.workload.layers] == ["first", "first.2", "last"]
    assert imported.report.parameters == 72 + 18


# --- side effects -----------------------------------------------------------------------------------------------------


def add_one_(x):
    return x.add_(1)


def write_through_a_view(x):
    x[:, 1:].mul_(2)
    return x


def write_after_a_view(x):
    view = x.view(8, 4)
    x.relu_()
    return view.view(4, 8)


def write_a_column(x):
    x[:, 0] = 1
    return x


IN_PLACE = {
    "alone": (add_one_, False),
    "chained": (lambda x: x.add_(1).mul_(2).clamp_(0), False),
    "through a view": (write_through_a_view, True),
    "seen by a view": (write_after_a_view, True),
    "a part": (write_a_column, True),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_writes_into_its_input_depends_on_it_as_if_it_made_a_new_tensor(name):
    function, rewritten = IN_PLACE[name]
    program = export(Net(function), (X,), {})
    assert (functional(program, lambda node: True) is not program) is rewritten
    network = fadiff.from_torch(Net(function), X)
    assert [layer.name for layer in network.layers][:1] == ["first"]
    assert {edge.source for edge in network.producers["last"]} >= {"first"}


def test_a_write_that_others_see_is_not_lost():
    """The second reader of the view reads what relu left: both of its readers come after it."""

    def between(x):
        view = x.view(8, 4)
        x.relu_()
        return x + view.view(4, 8)

    graph = graph_of(Net(between), X)
    functions = [operator.function for operator in graph.operators if isinstance(operator, Elementwise)]
    assert functions == ["relu", "add"]
    assert fadiff.from_torch(Net(between), X)["first"].epilogue[:2] == ("bias", "relu")


def test_modes_are_no_operators():
    def between(x):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ x.mT) @ x

    network = fadiff.from_torch(Net(between), X)
    assert [layer.macs for layer in network.layers] == [256, 128, 128, 64]


# --- what cannot be traced --------------------------------------------------------------------------------------------


def by_sum(x):
    return x if x.sum() > 0 else -x


FAILURES = {
    "a branch": (Net(by_sum), X, "which way it goes, or a shape, depends on the values of a tensor"),
    "torch.cond": (
        Net(lambda x: torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))),
        X,
        "the model has control flow that depends on data (torch.cond): one workload cannot say which way it goes",
    ),
    "a shape from data": (
        Net(lambda x: x[x > 0].unsqueeze(1).expand(-1, 8)), X, "the values of a tensor: layers need fixed sizes",
    ),
    "a wrong shape": (Net(), torch.zeros(4, 9), "Net cannot be traced with these inputs: "),
    "no inputs": (Net(), (), "Net cannot be traced with these inputs: missing a required argument: 'x'"),
    "an unknown input": (Net(), {"y": X}, "Net cannot be traced with these inputs: "),
    "a shape instead of a tensor": (Net(), (4, 8), "the inputs are numbers: give tensors, such as torch.zeros(4, 8)"),
    "nothing to multiply": (nn.ReLU(), X, "it has no convolution and no matrix product: there is nothing to schedule"),
    "an error of its own": (Net(lambda x: 1 / 0), X, "Net cannot be traced with these inputs: division by zero"),
    "a function": (torch.relu, X, "is no torch.nn.Module and no torch.export program: give one of them"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_what_cannot_be_traced_is_told_in_one_sentence(name, capfd):
    module, inputs, sentence = FAILURES[name]
    with pytest.raises(FadiffError) as refused:
        fadiff.from_torch(module, inputs)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_failure_leaves_the_module_and_the_logs_as_they_were():
    module = Net(by_sum)
    with pytest.raises(FadiffError):
        fadiff.from_torch(module, X)
    assert module.training
    assert not logging.root.manager.disable


def test_warnings_of_a_module_are_not_passed_on():
    def between(x):
        warnings.warn("never mind", stacklevel=2)
        return x

    assert fadiff.from_torch(Net(between), X).macs == 320


def test_without_pytorch_one_sentence_says_what_to_install(monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(
        "fadiff.workload.importers.torch_front_end.program.find_spec",
        lambda name: None if name == "torch" else there(name),
    )
    with pytest.raises(FadiffError, match=r"PyTorch is not installed: run python -m pip install 'torch>="):
        fadiff.from_torch(Net(), X)


def test_reading_the_package_does_not_load_pytorch(monkeypatch):
    """Nothing imports torch before a module is there to import."""
    loaded = []
    real = builtins.__import__

    def watched(name, *args, **kwargs):
        loaded.append(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", watched)
    importlib.reload(importlib.import_module("fadiff.workload.importers.torch_models"))
    assert not [name for name in loaded if name.split(".")[0] in ("torch", "transformers")]


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "net.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch_export(Net(torch.relu).eval(), (X,)), path)
    return path


def test_a_saved_program_gives_the_same_network(saved):
    assert is_torch_file(saved)
    assert import_torch_file(saved).workload == fadiff.from_torch(Net(torch.relu), X, name="net")


def test_a_saved_program_keeps_its_shapes(saved):
    with pytest.raises(FileError, match="its shapes are those it was exported with"):
        import_torch_file(saved, dims={"batch": 2})


def test_bad_files_are_told_in_one_sentence(saved, tmp_path):
    cut, empty, missing = (tmp_path / f"{name}.pt2" for name in ("cut", "empty", "missing"))
    cut.write_bytes(saved.read_bytes()[:100])
    empty.write_bytes(b"")
    for path, sentence in ((cut, "can be read"), (empty, "can be read"), (missing, "there is no such file")):
        with pytest.raises(FileError, match=sentence) as refused:
            import_torch_file(path)
        assert str(refused.value).startswith(f"{path}: ")
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin", ".safetensors", ".PT"])
def test_weights_without_a_graph_are_refused_with_a_remedy(suffix, tmp_path):
    path = tmp_path / f"model{suffix}"
    assert is_torch_file(path)
    with pytest.raises(FileError, match=r"no graph: save the model with torch.onnx.export, or with torch.export.save"):
        import_torch_file(path)


def test_other_files_are_left_to_others(tmp_path):
    (tmp_path / "net.json").write_text('{"name": "net", "layers": []}')
    for name in ("net.json", "net.onnx", "net.yaml", "nothing.json", "."):
        assert not is_torch_file(tmp_path / name)


# --- schedules --------------------------------------------------------------------------------------------------------


class Mixed(nn.Module):
    """A convolution whose output is sliced, concatenated, attended to and pooled."""

    def __init__(self):
        super().__init__()
        self.stem, self.side, self.mix = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.Conv2d(4, 4, 3, padding=1),
            nn.Conv2d(12, 8, 1),
        )
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = self.mix(torch.cat([x, self.side(x[:, 2:6])], 1)).flatten(2).mT
        x = self.norm(x + nn.functional.scaled_dot_product_attention(x, x, x))
        return self.head(x.mean(1))


def test_a_module_can_be_scheduled_and_the_schedule_holds_up():
    network = fadiff.from_torch(Mixed(), torch.zeros(1, 3, 6, 6))
    assert {edge.fusible for edge in network.edges} == {True, False}
    schedule = fadiff.greedy(network, fadiff.load_hardware("gemmini-small"))
    assert fadiff.violations(schedule) == []
    assert fadiff.verify(schedule).holds
