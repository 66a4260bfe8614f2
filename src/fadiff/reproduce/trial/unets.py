"""Networks of the U shape, as modules of PyTorch: for segmentation, and for diffusion with text."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class UNet(nn.Module):
    """The U-Net of segmentation: two convolutions at each of five scales, 64 to 1024 channels, joined across."""

    def __init__(self, width: int = 64, scales: int = 5, kinds: int = 2) -> None:
        super().__init__()
        widths = [width << i for i in range(scales)]
        self.down = nn.ModuleList(self._pair(a, b) for a, b in zip([3, *widths[:-1]], widths, strict=True))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.up = nn.ModuleList(self._pair(2 * w, w) for w in reversed(widths[:-1]))
        self.last = nn.Conv2d(width, kinds, 1)

    @staticmethod
    def _pair(inputs: int, outputs: int) -> nn.Sequential:
        first, second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        return nn.Sequential(first, nn.BatchNorm2d(outputs), nn.ReLU(), second, nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(self, image: Tensor) -> Tensor:
        """The kind of every pixel."""
        left: list[Tensor] = []
        for block in self.down:
            image = block(nn.functional.max_pool2d(image, 2) if left else image)
            left.append(image)
        for grow, block, across in zip(self.grow, self.up, left[-2::-1], strict=True):
            image = block(torch.cat([across, grow(image)], 1))
        return self.last(image)


class _Residual(nn.Module):
    """Two convolutions with group norms; the time of the diffusion is added between them."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.norm_in, self.conv_in = nn.GroupNorm(32, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm_out, self.conv_out = nn.GroupNorm(32, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.across = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, image: Tensor, time: Tensor) -> Tensor:
        made = self.conv_in(nn.functional.silu(self.norm_in(image)))
        made = made + self.time(nn.functional.silu(time))[:, :, None, None]
        return self.across(image) + self.conv_out(nn.functional.silu(self.norm_out(made)))


class _Attention(nn.Module):
    """Every token looks at all tokens of a text, or of its own image."""

    def __init__(self, width: int, seen: int, heads: int) -> None:
        super().__init__()
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.key, self.value = nn.Linear(seen, width, bias=False), nn.Linear(seen, width, bias=False)
        self.heads = heads

    def forward(self, tokens: Tensor, seen: Tensor) -> Tensor:
        query, key, value = map(self._of_heads, (self.query(tokens), self.key(seen), self.value(seen)))
        looked = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.out(looked.transpose(1, 2).flatten(2))

    def _of_heads(self, tokens: Tensor) -> Tensor:
        batch, count, width = tokens.shape
        return tokens.view(batch, count, self.heads, width // self.heads).transpose(1, 2)


class _Block(nn.Module):
    """Attention to the image itself, attention to the text, and a gated pair of linear layers."""

    def __init__(self, width: int, text: int, heads: int) -> None:
        super().__init__()
        self.norm, self.first, self.last = (
            nn.GroupNorm(32, width),
            nn.Conv2d(width, width, 1),
            nn.Conv2d(width, width, 1),
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.itself, self.cross = _Attention(width, width, heads), _Attention(width, text, heads)
        self.spread, self.gather = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, image: Tensor, text: Tensor) -> Tensor:
        tokens = self.first(self.norm(image)).flatten(2).transpose(1, 2)
        seen = self.norms[0](tokens)
        tokens = tokens + self.itself(seen, seen)
        tokens = tokens + self.cross(self.norms[1](tokens), text)
        value, gate = self.spread(self.norms[2](tokens)).chunk(2, -1)
        tokens = tokens + self.gather(value * nn.functional.gelu(gate))
        return image + self.last(tokens.transpose(1, 2).reshape(image.shape))


class DiffusionUNet(nn.Module):
    """The U-Net of latent diffusion as Stable Diffusion 1.5 has it, with attention at three of its four scales."""

    def __init__(self, width: int = 320, text: int = 768, heads: int = 8) -> None:
        super().__init__()
        time, widths = 4 * width, [width, 2 * width, 4 * width, 4 * width]
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.down, self.up, across, at = nn.ModuleList(), nn.ModuleList(), [width], width
        for i, wide in enumerate(widths):
            for _ in range(2):
                self.down.append(self._step(at, wide, time, text, heads, sees=i < 3))
                at = wide
                across.append(at)
            if i < 3:
                self.down.append(nn.Conv2d(at, at, 3, 2, 1))
                across.append(at)
        self.middle = nn.ModuleList([self._step(at, at, time, text, heads, sees=True), _Residual(at, at, time)])
        for i, wide in reversed(list(enumerate(widths))):
            for _ in range(3):
                self.up.append(self._step(at + across.pop(), wide, time, text, heads, sees=i < 3))
                at = wide
            if i:
                self.up.append(nn.Conv2d(at, at, 3, padding=1))
        self.norm, self.last = nn.GroupNorm(32, at), nn.Conv2d(at, 4, 3, padding=1)

    @staticmethod
    def _step(inputs: int, outputs: int, time: int, text: int, heads: int, *, sees: bool) -> nn.ModuleList:
        block = [_Block(outputs, text, heads)] if sees else []
        return nn.ModuleList([_Residual(inputs, outputs, time), *block])

    def forward(self, image: Tensor, time: Tensor, text: Tensor) -> Tensor:
        """The noise in a latent image at a time of the diffusion, given a text."""
        time = self.time(time)
        image = self.first(image)
        across = [image]
        for step in self.down:
            image = step(image) if isinstance(step, nn.Conv2d) else _through(step, image, time, text)
            across.append(image)
        for step in self.middle:
            image = step(image, time) if isinstance(step, _Residual) else _through(step, image, time, text)
        for step in self.up:
            if isinstance(step, nn.Conv2d):
                image = step(nn.functional.interpolate(image, scale_factor=2.0))
            else:
                image = _through(step, torch.cat([image, across.pop()], 1), time, text)
        return self.last(nn.functional.silu(self.norm(image)))


def _through(step: nn.Module, image: Tensor, time: Tensor, text: Tensor) -> Tensor:
    for part in step.children():
        image = part(image, time if isinstance(part, _Residual) else text)
    return image
