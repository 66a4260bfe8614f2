"""Schedules that break one rule about the mapping of a layer: *factors*, *spatial* or *fits*.

Each is a function that builds it, with the rule, the layers that are named, and what the messages say.
"""

from dataclasses import replace

from examples import first
from schedule.broken_groups import attention
from schedule.toys import CORES, ROW_STATIONARY, conv, on, remapped, schedule

BROKEN_LAYERS = {
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
}
