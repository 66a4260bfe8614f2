"""A network of two layers, and spaces of few machines."""

from fadiff.hardware.space_file import space_of
from fadiff.search.codesign import Question
from fadiff.workload import Dims, Input, Layer, Workload

A = Layer("a", "mac", Dims(K=16, C=8, P=8, Q=8, R=3, S=3), inputs=(Input(None),))
B = Layer("b", "mac", Dims(K=16, C=16, P=8, Q=8), inputs=(Input("a"),))
TOY = Workload("toy", (A, B))
ONE = Workload("one", (A,))
PRODUCT = Workload("product", (Layer("p", "mac", Dims(N=64, K=32, C=32), inputs=(Input(None),)),))
SPACE = space_of(
    {
        "name": "tiny",
        "rows": {"from": 2, "to": 8, "powers_of": 2},
        "cols": {"from": 2, "to": 8, "powers_of": 2},
        "l1": "2 KB",
        "l2": {"from": "1 KB", "to": "4 KB", "powers_of": 2},
    },
    "tiny",
)
FREE = space_of(
    {
        "name": "free",
        "rows": {"from": 2, "to": 16, "powers_of": 2},
        "cols": {"from": 2, "to": 16, "powers_of": 2},
        "l1": {"from": "1 KB", "to": "64 KB"},
        "l2": {"from": "1 KB", "to": "64 KB"},
    },
    "free",
)
FLAT = space_of(
    {
        "name": "flat",
        "nodes": [
            {"memory": "DRAM", "keeps": "WIO", "words_per_cycle": 4},
            {"memory": "buffer", "keeps": "WIO", "bytes": {"from": "1 KB", "to": "64 KB"}},
            {"axis": "lanes", "size": {"from": 2, "to": 32, "powers_of": 2}, "dims": "KC"},
        ],
    },
    "flat",
)


def asked(area_mm2: float = 0.05) -> Question:
    return Question((ONE,), SPACE, area_mm2)
