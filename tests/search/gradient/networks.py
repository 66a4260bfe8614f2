"""Small networks and accelerators that the tests of the descent share."""

from dataclasses import replace

from fadiff.hardware import Hardware, Picojoules
from fadiff.workload import Dims, Input, Layer, Workload

ROOMY = Hardware(
    "roomy", rows=4, cols=4, l1_bytes=4096, l2_bytes=65536, pj=Picojoules(mac=0.5, l0=0.5, l1=1.0, l2=2.0, l3=100.0)
)
TIGHT = replace(ROOMY, name="tight", l1_bytes=128, l2_bytes=40)


def conv(name: str, source: str | None, k: int, c: int, size: int, kernel: int = 3) -> Layer:
    return Layer(name, "mac", Dims(K=k, C=c, P=size, Q=size, R=kernel, S=kernel), (Input(source),))


def single() -> Workload:
    return Workload("single", (Layer("a", "mac", Dims(K=8, C=8, P=4, Q=4, R=3), (Input(None),)),))


def pair(k: int = 8) -> Workload:
    return Workload("pair", (conv("a", None, k, 4, 8), conv("b", "a", 8, k, 8)))


def residual() -> Workload:
    add = Layer("sum", "add", Dims(K=8, P=8, Q=8), (Input("b", "addend"), Input("a", "addend")))
    return Workload("residual", (conv("a", None, 8, 4, 8), conv("b", "a", 8, 8, 8), add, conv("c", "sum", 4, 8, 8, 1)))
