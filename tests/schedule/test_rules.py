"""Every rule broken on purpose: each is reported under its own name, with layers and numbers."""

from dataclasses import replace

import pytest

from examples import FIRST, first
from fadiff.cost.checked import load_schedule, save_schedule
from fadiff.errors import FadiffError
from fadiff.files import FileError
from fadiff.hardware import Axis
from fadiff.schedule import Group, Trips
from fadiff.schedule.file import StatedCost, write_schedule
from fadiff.schedule.rules import RULES, IllegalScheduleError, check_legal, violations
from fadiff.workload import Workload, WorkloadError
from schedule.broken_groups import BROKEN_GROUPS, attention, broken_sums
from schedule.broken_layers import BROKEN_LAYERS
from schedule.toys import (
    CORES,
    FUSING,
    PLAIN,
    ROW_STATIONARY,
    add,
    conv,
    mac,
    memory,
    on,
    regrouped,
    remapped,
    schedule,
    sums,
)

BROKEN = {**BROKEN_LAYERS, **BROKEN_GROUPS}
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


def test_every_rule_is_broken_somewhere():
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
