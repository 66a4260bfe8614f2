"""Image networks that transformers does not have, as modules of PyTorch: MobileNetV3 and a YOLO detector.

Sizes are those of the papers; layers carry no weights that matter, and training has left no trace here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution that keeps the size of its image but for the stride, and its norm."""
    made = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(made, nn.BatchNorm2d(outputs))


class _Gate(nn.Module):
    """Squeeze and excite: every channel times what all channels say of it."""

    def __init__(self, width: int, squeezed: int) -> None:
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(width, squeezed, 1), nn.Conv2d(squeezed, width, 1)

    def forward(self, image: Tensor) -> Tensor:
        said = torch.relu(self.squeeze(nn.functional.adaptive_avg_pool2d(image, 1)))
        return image * nn.functional.hardsigmoid(self.excite(said))


class _Inverted(nn.Module):
    """An inverted residual: wide between its ends, narrow at them."""

    def __init__(
        self, inputs: int, wide: int, outputs: int, kernel: int, stride: int, gated: bool, act: type[nn.Module]
    ) -> None:
        super().__init__()
        spread = [conv(inputs, wide), act()] if wide != inputs else []
        gate = [_Gate(wide, _eighths(wide // 4))] if gated else []
        self.body = nn.Sequential(*spread, conv(wide, wide, kernel, stride, wide), act(), *gate, conv(wide, outputs))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, image: Tensor) -> Tensor:
        return image + self.body(image) if self.adds else self.body(image)


def _eighths(width: int) -> int:
    """A multiple of 8 near a width."""
    near = max(8, (width + 4) // 8 * 8)
    return near + 8 if near < 0.9 * width else near


MOBILENET_V3_LARGE = (
    # inputs, wide, outputs, kernel, stride, gated, activation
    (16, 16, 16, 3, 1, False, nn.ReLU),
    (16, 64, 24, 3, 2, False, nn.ReLU),
    (24, 72, 24, 3, 1, False, nn.ReLU),
    (24, 72, 40, 5, 2, True, nn.ReLU),
    (40, 120, 40, 5, 1, True, nn.ReLU),
    (40, 120, 40, 5, 1, True, nn.ReLU),
    (40, 240, 80, 3, 2, False, nn.Hardswish),
    (80, 200, 80, 3, 1, False, nn.Hardswish),
    (80, 184, 80, 3, 1, False, nn.Hardswish),
    (80, 184, 80, 3, 1, False, nn.Hardswish),
    (80, 480, 112, 3, 1, True, nn.Hardswish),
    (112, 672, 112, 3, 1, True, nn.Hardswish),
    (112, 672, 160, 5, 2, True, nn.Hardswish),
    (160, 960, 160, 5, 1, True, nn.Hardswish),
    (160, 960, 160, 5, 1, True, nn.Hardswish),
)


def mobilenet_v3() -> nn.Module:
    """MobileNetV3 large: 5.5 million parameters, 217 million MACs on 224x224."""
    first, last = [conv(3, 16, 3, 2), nn.Hardswish()], [conv(160, 960), nn.Hardswish()]
    blocks = [_Inverted(*row) for row in MOBILENET_V3_LARGE]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000)]
    return nn.Sequential(*first, *blocks, *last, *head)


def _silu(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(conv(inputs, outputs, kernel, stride), nn.SiLU())


class _Bottleneck(nn.Module):
    def __init__(self, width: int, adds: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(_silu(width, width, 3), _silu(width, width, 3))
        self.adds = adds

    def forward(self, image: Tensor) -> Tensor:
        return image + self.body(image) if self.adds else self.body(image)


class _Split(nn.Module):
    """One half of the channels passes by; the other goes through bottlenecks, and all that they leave is joined."""

    def __init__(self, inputs: int, outputs: int, depth: int, adds: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.first, self.last = _silu(inputs, outputs), _silu((2 + depth) * half, outputs)
        self.blocks = nn.ModuleList(_Bottleneck(half, adds) for _ in range(depth))

    def forward(self, image: Tensor) -> Tensor:
        parts = list(self.first(image).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class _Pools(nn.Module):
    """An image at four scales: itself, and the maxima of ever larger surroundings."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = _silu(width, width // 2), _silu(2 * width, width)

    def forward(self, image: Tensor) -> Tensor:
        parts = [self.first(image)]
        for _ in range(3):
            parts.append(nn.functional.max_pool2d(parts[-1], 5, 1, 2))
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
    """A detector of the YOLOv8 kind in its smallest width: a backbone, a path up and down, a head at three scales."""

    def __init__(self, kinds: int = 80, bins: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(_silu(3, 16, 3, 2), _silu(16, 32, 3, 2), _Split(32, 32, 1, True))
        self.eighth = nn.Sequential(_silu(32, 64, 3, 2), _Split(64, 64, 2, True))
        self.sixteenth = nn.Sequential(_silu(64, 128, 3, 2), _Split(128, 128, 2, True))
        self.least = nn.Sequential(_silu(128, 256, 3, 2), _Split(256, 256, 1, True), _Pools(256))
        self.up_16, self.up_8 = _Split(384, 128, 1, False), _Split(192, 64, 1, False)
        self.down_16, self.join_16 = _silu(64, 64, 3, 2), _Split(192, 128, 1, False)
        self.down_32, self.join_32 = _silu(128, 128, 3, 2), _Split(384, 256, 1, False)
        widths = (64, 128, 256)
        self.boxes = nn.ModuleList(self._head(width, 64, 4 * bins) for width in widths)
        self.kinds = nn.ModuleList(self._head(width, kinds, kinds) for width in widths)

    @staticmethod
    def _head(inputs: int, wide: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(_silu(inputs, wide, 3), _silu(wide, wide, 3), nn.Conv2d(wide, outputs, 1))

    def forward(self, image: Tensor) -> Tensor:
        """Boxes and kinds of all places, at three scales."""
        eighth = self.eighth(self.stem(image))
        sixteenth = self.sixteenth(eighth)
        least = self.least(sixteenth)
        middle = self.up_16(torch.cat([_doubled(least), sixteenth], 1))
        fine = self.up_8(torch.cat([_doubled(middle), eighth], 1))
        middle = self.join_16(torch.cat([self.down_16(fine), middle], 1))
        coarse = self.join_32(torch.cat([self.down_32(middle), least], 1))
        heads = zip((fine, middle, coarse), self.boxes, self.kinds, strict=True)
        return torch.cat([torch.cat([boxes(x), kinds(x)], 1).flatten(2) for x, boxes, kinds in heads], 2)


def _doubled(image: Tensor) -> Tensor:
    return nn.functional.interpolate(image, scale_factor=2.0)
