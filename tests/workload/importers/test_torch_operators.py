"""PyTorch modules as layers: MACs equal PyTorch's own counter, parameters the sum of their sizes."""

import doctest
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from fadiff.workload.importers.torch_front_end import macs
from fadiff.workload.importers.torch_models import import_torch

IMAGE, ROWS = (2, 8, 16, 16), (2, 10, 32)


class Apply(nn.Module):
    """A function of modules and inputs."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function, self.modules_ = function, nn.ModuleList(modules)

    def forward(self, *inputs):
        return self.function(*self.modules_, *inputs)


def meta(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype, device="meta")


def counted_macs(module, *inputs):
    """What PyTorch's own counter says."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module.eval()(*inputs)
    return counter.get_total_flops() // 2


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def heads(x, count):
    """``[batch, rows, channels]`` as ``[batch, heads, rows, width]``."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def cut_and_join(a, b, x):
    joined = torch.cat([a(x), *b(x).chunk(2, 1)], 1)
    return joined.roll(1, 2).flip(3)[:, ::2].repeat(1, 2, 1, 1).mean((2, 3))


def stack_and_pick(m, x):
    stacked = torch.stack([m(x), x]).repeat_interleave(2, 0).unbind(1)[1]
    return stacked.topk(3)[0].sort(1)[0].cumsum(1).var(1)


MODULES = {
    "linear": (lambda: nn.Linear(32, 8), ROWS),
    "linear on a vector": (lambda: nn.Linear(32, 8), (32,)),
    "linear on an image": (lambda: nn.Linear(16, 8), IMAGE),
    "weight, transposed": (lambda: Apply(lambda m, x: x @ m.weight.t(), nn.Linear(32, 8, bias=False)), ROWS),
    "weight, reshaped": (lambda: Apply(lambda m, x: x @ m.weight.view(32, 8), nn.Linear(32, 8, bias=False)), ROWS),
    "bilinear": (lambda: Apply(lambda m, x: m(x, x), nn.Bilinear(32, 32, 4)), ROWS),
    "conv1d": (lambda: nn.Conv1d(10, 4, 3, padding=1), ROWS),
    "conv2d": (lambda: nn.Conv2d(8, 4, 3, stride=2, padding=1), IMAGE),
    "conv2d, same": (lambda: nn.Conv2d(8, 4, 4, padding="same", dilation=2), IMAGE),
    "conv2d, valid": (lambda: nn.Conv2d(8, 4, (3, 1), padding="valid"), IMAGE),
    "conv2d, grouped": (lambda: nn.Conv2d(8, 16, 3, groups=4), IMAGE),
    "conv2d, depthwise": (lambda: nn.Conv2d(8, 8, 3, groups=8), IMAGE),
    "conv2d, one image": (lambda: nn.Conv2d(8, 4, 3), IMAGE[1:]),
    "conv3d": (lambda: nn.Conv3d(2, 4, 3, padding=1), (1, 2, 5, 6, 7)),
    "conv_transpose1d": (lambda: nn.ConvTranspose1d(10, 4, 4, stride=2, padding=1), ROWS),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(8, 4, 2, stride=2), IMAGE),
    "conv_transpose2d, grouped": (lambda: nn.ConvTranspose2d(8, 4, 3, padding=1, groups=2), IMAGE),
    "lstm": (lambda: nn.LSTM(32, 16), ROWS),
    "lstm, two layers, both ways": (lambda: nn.LSTM(32, 16, 2, bidirectional=True, batch_first=True), ROWS),
    "lstm, one sequence": (lambda: nn.LSTM(32, 16), ROWS[1:]),
    "gru": (lambda: nn.GRU(32, 16, 2), ROWS),
    "rnn": (lambda: nn.RNN(32, 16, nonlinearity="relu"), ROWS),
    "lstm cell": (lambda: nn.LSTMCell(32, 16), ROWS[1:]),
    "gru cell": (lambda: nn.GRUCell(32, 16), ROWS[1:]),
    "multi-head attention": (lambda: Apply(lambda m, x: m(x, x, x), nn.MultiheadAttention(32, 4)), ROWS),
    "transformer encoder": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), ROWS),
    "transformer decoder": (lambda: Apply(lambda m, x: m(x, x), nn.TransformerDecoderLayer(32, 4, 64)), ROWS),
    "attention": (
        lambda: Apply(
            lambda q, k, v, x: functional.scaled_dot_product_attention(heads(q(x), 4), heads(k(x), 4), heads(v(x), 4)),
            nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 64),
        ),
        ROWS,
    ),
    "einsum": (lambda: Apply(lambda m, x: torch.einsum("bij,bkj->bik", m(x), x), nn.Linear(32, 32)), ROWS),
    "einsum with dots": (lambda: Apply(lambda m, x: torch.einsum("...ij,kj", m(x), x[0]), nn.Linear(32, 32)), ROWS),
    "einsum of three": (
        lambda: Apply(lambda m, x: torch.einsum("bij,bkj,bkl->bil", m(x), x, x), nn.Linear(32, 32)), ROWS,
    ),
    "einsum of a diagonal": (lambda: Apply(lambda m, x: torch.einsum("bii->bi", m(x)), nn.Linear(32, 10)), ROWS),
    "addmm": (lambda: Apply(lambda m, x: torch.addmm(x, m(x), x.t() @ x), nn.Linear(32, 32)), ROWS[1:]),
    "baddbmm": (lambda: Apply(lambda m, x: torch.baddbmm(m(x), x, x.mT @ x), nn.Linear(32, 32)), ROWS),
    "batch that broadcasts": (lambda: Apply(lambda m, x: m(x) @ x[0].mT, nn.Linear(32, 32)), ROWS),
    "vectors": (lambda: Apply(lambda m, x: (m(x) @ x[0, 0]) @ x[0, 0, :10], nn.Linear(32, 32)), (3, 10, 32)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Conv2d(8, 4, 3)), IMAGE),
    "shared weights": (lambda: Apply(lambda m, x: m(m(x)), nn.Linear(32, 32)), ROWS),
    "norms, activations and poolings": (
        lambda: nn.Sequential(
            nn.Conv2d(8, 8, 1), nn.GroupNorm(2, 8), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.InstanceNorm2d(8),
            nn.PReLU(8), nn.Hardswish(), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(3),
            nn.Conv2d(8, 4, 1), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(4, 3), nn.LogSoftmax(-1),
        ),
        IMAGE,
    ),
    "gates": (
        lambda: nn.Sequential(nn.Linear(32, 32), nn.GLU(), nn.RMSNorm(16), nn.LayerNorm(16), nn.Linear(16, 2)), ROWS,
    ),
    "shuffles": (
        lambda: nn.Sequential(
            nn.Conv2d(8, 16, 1), nn.PixelShuffle(2), nn.ChannelShuffle(2), nn.PixelUnshuffle(2), nn.Conv2d(16, 4, 1)
        ),
        IMAGE,
    ),
    "resizes and pads": (
        lambda: nn.Sequential(
            nn.Conv2d(8, 16, 3), nn.Upsample(scale_factor=2, mode="bilinear"), nn.ZeroPad2d((1, 0, 2, 1)),
            nn.Conv2d(16, 4, 3), nn.ReflectionPad2d(1), nn.Conv2d(4, 4, 3), nn.UpsamplingNearest2d(scale_factor=2),
            nn.Conv2d(4, 4, 1),
        ),
        IMAGE,
    ),
    "slices and concatenations": (lambda: Apply(cut_and_join, nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)), IMAGE),
    "stacks and picks": (lambda: Apply(stack_and_pick, nn.Linear(32, 32)), ROWS),
    "windows": (
        lambda: Apply(
            lambda m, x: functional.unfold(x, 3).mT @ m.weight.flatten(1).mT, nn.Conv2d(8, 4, 3, bias=False)
        ),
        IMAGE,
    ),
}  # fmt: skip


UNCOUNTED = {"bilinear": 20 * (32 * 32 * 4 + 32 * 4), "vectors": 30 * 32 + 3 * 10}
"""MACs of operators that PyTorch's counter has no formula for."""


