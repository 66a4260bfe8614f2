"""Every rule broken on purpose: each is reported under its own name, with layers and numbers."""

from dataclasses import replace

import pytest

from fadiff.errors import FadiffError
from fadiff.files import FileError
from fadiff.next.cost.checked import load_schedule, save_schedule
from fadiff.next.hardware import Axis
from fadiff.next.schedule import Group, Trips
from fadiff.next.schedule.file import StatedCost, write_schedule
from fadiff.next.schedule.rules import RULES, IllegalScheduleError, check_legal, violations
from fadiff.workload import Dims, Input, Layer, Workload, WorkloadError
from next.examples import FIRST, first
from next.schedule.toys import (
    CORES,
    FUSING,
    GEMMINI,
    PLAIN,
    ROW_STATIONARY,
    add,
    conv,
    mac,
    machine_with,
    memory,
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


def two_readers(stride):
    """A tensor that one consumer reads at a stride of its own; their results meet in one sum."""
    rows = 8 // stride
    return schedule(
        conv("u", P=8),
        conv("b", "u", P=rows, stride=(stride, 1)),
        conv("c", "u", P=rows, R=9 - rows),
        add("s", "b", "c", K=2, P=rows, Q=4),
        P=2,
    )


# What is broken: the schedule, the rule, the layers it names, and what its messages say.
BROKEN = {
    # factors
    "factors too small": (
        lambda: remapped(first("g1_ws"), "g", DRAM={"K": 2}),
        "factors",
        ("g",),
        ["g: K is 512, its factors multiply to 256 (DRAM 2, cols 32, accumulator 4)"],
    ),
    "an idle factor": (
        lambda: remapped(first("g1_ws"), "g", scratchpad={"S": 3}),
        "factors",
        ("g",),
        ["g: S is 1, 3 trips at scratchpad over tiles of 1 leave some idle (scratchpad 3): it takes 1"],
    ),
    "an idle factor outside a tile of everything": (
        lambda: remapped(schedule(conv("a"), machine=CORES), "a", l2={"P": 2}),
        "factors",
        ("a",),
        ["a: P is 4, 2 trips at l2 over tiles of 4 leave some idle (l2 2, acc 4): it takes 1"],
    ),
    "a tile larger than its dim": (
        lambda: remapped(schedule(conv("a"), machine=CORES), "a", l2={"P": 2}, acc={"P": 5}),
        "factors",
        ("a",),
        ["a: P is 4, 2 trips at l2 over tiles of 5 leave some idle (l2 2, acc 5): it takes 1"],
    ),
    "an innermost factor larger than its dim": (
        lambda: remapped(schedule(conv("a"), machine=CORES), "a", acc={"P": 5}),
        "factors",
        ("a",),
        ["a: P is 4, 5 trips at acc over tiles of 1 leave some idle (acc 5): it takes 4"],
    ),
    "more trips than cut tiles ask for": (
        lambda: remapped(schedule(conv("a", P=7), machine=ROW_STATIONARY), "a", glb={"P": 4}, pspad={"P": 3}),
        "factors",
        ("a",),
        ["a: P is 7, 4 trips at glb over tiles of 3 leave some idle (glb 4, pspad 3): it takes 3"],
    ),
    "fewer trips than cut tiles ask for": (
        lambda: remapped(schedule(conv("a", P=7), machine=ROW_STATIONARY), "a", glb={"P": 2}, pspad={"P": 3}),
        "factors",
        ("a",),
        ["a: P is 7, its factors multiply to 6 (glb 2, pspad 3)"],
    ),
    "lanes over which cut tiles leave some idle": (
        lambda: remapped(schedule(conv("a", Q=7), machine=ROW_STATIONARY), "a", cols={"Q": 5}, pspad={"Q": 2}),
        "factors",
        ("a",),
        ["a: Q is 7, 5 trips at cols over tiles of 2 leave some idle (cols 5, pspad 2): it takes 4"],
    ),
    "factors left out": (
        lambda: remapped(schedule(conv("a")), "a", accumulator={"P": 1}),
        "factors",
        ("a",),
        ["a: P is 4, its factors multiply to 1 (all are 1)"],
    ),
    "private factors that miss a shared tile": (
        lambda: remapped(schedule(conv("a", P=7), conv("b", "a", P=7), machine=CORES, P=3), "a", acc={"P": 2}),
        "factors",
        ("a",),
        ["a: P is 7 in shared tiles of 3, its factors multiply to 2 (DRAM 3, acc 2)"],
    ),
    "private trips without work in a shared tile": (
        lambda: remapped(schedule(conv("a", P=7), conv("b", "a", P=7), machine=CORES, P=3), "b", DRAM={"P": 6}),
        "factors",
        ("b",),
        ["b: P is 7 in shared tiles of 3, 6 trips at DRAM over tiles of 3 leave some idle (DRAM 6, acc 3): it takes 3"],
    ),
    # spatial
    "more rows than there are": (
        lambda: remapped(first("g1_ws"), "g", rows={"C": 64}, accumulator={"C": 8}),
        "spatial",
        ("g",),
        ["g: 64 lanes of rows are used (C 64), 32 are there"],
    ),
    "more columns than there are": (
        lambda: remapped(schedule(conv("a", G=4, K=4)), "a", cols={"G": 4, "K": 4}, accumulator={"G": 1, "K": 1}),
        "spatial",
        ("a",),
        ["a: 16 lanes of cols are used (G 4, K 4), 8 are there"],
    ),
    "lanes that channels and kernel fill together": (
        lambda: remapped(schedule(conv("a", R=3), machine=CORES), "a", lanes={"C": 2, "R": 3}, acc={"C": 1, "R": 1}),
        "spatial",
        ("a",),
        ["a: 6 lanes of lanes are used (C 2, R 3), 4 are there"],
    ),
    "a dim no axis unrolls": (
        lambda: remapped(first("g1_ws"), "g", cols={"N": 2, "K": 16}, accumulator={"K": 8}, registers={"N": 64}),
        "spatial",
        ("g",),
        ["g: N unrolls 2 times over cols, which takes KG"],
    ),
    "a dim another axis unrolls": (
        lambda: remapped(schedule(conv("a"), machine=ROW_STATIONARY), "a", rows={"P": 2}, pspad={"P": 2}),
        "spatial",
        ("a",),
        ["a: P unrolls 2 times over rows, which takes RCKN"],
    ),
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
        lambda: two_readers(2),
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
    # fits
    "too little scratchpad": (
        lambda: on(first("h1_rows"), {"scratchpad": {"bytes": 40319}}),
        "fits",
        ("u", "v"),
        [
            "u+v need 40,320 bytes of scratchpad at step u, 40,319 are there: weight tile of u 9,216, "
            "input tile of u 11,136, kept weight tile of v 9,216, buffer of u 10,752",
            "u+v need 40,320 bytes of scratchpad at step v, 40,319 are there: weight tile of v 9,216, "
            "kept weight tile of u 9,216, kept input tile of u 11,136, buffer of u 10,752",
        ],
    ),
    "too little accumulator": (
        lambda: on(first("h1_rows"), {"accumulator": {"bytes": 895}}),
        "fits",
        ("u", "v"),
        [
            "896 bytes of accumulator at step u, 895 are there: output tile of u 896",
            "896 bytes of accumulator at step v",
        ],
    ),
    "too little accumulator for one layer": (
        lambda: on(first("g1_ws"), {"accumulator": {"bytes": 2047}}),
        "fits",
        ("g",),
        ["g needs 2,048 bytes of accumulator at step g, 2,047 are there: output tile of g 2,048"],
    ),
    "too little scratchpad for two buffers of each": (
        lambda: on(first("h1_rows"), {"scratchpad": {"bytes": 2 * 40320 - 2, "double_buffered": True}}),
        "fits",
        ("u", "v"),
        ["40,320 bytes of scratchpad at step u, 40,319 are there", "at step v"],
    ),
    "too little accumulator for two buffers of each": (
        lambda: on(first("h1_rows"), {"accumulator": {"bytes": 2 * 896 - 1, "double_buffered": True}}),
        "fits",
        ("u", "v"),
        ["896 bytes of accumulator at step u, 895 are there", "at step v"],
    ),
    "sums that wait for the channel loop": (
        lambda: on(attention(), {"accumulator": {"bytes": 1535}}),
        "fits",
        ("qk", "av"),
        ["1,536 bytes of accumulator at step qk, 1,535 are there: output tile of qk 1,024, waiting sums of av 512"],
    ),
    "a register with several weights": (
        lambda: remapped(first("g1_ws"), "g", registers={"K": 4}, accumulator={"K": 1}),
        "fits",
        ("g",),
        ["g needs 4 bytes of registers at step g, 1 are there: weight tile of g 4"],
    ),
    "two weights of half a byte in half a byte": (
        lambda: on(
            remapped(first("g1_ws"), "g", registers={"K": 4}, accumulator={"K": 1}),
            bits=replace(first("g1_ws").machine.bits, W=3),
        ),
        "fits",
        ("g",),
        ["g needs 1.50 bytes of registers at step g, 1 are there: weight tile of g 1.50"],
    ),
    "a lane's memory too small for its window": (
        lambda: on(schedule(conv("a", R=3, S=3), machine=ROW_STATIONARY), {"ispad": {"bytes": 143}}),
        "fits",
        ("a",),
        ["a needs 144 bytes of ispad at step a, 143 are there: input tile of a 144"],
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

each_break = pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())


@each_break
def test_a_broken_rule_is_reported_by_name_with_layers_and_numbers(case):
    build, rule, layers, told = case
    found = violations(build())
    messages = [str(violation) for violation in found]
    assert {violation.rule for violation in found} == {rule}, messages
    assert layers in {violation.layers for violation in found}
    assert all(message.startswith(f"{rule}: ") for message in messages)
    for part in told:
        assert any(part in message for message in messages), messages
    assert len(found) == len(told)


@each_break
def test_a_file_that_breaks_a_rule_is_refused_with_the_rule_in_the_message(case, tmp_path):
    build, rule, layers, told = case
    path = tmp_path / "broken.json"
    write_schedule(path, build(), StatedCost(energy_pj=1.0, cycles=1.0, edp_uj_cycles=1.0))
    with pytest.raises(FadiffError) as refused:
        load_schedule(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: ")
    assert f"{rule}: " in message
    assert all(part in message for part in told)
    assert all(layer in message for layer in layers)


@each_break
def test_an_illegal_schedule_is_never_written(case, tmp_path):
    with pytest.raises(IllegalScheduleError):
        save_schedule(tmp_path / "broken.json", case[0]())
    assert list(tmp_path.iterdir()) == []


def test_every_rule_is_broken_somewhere_above():
    assert {rule for _, rule, _, _ in BROKEN.values()} == set(RULES)
    assert list(RULES) == [
        *("factors", "spatial", "aligned", "complete", "fits", "whole"),
        *("fusible", "fuses", "one sink", "ordered", "repeat"),
    ]


LEGAL = {
    "capacities exactly filled": lambda: on(
        first("h1_rows"), {"scratchpad": {"bytes": 40320}, "accumulator": {"bytes": 896}}
    ),
    "double buffers exactly filled": lambda: on(
        first("h1_rows"),
        {
            "scratchpad": {"bytes": 2 * 40320, "double_buffered": True},
            "accumulator": {"bytes": 2 * 896, "double_buffered": True},
        },
    ),
    "waiting sums exactly fit": lambda: on(attention(), {"accumulator": {"bytes": 1536}}),
    "two weights of half a byte in a byte": lambda: on(
        remapped(first("g1_ws"), "g", registers={"K": 2}, accumulator={"K": 2}),
        bits=replace(first("g1_ws").machine.bits, W=4),
    ),
    "kernel rows on lanes that take them": lambda: remapped(
        on(first("h1_rows"), {"rows": {"dims": "CRS", "size": 96}}), "u", rows={"R": 3}, accumulator={"R": 1}
    ),
    "the last layer may spill": lambda: broken_sums("v"),
    "a single layer may spill": lambda: remapped(
        schedule(conv("a"), machine=CORES), "a", {"DRAM": "CGNKPQRS"}, DRAM={"C": 2, "P": 2}, acc={"C": 1, "P": 2}
    ),
    "trips that divide with a private rest": lambda: regrouped(first("h1_rows"), P=7),
    "softmax without X": lambda: regrouped(first("a3_GNX"), G=8, N=8),
    "softmax under an X that does not spill": lambda: attention(loops="NGX"),
    "a weight port cut by G": lambda: schedule(mac("k", G=2, N=4, K=2), mac("qk", None, "k", G=2, N=4, K=4, C=2), G=2),
    "groups cut and ordered well": lambda: replace(
        first("f5_chain3"), groups=(Group(("u",), Trips(N=8)), Group(("v", "w"), Trips(N=4)))
    ),
    "a single layer that shares loops on a machine that does not fuse": lambda: schedule(
        conv("a"), machine=PLAIN, P=2, N=1
    ),
    "a layer done in time": lambda: schedule(
        conv("a", P=9), conv("b", "a", P=4, stride=(2, 1), R=3, pad=(0, 0)), machine=CORES, P=2, own={"a": {"P": 4}}
    ),
    "a layer with more trips of its own than its group": lambda: schedule(
        conv("a", P=16), conv("b", "a", P=14, R=3, pad=(0, 0)), machine=ROW_STATIONARY, P=5, own={"a": {"P": 3}}
    ),
    "a tile smaller than the lanes it is dealt to": lambda: remapped(
        schedule(conv("a", K=7), machine=CORES), "a", cores={"K": 2}, cols={"K": 4}, acc={"K": 1}
    ),
}
LEGAL_ON_EVERY_MACHINE = {
    "cut ends": lambda machine: schedule(conv("a", P=7, K=5), conv("b", "a", P=7, C=5, R=3), machine=machine, P=3),
    "cut private tiles": lambda machine: remapped(
        schedule(conv("a", P=7), conv("b", "a", P=7), machine=machine, P=2),
        "a",
        DRAM={"P": 4},
        **{sums(machine): {"P": 3}},
    ),
    "one trip more than tiles of a layer": lambda machine: schedule(
        conv("a", P=4, epilogue=("upsample",), out=(8, 4)), conv("b", "a", P=8), machine=machine, P=4
    ),
    "X between the other loops": lambda machine: schedule(
        conv("a"), conv("b", "a"), machine=machine, X=2, P=2, loops="PXQ"
    ),
    "X that cuts channels unevenly": lambda machine: schedule(
        conv("a", K=5), conv("b", "a", C=5), machine=machine, X=3, loops="X"
    ),
    "a weight port kept whole": lambda machine: schedule(
        mac("k", N=4, K=2, C=2), mac("qk", None, "k", N=4, K=4, C=2), machine=machine
    ),
    "a reshape kept whole": lambda machine: schedule(
        mac("a", N=4, K=8, C=2, epilogue=("reshape",)), mac("b", "a", N=8, K=2, C=4), machine=machine
    ),
    "a transpose kept whole": lambda machine: schedule(
        mac("a", N=4, K=4, epilogue=("transpose",)), mac("b", "a", N=4, C=4), machine=machine
    ),
    "flatten kept whole": lambda machine: schedule(conv("a"), conv("b", "a", epilogue=("flatten",)), machine=machine),
    "global_pool cut by N": lambda machine: schedule(
        conv("a", N=2), conv("b", "a", N=2, epilogue=("global_pool",), out=(1, 1)), machine=machine, N=2
    ),
    "layer_norm cut by N": lambda machine: schedule(
        mac("a", N=2), mac("b", "a", N=2, epilogue=("layer_norm",)), machine=machine, N=2
    ),
    "equal repeat counts": lambda machine: schedule(conv("a", repeat=2), conv("b", "a", repeat=2), machine=machine),
    "a residual in odd tiles": lambda machine: schedule(
        conv("u", P=7), conv("b", "u", P=7, R=3), add("s", "b", "u", K=2, P=7, Q=4), machine=machine, P=3
    ),
}


@pytest.mark.parametrize("build", LEGAL.values(), ids=LEGAL.keys())
def test_what_no_rule_forbids_is_legal(build):
    check_legal(build())


@pytest.mark.parametrize("machine", FUSING, ids=lambda machine: machine.name)
@pytest.mark.parametrize("build", LEGAL_ON_EVERY_MACHINE.values(), ids=LEGAL_ON_EVERY_MACHINE.keys())
def test_what_no_rule_forbids_is_legal_on_every_machine(build, machine):
    check_legal(build(machine))


def test_all_rules_a_schedule_breaks_are_reported_at_once():
    given = schedule(
        conv("a"),
        conv("b", "a", epilogue=("global_pool",), out=(1, 1)),
        mac("fc", "b", C=2, K=16),
        mac("after", "fc", C=16, repeat=2),
        groups=(Group(("a", "b"), Trips(P=2)), Group(("fc",), Trips(N=3)), Group(("after",))),
    )
    given = remapped(given, "a", DRAM={"P": 2}, accumulator={"P": 2, "K": 1}, registers={"K": 2})
    given = remapped(given, "b", DRAM={"P": 2}, accumulator={"P": 2, "Q": 2})
    given = remapped(given, "after", rows={"C": 16}, accumulator={"C": 1})
    given = replace(given, groups=(given.groups[2], *given.groups[:2]))
    found = [(violation.rule, violation.layers) for violation in violations(given)]
    assert found == [
        ("factors", ("b",)),
        ("spatial", ("after",)),
        ("aligned", ("fc",)),
        ("fits", ("a", "b")),
        ("whole", ("a", "b")),
        ("ordered", ("fc", "after")),
    ]
    with pytest.raises(IllegalScheduleError) as refused:
        check_legal(given)
    assert [violation.rule for violation in refused.value.violations] == [rule for rule, _ in found]
    assert str(refused.value) == "; ".join(str(violation) for violation in violations(given))


def test_a_group_around_another_one_has_no_sink_and_no_order():
    chain = schedule(conv("a"), conv("b", "a"), conv("c", "b"), groups=(Group(("b",)), Group(("a", "c"))))
    assert [(v.rule, v.layers) for v in violations(chain)] == [("one sink", ("a", "c")), ("ordered", ("a", "b"))]


def test_every_layer_that_breaks_a_rule_is_named():
    given = on(first("f5_chain3"), {"rows": {"size": 16}, "cols": {"size": 16}})
    assert [(v.rule, v.layers) for v in violations(given)] == [
        ("spatial", (name,)) for name in ("u", "u", "v", "v", "w", "w")
    ]


def test_a_machine_without_axes_unrolls_nothing():
    nodes = tuple(node for node in PLAIN.nodes if not isinstance(node, Axis))
    given = schedule(conv("a"), machine=replace(PLAIN, nodes=(*nodes[:-1], memory("sums", "O", 128))))
    check_legal(given)
    assert [str(v) for v in violations(on(given, {"sums": {"bytes": 127}}))] == [
        "fits: a needs 128 bytes of sums at step a, 127 are there: output tile of a 128"
    ]


# The rule *shapes* is kept by the workload's constructor.


@pytest.mark.parametrize(
    ("layers", "told"),
    [
        ((conv("a"), conv("b", "a", C=3)), "'a' -> 'b' (input): 2 channels arrive, G*C is 3"),
        ((conv("a"), conv("b", "a", P=9)), "'a' -> 'b' (input): 4 rows arrive, the layer reads 9"),
        ((conv("a"), add("s", "a", None, K=2, P=4, Q=5)), "'a' -> 's' (addend)"),
        ((conv("a"), mac("b", None, "a", K=2, C=2)), "'a' -> 'b' (weight): 32 words arrive, the weights are 4"),
        ((conv("a"), conv("b", "a", P=5, R=3, pad=(0, 0))), "4 rows arrive, the layer reads 7"),
        ((conv("a", P=5), conv("b", "a", P=2, stride=(2, 1), pad=(0, 0))), "5 rows arrive, the layer reads 3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_shapes_that_disagree_make_no_workload(layers, told):
    with pytest.raises(WorkloadError) as refused:
        Workload("toy", layers)
    assert str(refused.value).startswith("shapes: ")
    assert told in str(refused.value)


def test_padding_and_strides_explain_rows_that_are_not_equal():
    """-stride < H - top - P' <= (R-1)*dilation."""
    for rows in (2, 3, 4):
        Workload("toy", (conv("a", P=rows), conv("b", "a", P=2, R=3, pad=(0, 0))))
    for rows in (3, 4):
        Workload("toy", (conv("a", P=rows), conv("b", "a", P=2, stride=(2, 1), pad=(0, 0))))


def test_a_file_whose_shapes_disagree_is_refused_as_shapes(tmp_path):
    path = tmp_path / "shapes.json"
    text = (FIRST / "small" / "h1_rows.json").read_text()
    start, end = text.split('"name": "v"', 1)
    path.write_text(start + '"name": "v"' + end.replace('"C": 32', '"C": 16', 1))
    with pytest.raises(FileError, match=r"shapes: 'u' -> 'v' \(input\): 32 channels arrive, G\*C is 16"):
        load_schedule(path)
