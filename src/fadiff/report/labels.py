"""Shapes of layers, for places where there is little room."""

from fadiff.workload import Layer


def shape(layer: Layer) -> str:
    """What a layer computes, in one short line.

    >>> from fadiff.workload import Dims, Input, Layer
    >>> shape(Layer("a", "mac", Dims(K=64, C=3, P=112, Q=112, R=7, S=7), (Input(None),), stride=(2, 2)))
    '7×7/2 64·112×112'
    >>> shape(Layer("b", "mac", Dims(G=96, P=56, Q=56, R=3, S=3), (Input(None),)))
    'dw 3×3 96·56×56'
    >>> shape(Layer("c", "mac", Dims(N=512, K=3072, C=768), (Input(None),)))
    '512×768→3072'
    """
    d = layer.dims
    rows, cols = d.P, d.Q
    if not layer.is_mac:
        return f"{d.K}·{rows}×{cols}" if (rows, cols) != (1, 1) else f"{d.N}×{d.K}"
    if (rows, cols, d.R, d.S) == (1, 1, 1, 1):
        product = f"{d.N}×{d.C}→{d.K}"
        return product if d.G == 1 else f"{d.G}·({product})"
    kind = "" if d.G == 1 else ("dw " if d.K == d.C == 1 else f"{d.G} groups ")
    stride = "" if layer.stride == (1, 1) else f"/{max(layer.stride)}"
    return f"{kind}{d.R}×{d.S}{stride} {layer.channels}·{rows}×{cols}"