@pytest.mark.parametrize("name", MODULES)
def test_macs_and_parameters_are_those_that_pytorch_counts(name):
    build, shape = MODULES[name]
    with torch.device("meta"):
        module = build()
    report = import_torch(module, meta(*shape)).report
    assert report.parameters == parameters(module)
    assert report.not_modelled == ()
    assert report.macs == counted_macs(module, meta(*shape)) + UNCOUNTED.get(name, 0)


STEPS = {
    "conv": lambda c, draw: nn.Conv2d(c, draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 2)), 1),
    "depthwise": lambda c, draw: nn.Conv2d(c, c * draw(st.integers(1, 2)), 3, padding=1, groups=c),
    "up": lambda c, draw: nn.ConvTranspose2d(c, draw(st.integers(1, 4)), 2, stride=2),
    "norm": lambda c, draw: nn.BatchNorm2d(c),
    "act": lambda c, draw: draw(st.sampled_from([nn.ReLU(inplace=True), nn.GELU(), nn.SiLU(), nn.Sigmoid()])),
    "pool": lambda c, draw: draw(st.sampled_from([nn.MaxPool2d(2, 1), nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(3)])),
    "double": lambda c, draw: Apply(lambda x: torch.cat([x, x.roll(1, 1)], 1)),
    "half": lambda c, draw: Apply(lambda x: x.chunk(2, 1)[0]),
    "square": lambda c, draw: Apply(lambda x: (x.flatten(2) @ x.flatten(2).mT).unsqueeze(1)),
    "turn": lambda c, draw: Apply(lambda x: x.permute(0, 2, 3, 1)),
    "residual": lambda c, draw: Apply(lambda m, x: x + m(x), nn.Conv2d(c, c, 3, padding=1)),
    "attend": lambda c, draw: Apply(lambda x: functional.scaled_dot_product_attention(x, x, x)),
}


