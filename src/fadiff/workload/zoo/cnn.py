"""Image classifiers as generators: ResNet, VGG and MobileNet.

Batch norms are folded into the weights and biases are free, so neither is listed; activations are written relu
(MobileNet's relu6 too: the cost is the same). `size` is the side of the square input image.
"""

from fadiff.workload.graph import Workload
from fadiff.workload.layer import VectorOp, WorkloadError
from fadiff.workload.zoo.build import RELU, ImageBuilder, Tensor, strided

CLASSES = 1000
MAX_POOL: tuple[VectorOp, ...] = ("relu", "max_pool")


def resnet(name: str, blocks: tuple[int, int, int, int], *, bottleneck: bool, batch: int, size: int) -> Workload:
    """ResNet (He et al., 2015) with `blocks` residual blocks in its four stages.

    A bottleneck block strides in its 3x3 convolution ("v1.5"), as the implementations in use do.
    """
    net = ImageBuilder(batch)
    pooled = strided(strided(size, 2), 2)
    x = net.conv("conv1", Tensor(None, 3, size), 64, kernel=7, stride=2, epilogue=MAX_POOL, side=pooled)
    for stage, count in enumerate(blocks, start=1):
        width = 32 << stage
        for block in range(count):
            stride = 2 if block == 0 and stage > 1 else 1
            last = stage == len(blocks) and block == count - 1
            x = _residual(net, f"l{stage}.{block}", x, width, stride, bottleneck=bottleneck, last=last)
    net.conv("fc", x, CLASSES)
    return net.finish(name)


def _residual(
    net: ImageBuilder, at: str, x: Tensor, width: int, stride: int, *, bottleneck: bool, last: bool
) -> Tensor:
    """A residual block; the last one pools the whole image."""
    if bottleneck:
        y = net.conv(f"{at}.conv1", x, width, epilogue=RELU)
        y = net.conv(f"{at}.conv2", y, width, kernel=3, stride=stride, epilogue=RELU)
        y = net.conv(f"{at}.conv3", y, 4 * width)
    else:
        y = net.conv(f"{at}.conv1", x, width, kernel=3, stride=stride, epilogue=RELU)
        y = net.conv(f"{at}.conv2", y, width, kernel=3)
    if stride != 1 or x.channels != y.channels:
        x = net.conv(f"{at}.down", x, y.channels, stride=stride)
    if last:
        return net.add(f"{at}.add", y, x, epilogue=("relu", "global_pool"), side=1)
    return net.add(f"{at}.add", y, x, epilogue=RELU)


def vgg(name: str, convs: tuple[int, int, int, int, int], *, batch: int, size: int) -> Workload:
    """VGG (Simonyan and Zisserman, 2014) with `convs` 3x3 convolutions in its five stages.

    Each stage ends in a 2x2 max pool. The first linear layer reads whatever image is left, as in the paper.
    """
    if size < 32:
        raise WorkloadError(f"{name}: five poolings by 2 need images of at least 32x32: give size=32 or more")
    net = ImageBuilder(batch)
    x = Tensor(None, 3, size)
    for stage, count in enumerate(convs, start=1):
        channels = min(32 << stage, 512)
        for i in range(1, count):
            x = net.conv(f"conv{stage}_{i}", x, channels, kernel=3, epilogue=RELU)
        pool: tuple[VectorOp, ...] = (*MAX_POOL, "flatten") if stage == len(convs) else MAX_POOL
        x = net.conv(f"conv{stage}_{count}", x, channels, kernel=3, epilogue=pool, side=x.side // 2)
    x = net.conv("fc6", x, 4096, epilogue=RELU)
    x = net.conv("fc7", x, 4096, epilogue=RELU)
    net.conv("fc8", x, CLASSES)
    return net.finish(name)


def mobilenet_v1(name: str, *, batch: int, size: int) -> Workload:
    """MobileNet (Howard et al., 2017): depthwise and pointwise convolutions in turn."""
    steps = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
    net = ImageBuilder(batch)
    x = net.conv("conv1", Tensor(None, 3, size), 32, kernel=3, stride=2, epilogue=RELU)
    for i, (channels, stride) in enumerate(steps, start=1):
        x = net.depthwise(f"dw{i}", x, stride=stride, epilogue=RELU)
        if i < len(steps):
            x = net.conv(f"pw{i}", x, channels, epilogue=RELU)
        else:
            x = net.conv(f"pw{i}", x, channels, epilogue=("relu", "global_pool"), side=1)
    net.conv("fc", x, CLASSES)
    return net.finish(name)


def mobilenet_v2(name: str, *, batch: int, size: int) -> Workload:
    """MobileNetV2 (Sandler et al., 2018): inverted residuals, whose ends are narrow and linear."""
    # (expansion, output channels, blocks, stride of the first block)
    stages = (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    )  # fmt: skip
    net = ImageBuilder(batch)
    x = net.conv("conv1", Tensor(None, 3, size), 32, kernel=3, stride=2, epilogue=RELU)
    steps = [(e, c, stride if i == 0 else 1) for e, c, count, stride in stages for i in range(count)]
    for i, (expansion, channels, stride) in enumerate(steps, start=1):
        y = x if expansion == 1 else net.conv(f"b{i}.expand", x, expansion * x.channels, epilogue=RELU)
        y = net.depthwise(f"b{i}.dw", y, stride=stride, epilogue=RELU)
        y = net.conv(f"b{i}.project", y, channels)
        x = net.add(f"b{i}.add", y, x) if (y.channels, y.side) == (x.channels, x.side) else y
    x = net.conv("conv2", x, 1280, epilogue=("relu", "global_pool"), side=1)
    net.conv("fc", x, CLASSES)
    return net.finish(name)
