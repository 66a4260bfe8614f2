"""Schedules that break one rule about a group, or about groups among each other.

Each is a function that builds it, with the rule, the layers that are named, and what the messages say.
"""

from dataclasses import replace

from examples import first
from fadiff.schedule import Group, Trips
from fadiff.workload import Dims, Input, Layer
from schedule.toys import (
    CORES,
    GEMMINI,
    PLAIN,
    ROW_STATIONARY,
    add,
    conv,
    mac,
    machine_with,
    on,
    regrouped,
    remapped,
    schedule,
    sums,
)

NO_SUMS_INSIDE = machine_with(
    GEMMINI, {"scratchpad": {"fuses": True, "keeps": "WIO"}, "accumulator": {"keeps": "W"}}, name="no-sums"
)
"""Its outputs are kept in the memory that fuses, and nowhere further in."""


def broken_sums(name):
    """Three loops over R at DRAM, outside loops over P at the scratchpad."""
    given = first("h1_rows")
    return remapped(given, name, DRAM={"R": 3}, scratchpad={"P": 2}, accumulator={"R": 1, "P": 2})


def attention(**changes):
    return regrouped(first("a3_GNX"), **({"G": 8, "N": 8, "X": 4} | changes))


def spilled(machine):
    """A fused producer whose sums leave the array before they are finished."""
    given = schedule(conv("a"), conv("b", "a"), machine=machine)
    return remapped(given, "a", {"DRAM": "CGNKPQRS"}, DRAM={"C": 2, "P": 2}, **{sums(machine): {"C": 1, "P": 2}})


def two_readers():
    """A tensor that one consumer reads at a stride, another with a kernel; their results meet in one sum."""
    return schedule(
        conv("u", P=8),
        conv("b", "u", P=4, stride=(2, 1)),
        conv("c", "u", P=4, R=5),
        add("s", "b", "c", K=2, P=4, Q=4),
        P=2,
    )


