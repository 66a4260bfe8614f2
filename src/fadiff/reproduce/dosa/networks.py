"""The layers of DOSA's four networks: facts of its artifact, and the chains that they make.

In DOSA every layer stands on its own, with its count. Where fusion is asked for, layers that follow each other in the
network, by their shapes, have edges: in ResNet-50 the convolutions of a block; in U-Net those between two poolings,
up-convolutions or concatenations; in RetinaNet a lateral with two heads, a convolution and its output each; in BERT the
two matrix products of attention and the two of the feed-forward block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from fadiff.workload import Dims, Input, Layer, Workload, load_model

NETWORKS = ("bert", "resnet50", "retinanet", "unet")


class Shape(NamedTuple):
    """A square convolution."""

    kernel: int
    side: int
    """Of its output."""
    inputs: int
    """Channels."""
    outputs: int
    stride: int = 1
    repeat: int = 1


_MATMULS = ((128, 768, 768, 2), (128, 64, 128, 1), (128, 128, 64, 1), (128, 768, 3072, 1), (128, 3072, 768, 1))
"""BERT, one head's slice of 128 tokens: rows, inputs, outputs, count."""
_BERT_CHAINS = ((1, 2), (3, 4))
_RESNET50 = (
    Shape(7, 112, 3, 64, stride=2), Shape(1, 56, 64, 64), Shape(3, 56, 64, 64, repeat=3),
    Shape(1, 56, 64, 256, repeat=4), Shape(1, 56, 256, 64, repeat=2), Shape(1, 56, 256, 128),
    Shape(3, 28, 128, 128, stride=2), Shape(1, 28, 128, 512, repeat=4), Shape(1, 28, 256, 512, stride=2),
    Shape(1, 28, 512, 128, repeat=3), Shape(3, 28, 128, 128, repeat=3), Shape(1, 28, 512, 256),
    Shape(3, 14, 256, 256, stride=2), Shape(1, 14, 256, 1024, repeat=6), Shape(1, 14, 512, 1024, stride=2),
    Shape(1, 14, 1024, 256, repeat=5), Shape(3, 14, 256, 256, repeat=5), Shape(1, 14, 1024, 512),
    Shape(3, 7, 512, 512, stride=2), Shape(1, 7, 512, 2048, repeat=3), Shape(1, 7, 1024, 2048, stride=2),
    Shape(1, 7, 2048, 512, repeat=2), Shape(3, 7, 512, 512, repeat=2), Shape(1, 1, 2048, 1000),
)  # fmt: skip
_UNET = (
    (Shape(3, 570, 1, 64), Shape(3, 568, 64, 64)), (Shape(3, 282, 64, 128), Shape(3, 280, 128, 128)),
    (Shape(3, 138, 128, 256), Shape(3, 136, 256, 256)), (Shape(3, 66, 256, 512), Shape(3, 64, 512, 512)),
    (Shape(3, 30, 512, 1024), Shape(3, 28, 1024, 1024)), (Shape(2, 56, 1024, 512),),
    (Shape(3, 54, 1024, 512), Shape(3, 52, 512, 512)), (Shape(2, 104, 512, 256),),
    (Shape(3, 102, 512, 256), Shape(3, 100, 256, 256)), (Shape(2, 200, 256, 128),),
    (Shape(3, 198, 256, 128), Shape(3, 196, 128, 128)), (Shape(2, 392, 128, 64),),
    (Shape(3, 390, 128, 64), Shape(3, 388, 64, 64), Shape(1, 388, 64, 2)),
)  # fmt: skip
"""Without padding; up-convolutions are counted as plain ones. What follows each other is together."""
_RETINANET = ((512, 28), (1024, 14), (2048, 7), (256, 4), (256, 2))
"""Levels: channels of the lateral's input, and side."""
_DOWNWARDS = (Shape(3, 4, 2048, 256, stride=2), Shape(3, 2, 256, 256, stride=2))
_HEADS = (720, 36)
"""Outputs of the two heads, each behind a convolution."""


def network(name: str, *, fused: bool = False) -> Workload:
    """One of NETWORKS: each layer on its own, or with edges where they make chains."""
    if name == "resnet50":
        return _resnet50() if fused else Workload(name, _numbered([_layer("conv", shape) for shape in _RESNET50], ()))
    if name == "bert":
        rows = [_matmul(*product) for product in _MATMULS]
        return Workload(name, _numbered(rows, _BERT_CHAINS if fused else ()))
    if name == "unet":
        runs = [[_layer("conv", shape) for shape in run] for run in _UNET]
        places = iter(range(sum(map(len, runs))))
        chains = [tuple(next(places) for _ in run) for run in runs]
        return Workload(name, _numbered([layer for run in runs for layer in run], chains if fused else ()))
    return Workload(name, tuple(_retinanet(fused)))


def _layer(name: str, shape: Shape, source: str | None = None) -> Layer:
    kernel, side, inputs, outputs, stride, repeat = shape
    dims = Dims(K=outputs, C=inputs, P=side, Q=side, R=kernel, S=kernel)
    return Layer(name, "mac", dims, (Input(source),), stride=(stride, stride), repeat=repeat)


def _matmul(rows: int, inputs: int, outputs: int, repeat: int) -> Layer:
    return Layer("matmul", "mac", Dims(K=outputs, C=inputs, P=rows), (Input(None),), repeat=repeat)


def _resnet50() -> Workload:
    """The zoo's network without what is not in the list: additions, pooling, and the edges that they part."""
    zoo = load_model("resnet50")
    kept = {layer.name: layer for layer in zoo.layers if layer.is_mac}

    def source(layer: Layer) -> str | None:
        before = kept.get(layer.inputs[0].source or "")
        return before.name if before is not None and before.out is None else None

    layers = (replace(layer, inputs=(Input(source(layer)),), epilogue=(), out=None) for layer in kept.values())
    return Workload("resnet50", tuple(layers))


def _numbered(layers: Sequence[Layer], chains: Sequence[tuple[int, ...]]) -> tuple[Layer, ...]:
    """Layers with numbers behind their names; of a chain, each reads the one before."""
    before = {later: first for chain in chains for first, later in pairwise(chain)}
    names = [f"{layer.name}{i}" for i, layer in enumerate(layers)]
    return tuple(
        replace(layer, name=names[i], inputs=(Input(names[before[i]] if i in before else None),))
        for i, layer in enumerate(layers)
    )


def _retinanet(fused: bool) -> list[Layer]:
    layers = [_layer(f"down{shape.side}", shape) for shape in _DOWNWARDS]
    for inputs, side in _RETINANET:
        lateral = f"lateral{side}"
        layers.append(_layer(lateral, Shape(1, side, inputs, 256)))
        for outputs in _HEADS:
            tower = f"tower{side}.{outputs}"
            layers.append(_layer(tower, Shape(3, side, 256, 256), lateral if fused else None))
            layers.append(_layer(f"head{side}.{outputs}", Shape(3, side, 256, outputs), tower if fused else None))
    return layers