@st.composite
def stacks(draw):
    """Layers one after the other, each made for what the one before leaves."""
    with torch.device("meta"):
        x = meta(2, draw(st.integers(1, 4)), draw(st.integers(4, 8)), draw(st.integers(4, 8)))
        shape, made = x.shape, [nn.Conv2d(x.shape[1], x.shape[1], 1)]
        for name in draw(st.lists(st.sampled_from(sorted(STEPS)), max_size=7)):
            step = STEPS[name](x.shape[1], draw)
            after = step.eval()(x) if min(x.shape[2:]) >= 3 else x
            if after is not x and after.numel() < 10_000:
                made.append(step)
                x = after
    return nn.Sequential(*made), shape


@settings(max_examples=30)
@given(stacks())
def test_any_stack_of_layers_is_counted_as_pytorch_does(drawn):
    module, shape = drawn
    imported = import_torch(module, meta(*shape))
    assert imported.report.macs == counted_macs(module, meta(*shape))
    assert imported.report.parameters == parameters(module)
    assert imported.report.not_modelled == ()


def test_examples_in_docstrings_run():
    assert doctest.testmod(macs).failed == 0


def layers_of(module, *inputs):
    return import_torch(module, inputs).workload.layers


def test_a_transposed_convolution_with_padding_multiplies_what_falls_inside():
    """Each output row 1 to 30 of 32 sums over the kernel rows that meet an input row."""
    module = nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1, groups=2)
    total = sum(layer.macs for layer in layers_of(module, torch.zeros(IMAGE)))
    taps = sum((row + 1 - t) % 2 == 0 for row in range(32) for t in range(3))
    assert total == 2 * taps * taps * 8 * 2


@pytest.mark.parametrize(
    ("module", "shape", "pad"),
    [
        (nn.Conv1d(10, 4, 3, padding=2), ROWS, (2, 0)),
        (nn.Conv2d(8, 4, (3, 5), stride=2, padding=(1, 2)), IMAGE, (1, 2)),
        (nn.Conv2d(8, 4, (4, 2), padding="same", dilation=(2, 1)), IMAGE, (3, 0)),
        (nn.Conv2d(8, 4, (3, 1), padding="valid"), IMAGE, (0, 0)),
        (nn.Conv2d(8, 4, 1), IMAGE, None),
        (nn.Conv3d(2, 4, 3, padding=(0, 1, 2)), (1, 2, 5, 6, 7), (1, 2)),
        (nn.ConvTranspose2d(8, 4, 3, padding=1), IMAGE, (1, 1)),
        (nn.Sequential(nn.Conv2d(8, 8, 1), nn.ZeroPad2d((1, 0, 2, 1)), nn.Conv2d(8, 4, 3)), IMAGE, (2, 1)),
    ],
    ids=str,
)
def test_padding_above_and_to_the_left_is_told(module, shape, pad):
    assert layers_of(module, torch.zeros(shape))[-1].pad == pad