BROKEN_GROUPS = {
    # aligned
    "trips that do not divide the first memory's factors": (
        lambda: remapped(remapped(first("h1_rows"), "u", DRAM={"P": 21}), "v", DRAM={"P": 15}),
        "aligned",
        ("u", "v"),
        [
            "u+v: u shares 14 trips of P, which do not divide its 21 at DRAM",
            "v shares 14 trips of P, which do not divide its 15",
        ],
    ),
    "trips of a layer's own that do not divide its factor": (
        # Twelve unpadded rows in tiles of 3 are four trips of its own, in a group of five.
        lambda: remapped(
            schedule(
                conv("a", P=16), conv("b", "a", P=14, R=3, pad=(0, 0)), machine=ROW_STATIONARY, P=5, own={"a": {"P": 3}}
            ),
            "a",
            DRAM={"P": 5},
        ),
        "aligned",
        ("a", "b"),
        ["a+b: a shares 6 trips of P, which do not divide its 5 at DRAM"],
    ),
    "a last trip of the sink without work": (
        lambda: schedule(conv("a", P=8), conv("b", "a", P=8), machine=ROW_STATIONARY, P=5),
        "aligned",
        ("a", "b"),
        ["a+b: P is shared (5 trips), but its last trip would find no P of b"],
    ),
    "a last trip of a single layer without work": (
        lambda: schedule(mac("a", N=10, C=2), machine=PLAIN, N=6),
        "aligned",
        ("a",),
        ["a: N is shared (6 trips), but its last trip would find no N of a"],
    ),
    "consumers that ask for different tiles": (
        two_readers,
        "aligned",
        ("u", "b", "c", "s"),
        ["P is shared (2 trips), but the consumers of u ask for different tiles of it"],
    ),
    "computed tiles that are no stored tiles": (
        # Tiles of 4 stored rows are ceil(4*9/11) = 4 computed ones: three tiles of each. Of 2 and ceil(18/11): 6 and 5.
        lambda: schedule(
            conv("a", P=9, epilogue=("upsample",), out=(11, 4)), conv("b", "a", P=11), P=6, own={"a": {"P": 2}}
        ),
        "aligned",
        ("a", "b"),
        ["P is shared (6 trips), but tiles of a's 9 P do not become tiles of the 11 it stores"],
    ),
    "computed columns that are no stored columns": (
        lambda: schedule(
            conv("a", Q=9, epilogue=("upsample",), out=(4, 11)),
            conv("b", "a", Q=11),
            machine=CORES,
            Q=6,
            own={"a": {"Q": 2}},
        ),
        "aligned",
        ("a", "b"),
        ["Q is shared (6 trips), but tiles of a's 9 Q do not become tiles of the 11 it stores"],
    ),
    "a layer that is not done in time": (
        # Nine of ten rows are read, one before the first trip; but what nobody reads is made as well, in a third trip.
        lambda: schedule(
            conv("a", P=10),
            conv("b", "a", P=4, stride=(2, 1), R=3, pad=(0, 0)),
            machine=CORES,
            P=2,
            own={"a": {"P": 4}},
        ),
        "aligned",
        ("a", "b"),
        ["P is shared (2 trips), but a would not be done with its 10 stored P'"],
    ),
    "a batch that changes along an edge": (
        lambda: schedule(mac("a", N=4, K=8, C=2, epilogue=("reshape",)), mac("b", "a", N=8, K=2, C=4), N=4),
        "aligned",
        ("a", "b"),
        ["N is shared (4 trips), but a has N 4 and b 8"],
    ),
    "G without a common G": (
        lambda: remapped(regrouped(first("d1_dwpw"), P=14, G=2), "dw", DRAM={"G": 2}, accumulator={"G": 1}),
        "aligned",
        ("dw", "pw"),
        ["G is shared (2 trips), but its layers have no common G > 1 (dw 64, pw 1)"],
    ),
    "G in a group with a sum": (
        lambda: schedule(mac("a", G=2, C=2, K=2), add("s", "a", None, K=4), machine=CORES, G=2),
        "aligned",
        ("a", "s"),
        ["G is shared (2 trips), but its layers have no common G > 1 (a 2, s 1)"],
    ),
    "G over a concatenation": (
        lambda: schedule(
            conv("a", G=2), Layer("b", "mac", Dims(G=2, K=2, C=3, P=4, Q=4), (Input("a"), Input(None))), G=2
        ),
        "aligned",
        ("a", "b"),
        ["G is shared (2 trips), but b reads a concatenation, whose groups differ"],
    ),
    "X across a kernel": (
        lambda: schedule(conv("a"), conv("b", "a", R=3), X=2, loops="X"),
        "aligned",
        ("a", "b"),
        ["X is shared (2 trips), but b has a 3x1 kernel: it must be 1x1"],
    ),
    "X in a chain of three": (
        lambda: regrouped(first("f5_chain3"), "NX", N=8, X=2),
        "aligned",
        ("u", "v", "w"),
        ["X is shared (2 trips), but only a group of exactly two MAC layers may"],
    ),
    "X in a layer on its own": (
        lambda: schedule(conv("a"), X=2, loops="X", machine=PLAIN),
        "aligned",
        ("a",),
        ["X is shared (2 trips), but only a group of exactly two MAC layers may"],
    ),
    "X into a sum": (
        lambda: schedule(conv("a"), add("s", "a", None, K=2, P=4, Q=4), X=2, loops="X"),
        "aligned",
        ("a", "s"),
        ["X is shared (2 trips), but only a group of exactly two MAC layers may"],
    ),
    "X where K is not C": (
        lambda: schedule(mac("a", K=8, C=2), mac("b", "a", G=2, C=4, K=2), X=2, loops="X", machine=CORES),
        "aligned",
        ("a", "b"),
        ["X is shared (2 trips), but a has G,K 1,8 and b G,C 2,4: they must be equal"],
    ),
    "X into a weight port": (
        lambda: schedule(mac("k", N=4, K=2, C=2), mac("qk", None, "k", N=4, K=4, C=2), X=2, loops="X"),
        "aligned",
        ("k", "qk"),
        ["X is shared (2 trips), but k does not feed the input of qk"],
    ),
    "X with a last trip without channels": (
        lambda: schedule(conv("a", K=8), conv("b", "a", C=8), machine=ROW_STATIONARY, X=5, loops="X"),
        "aligned",
        ("a", "b"),
        ["X is shared (5 trips), but its last trip would find no C of b"],
    ),
    "X that does not divide channels' factors": (
        lambda: remapped(attention(), "av", DRAM={"C": 6}),
        "aligned",
        ("qk", "av"),
        ["qk+av: av shares 4 trips of C, which do not divide its 6 at DRAM"],
    ),
    "P inside Q": (
        lambda: regrouped(first("h3_2d"), "QP", P=4, Q=4),
        "aligned",
        ("u", "v"),
        ["loops 'QP' nest P inside Q: P is always outside"],
    ),
    # complete
    "a fused producer that spills": (
        lambda: broken_sums("u"),
        "complete",
        ("u",),
        ["u is fused but 200,704 unfinished sums leave accumulator: keep its C, R, S loops inside"],
    ),
    "a fused producer whose sums meet in the memory that fuses": (
        lambda: spilled(ROW_STATIONARY),
        "complete",
        ("a",),
        ["a is fused but 32 unfinished sums leave pspad: keep its C, R, S loops inside"],
    ),
    "a fused producer that spills from the outermost of several memories": (
        lambda: spilled(CORES),
        "complete",
        ("a",),
        ["a is fused but 32 unfinished sums leave l1: keep its C, R, S loops inside"],
    ),
    "a machine that finishes sums only where it fuses": (
        lambda: schedule(conv("a"), conv("b", "a"), machine=NO_SUMS_INSIDE),
        "complete",
        ("a",),
        ["a is fused, but no memory further in than scratchpad keeps O"],
    ),
    # whole
    "weights cut by N": (
        lambda: schedule(mac("k", N=4, K=2, C=2), mac("qk", None, "k", N=4, K=4, C=2), N=2),
        "whole",
        ("k", "qk"),
        ["k+qk: k is the weight of qk, so N and P and Q must not be shared (trips N 2)"],
    ),
    "weights cut by P": (
        lambda: schedule(conv("k", K=1, Q=1), mac("v", None, "k", K=2, C=2, P=4), machine=CORES, P=2),
        "whole",
        ("k", "v"),
        ["k is the weight of v, so N and P and Q must not be shared (trips P 2)"],
    ),
    "a transposed input cut by N": (
        lambda: schedule(
            mac("a", N=4, K=4, C=2, epilogue=("transpose",)), mac("b", "a", N=4, K=2, C=4), machine=ROW_STATIONARY, N=2
        ),
        "whole",
        ("a", "b"),
        ["a is transposed for b, so N and P and Q must not be shared (trips N 2)"],
    ),
    "flatten cut by P": (
        lambda: schedule(conv("a"), conv("b", "a", epilogue=("flatten",)), P=2),
        "whole",
        ("a", "b"),
        ["flatten of b needs whole images, so P and Q must not be shared (trips P 2)"],
    ),
    "flatten cut by Q": (
        lambda: schedule(conv("a", epilogue=("flatten",)), machine=PLAIN, Q=4),
        "whole",
        ("a",),
        ["flatten of a needs whole images, so P and Q must not be shared (trips Q 4)"],
    ),
    "flatten cut by G": (
        lambda: schedule(conv("a", G=2), conv("b", "a", G=2, epilogue=("flatten",)), G=2),
        "whole",
        ("a", "b"),
        ["flatten of b needs all channels, so G and X must not be shared (trips G 2)"],
    ),
    "flatten cut by X": (
        lambda: schedule(conv("a"), conv("b", "a", epilogue=("flatten",)), X=2, loops="X"),
        "whole",
        ("a", "b"),
        ["flatten of b needs all channels, so G and X must not be shared (trips X 2)"],
    ),
    "global_pool cut by P": (
        lambda: schedule(conv("a"), conv("b", "a", epilogue=("global_pool",), out=(1, 1)), P=2),
        "whole",
        ("a", "b"),
        ["global_pool of b needs whole images, so P and Q must not be shared (trips P 2)"],
    ),
    "global_pool cut by Q": (
        lambda: schedule(conv("a"), conv("b", "a", epilogue=("global_pool",), out=(1, 1)), machine=ROW_STATIONARY, Q=2),
        "whole",
        ("a", "b"),
        ["global_pool of b needs whole images, so P and Q must not be shared (trips Q 2)"],
    ),
    "layer_norm cut by G": (
        lambda: schedule(mac("a", G=2, N=2), mac("b", "a", G=2, N=2, epilogue=("layer_norm",)), G=2),
        "whole",
        ("a", "b"),
        ["layer_norm of b needs all channels, so G and X must not be shared (trips G 2)"],
    ),
    "layer_norm cut by X": (
        lambda: schedule(
            mac("a", N=2, K=4, epilogue=("layer_norm",)), mac("b", "a", N=2, C=4), machine=CORES, X=2, loops="X"
        ),
        "whole",
        ("a", "b"),
        ["layer_norm of a needs all channels, so G and X must not be shared (trips X 2)"],
    ),
    "softmax under X without online softmax": (
        lambda: on(attention(), online_softmax=False),
        "whole",
        ("qk", "av"),
        ["softmax of qk needs whole rows, so X must not be shared (trips G 8, N 8, X 4)"],
    ),
    "softmax under X whose consumer spills": (
        lambda: attention(loops="GXN"),
        "whole",
        ("qk", "av"),
        ["softmax under X needs the sums of av in accumulator, 786,432 spill"],
    ),
    # fusible, fuses
    "a part of a tensor read on chip": (
        lambda: schedule(conv("a", K=4), Layer("b", "mac", Dims(K=2, C=2, P=4, Q=4), (Input("a", fusible=False),))),
        "fusible",
        ("a", "b"),
        ["b cannot read a on chip (its input is not fusible): put them in different groups"],
    ),
    "a part of a tensor read by a group around it": (
        lambda: schedule(
            conv("a"),
            conv("b", "a"),
            Layer("c", "mac", Dims(K=2, C=3, P=4, Q=4), (Input("b"), Input("a", fusible=False))),
            machine=CORES,
        ),
        "fusible",
        ("a", "c"),
        ["c cannot read a on chip (its input is not fusible)"],
    ),
    "a group on a machine that runs layer by layer": (
        lambda: schedule(conv("a"), conv("b", "a"), machine=PLAIN),
        "fuses",
        ("a", "b"),
        ["a+b is a group, but no memory of toy-plain holds fused tensors: give its layers groups of their own"],
    ),
    # one sink, ordered, repeat
    "two layers that have nothing to do with each other": (
        lambda: schedule(conv("a"), conv("b"), P=2),
        "one sink",
        ("a", "b"),
        ["a+b: a does not reach b inside the group: take it out"],
    ),
    "a branch that ends inside the group": (
        lambda: schedule(conv("a"), conv("b", "a"), conv("c", "a"), machine=ROW_STATIONARY, P=2),
        "one sink",
        ("a", "b", "c"),
        ["a+b+c: b does not reach c inside the group"],
    ),
    "groups out of order": (
        lambda: replace(first("f5_chain3"), groups=(Group(("v",)), Group(("u",)), Group(("w",)))),
        "ordered",
        ("u", "v"),
        ["v runs before u, whose output it reads: list it later"],
    ),
    "layers of a group out of order": (
        lambda: replace(first("f5_chain3"), groups=(Group(("v", "u", "w"), Trips(N=8)),)),
        "ordered",
        ("u", "v"),
        ["v runs before u, whose output it reads"],
    ),
    "groups out of order on a machine that runs layer by layer": (
        lambda: schedule(conv("a"), conv("b", "a"), machine=PLAIN, groups=(Group(("b",)), Group(("a",)))),
        "ordered",
        ("a", "b"),
        ["b runs before a, whose output it reads"],
    ),
    "repeat counts that differ": (
        lambda: schedule(conv("a", repeat=2), conv("b", "a", repeat=3), machine=CORES),
        "repeat",
        ("a", "b"),
        ["a+b: repeat counts differ (a 2, b 3)"],
    ),
}