def test_embeddings_are_looked_up_and_multiply_nothing():
    module = nn.Sequential(nn.EmbeddingBag(100, 16), nn.Linear(16, 4))
    report = import_torch(module, torch.zeros(3, 5, dtype=torch.long)).report
    assert (report.macs, report.parameters) == (3 * 16 * 4, 100 * 16 + 68)
    module = nn.Sequential(nn.Embedding(100, 16), nn.Linear(16, 4))
    report = import_torch(module, torch.zeros(3, 5, dtype=torch.long)).report
    assert (report.macs, report.parameters) == (3 * 5 * 16 * 4, 100 * 16 + 68)


def grouped(queries, keys, values, mask):
    return functional.scaled_dot_product_attention(queries, keys, values, mask, enable_gqa=True)


def interleaved(queries, keys, values, mask):
    keys, values = (t.repeat_interleave(4, 1) for t in (keys, values))
    return functional.scaled_dot_product_attention(queries, keys, values, mask)


def expanded(queries, keys, values, mask):
    keys, values = (t[:, :, None].expand(-1, -1, 4, -1, -1).flatten(1, 2) for t in (keys, values))
    return functional.scaled_dot_product_attention(queries, keys, values, mask)


@pytest.mark.parametrize("attend", [grouped, interleaved, expanded])
@pytest.mark.parametrize("mask", [None, torch.zeros(10, 10), torch.zeros(2, 1, 10, 10), torch.zeros(2, 8, 10, 10)])
def test_query_heads_that_share_keys_are_rows_of_one_product(attend, mask):
    def project(q, k, v, x):
        return attend(heads(q(x), 8), heads(k(x), 2), heads(v(x), 2), mask)

    layers = layers_of(Apply(project, nn.Linear(32, 64), nn.Linear(32, 16), nn.Linear(32, 16)), torch.zeros(ROWS))
    qk, av = layers[3:]
    assert qk.dims[:4] == (2 * 2, 4 * 10, 10, 8)
    assert av.dims[:4] == (2 * 2, 4 * 10, 8, 10)


def test_experts_are_groups_with_equally_many_rows():
    def route(m, x):
        offsets = torch.arange(10, 50, 10, dtype=torch.int32, device=x.device)
        return torch._grouped_mm(x, m.weight.view(4, 16, 32).mT, offs=offsets)

    module = Apply(route, nn.Linear(32, 64, bias=False)).to(device="meta", dtype=torch.bfloat16)
    imported = import_torch(module, meta(40, 32, dtype=torch.bfloat16))
    (layer,) = imported.workload.layers
    assert layer.dims[:4] == (4, 10, 16, 32)
    assert imported.report.notes == ("experts are taken to get equally many rows each",)


@dataclass
class Case:
    function: object
    says: str
    macs: int | None


UNKNOWN = {
    "an operator that nobody knows": Case(lambda x: torch.cdist(x, x), "aten._cdist_forward is not known", None),
    "a fourier transform": Case(lambda x: torch.fft.rfft(x).real, "aten._fft_r2c is not known", None),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_reported_and_not_fatal(name):
    case = UNKNOWN[name]
    module = Apply(lambda m, x: case.function(m(x)), nn.Linear(32, 32))
    report = import_torch(module, torch.zeros(ROWS)).report
    (found,) = report.not_modelled
    assert case.says in found.reason
    assert found.macs == case.macs
    assert report.macs == 20 * 32 * 32


def test_sampling_at_computed_places_is_told_as_for_onnx():
    module = Apply(lambda m, x, grid: functional.grid_sample(m(x), grid, align_corners=False), nn.Conv2d(8, 8, 1))
    report = import_torch(module, (torch.zeros(IMAGE), torch.zeros(2, 4, 4, 2))).report
    (found,) = report.not_modelled
    assert (found.reason, found.macs) == ("it reads at places that are computed", 4 * 2 * 8 * 4 * 4)


def test_an_lstm_with_a_projection_is_reported_with_its_macs():
    module = Apply(lambda a, b, x: b(a(x))[0], nn.Linear(32, 32), nn.LSTM(32, 16, proj_size=4))
    network = import_torch(module, torch.zeros(ROWS)).workload
    (found,) = network.not_modelled
    assert found.macs == 20 * (64 * 32 + 64 * 4 + 16 * 4)
    assert network.coverage.not_modelled_share == found.macs / (found.macs + network.macs)
    assert found.weight_words == 64 * 32 + 64 * 4 + 16 * 4 + 2 * 64
    assert (found.input_words, found.output_words) == (20 * 32, 20 * 4 + 10 * (4 + 16))
