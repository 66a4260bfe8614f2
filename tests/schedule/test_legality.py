"""Every rule broken on purpose: each is reported under its own name, with layers and numbers."""

from dataclasses import replace
from pathlib import Path

import pytest

from fadiff.cost import load_schedule, save_schedule
from fadiff.errors import FadiffError
from fadiff.files import FileError
from fadiff.hardware import Hardware, Picojoules
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.schedule.file import StatedCost, read_schedule, write_schedule
from fadiff.schedule.legality import RULES, IllegalScheduleError, check_legal, violations
from fadiff.workload import Dims, Input, Layer, Workload, WorkloadError

FOLDER = Path(__file__).parent.parent / "data" / "schedules" / "small"
MACHINE = Hardware(
    "toy", rows=8, cols=8, l1_bytes=4096, l2_bytes=4096, pj=Picojoules(1, 1, 1, 1, 100), online_softmax=True
)


def reference(name):
    return read_schedule(FOLDER / f"{name}.json")[0]


def remapped(schedule, layer, **levels):
    """The schedule with some factors (or orders) of one layer changed."""
    old = schedule.mappings[layer]
    changes = {
        key: value if isinstance(value, str) else getattr(old, key)._replace(**value) for key, value in levels.items()
    }
    return replace(schedule, mappings={**schedule.mappings, layer: replace(old, **changes)})


def regrouped(schedule, trips=None, loops=None):
    """The schedule with other shared loops in its only group."""
    (group,) = schedule.groups
    changed = replace(group, trips=Trips(**(trips or {})), loops=loops or group.loops)
    return replace(schedule, groups=(changed,))


def machine(schedule, **changes):
    return replace(schedule, hardware=replace(schedule.hardware, **changes))


def mac(name, source=None, weight=None, **settings):
    dims = Dims(**{d: settings.pop(d) for d in tuple(settings) if len(d) == 1})
    inputs = (Input(source), *([Input(weight, "weight")] if weight else []))
    return Layer(name, "mac", dims, inputs, **settings)


def add(name, *sources, **settings):
    dims = Dims(**{d: settings.pop(d) for d in tuple(settings) if len(d) == 1})
    return Layer(name, "add", dims, tuple(Input(source, "addend") for source in sources), **settings)


def at_l3(*layers, groups=None, loops="GNPQ", hardware=MACHINE, **trips):
    """Layers in one group that shares loops; the shared trips stand at L3, all other loops at L1."""
    count = Trips(**trips)
    mappings = {}
    for i, layer in enumerate(layers):
        if layer.kind == "add":
            continue
        shared = {d: getattr(count, d) for d in "GNPQ" if getattr(layer.dims, d) % getattr(count, d) == 0}
        if count.X > 1:
            shared["C" if i else "K"] = count.X
        rest = {d: size // shared.get(d, 1) for d, size in layer.dims._asdict().items()}
        mappings[layer.name] = Mapping(l3=Dims(**shared), l1=Dims(**rest))
    names = tuple(layer.name for layer in layers)
    return Schedule(Workload("toy", layers), hardware, groups or (Group(names, count, loops),), mappings)


def conv(name, source=None, **settings):
    return mac(name, source, **({"K": 2, "C": 2, "P": 4, "Q": 4} | settings))


def pooled_producer():
    """Trips that divide P of both layers but not the six rows stored between them."""
    a = conv("a", P=8, Q=1, epilogue=("max_pool",), out=(6, 1))
    return at_l3(a, conv("b", "a", P=8, Q=1, R=3), P=4)


def upsampled_sum():
    """Trips that divide the rows of a convolution but not those of the sum it reads, which is enlarged."""
    s = add("s", None, None, K=2, P=4, Q=4, epilogue=("upsample",), out=(8, 4))
    return at_l3(s, conv("b", "s", P=8), P=8)


def broken_sums(name):
    """Three loops over R at L3, outside loops over P at L2."""
    return remapped(reference("h1_rows"), name, l3={"R": 3}, l2={"P": 2}, l1={"R": 1, "P": 2})


def attention(**changes):
    return regrouped(reference("a3_GNX"), {"G": 8, "N": 8, "X": 4}, **changes)


# What is broken: the schedule, the rule, the layers it names, and what its messages say.
BROKEN = {
    "factors too small": (
        lambda: remapped(reference("g1_ws"), "g", l3={"K": 2}),
        "factors",
        ("g",),
        ["g: K is 512, its factors multiply to 256 (spatial 32, L3 2, L1 4)"],
    ),
    "factors too large": (
        lambda: remapped(reference("g1_ws"), "g", l2={"S": 3}),
        "factors",
        ("g",),
        ["g: S is 1, its factors multiply to 3 (L2 3)"],
    ),
    "factors left out": (
        lambda: remapped(at_l3(conv("a")), "a", l1={"P": 1}),
        "factors",
        ("a",),
        ["a: P is 4, its factors multiply to 1 (all are 1)"],
    ),
    "more rows than there are": (
        lambda: remapped(reference("g1_ws"), "g", spatial={"C": 64}, l1={"C": 8}),
        "spatial",
        ("g",),
        ["g: 64 array rows are used (C 64), 32 are there"],
    ),
    "more columns than there are": (
        lambda: remapped(at_l3(conv("a", G=4, K=4)), "a", spatial={"G": 4, "K": 4}, l1={"G": 1, "K": 1}),
        "spatial",
        ("a",),
        ["a: 16 array columns are used (K 4, G 4), 8 are there"],
    ),
    "rows that channels and kernel fill together": (
        lambda: remapped(
            machine(reference("h1_rows"), spatial_rows=("C", "R", "S"), rows=95), "u", spatial={"R": 3}, l1={"R": 1}
        ),
        "spatial",
        ("u",),
        ["u: 96 array rows are used (C 32, R 3, S 1), 95 are there"],
    ),
    "a dim no array unrolls": (
        lambda: remapped(reference("g1_ws"), "g", spatial={"N": 2}, l0={"N": 64}),
        "spatial",
        ("g",),
        ["g: N unrolls 2 times, the array of afcheck does not take it"],
    ),
    "a dim this array does not unroll": (
        lambda: remapped(reference("h1_rows"), "v", spatial={"R": 3}, l1={"R": 1}),
        "spatial",
        ("v",),
        ["v: R unrolls 3 times, the array of afcheck does not take it"],
    ),
    "a register with several weights": (
        lambda: remapped(reference("g1_ws"), "g", l0={"K": 4}, l1={"K": 1}),
        "registers",
        ("g",),
        ["g: K loops 4 times at L0"],
    ),
    "too little L2": (
        lambda: machine(reference("h1_rows"), l2_bytes=40319),
        "fits",
        ("u", "v"),
        [
            "u+v need 40,320 bytes of L2 at step u, 40,319 are there: "
            "weights pinned 18,432, input windows kept 11,136, buffer of u 10,752",
            "u+v need 40,320 bytes of L2 at step v, 40,319 are there",
        ],
    ),
    "too little L1": (
        lambda: machine(reference("h1_rows"), l1_bytes=28671),
        "fits",
        ("u", "v"),
        ["28,672 bytes of L1 at step u, 28,671 are there: sums of u 28,672", "28,672 bytes of L1 at step v"],
    ),
    "too little L1 for one layer": (
        lambda: machine(reference("g1_ws"), l1_bytes=65535),
        "fits",
        ("g",),
        ["g needs 65,536 bytes of L1 at step g, 65,535 are there"],
    ),
    "too little L2 for two buffers of each": (
        lambda: machine(reference("h1_rows"), l2_bytes=2 * 40320 - 2, double_buffered=True),
        "fits",
        ("u", "v"),
        ["40,320 bytes of L2 at step u, 40,319 are there", "at step v"],
    ),
    "too little L1 for two buffers of each": (
        lambda: machine(reference("h1_rows"), l1_bytes=2 * 28672 - 1, double_buffered=True),
        "fits",
        ("u", "v"),
        ["28,672 bytes of L1 at step u, 28,671 are there", "at step v"],
    ),
    "sums that wait for the channel loop": (
        lambda: machine(attention(), l1_bytes=49151),
        "fits",
        ("qk", "av"),
        ["49,152 bytes of L1 at step qk, 49,151 are there: sums of qk 32,768, waiting sums of av 16,384"],
    ),
    "trips that do not divide L3 factors": (
        lambda: regrouped(reference("h1_rows"), {"P": 4}),
        "aligned",
        ("u", "v"),
        ["4 trips of P do not divide u's L3 factor of P, 14", "4 trips of P do not divide v's L3 factor of P, 14"],
    ),
    "trips of N that do not divide L3 factors": (
        lambda: regrouped(reference("f6_tiny"), {"N": 32}),
        "aligned",
        ("u", "v"),
        ["32 trips of N do not divide u's L3 factor of N, 16", "divide v's L3 factor of N, 16"],
    ),
    "trips of G that do not divide L3 factors": (
        lambda: regrouped(reference("a2_kept"), {"G": 3, "N": 8}),
        "aligned",
        ("qk", "av"),
        ["3 trips of G do not divide qk's L3 factor of G, 8", "3 trips of G do not divide av's L3 factor of G, 8"],
    ),
    "trips that do not divide a sum": (
        upsampled_sum,
        "aligned",
        ("s", "b"),
        ["8 trips of P do not divide s's size of P, 4"],
    ),
    "trips that do not divide stored rows": (
        pooled_producer,
        "aligned",
        ("a", "b"),
        ["4 trips of P do not divide a's 6 stored P'"],
    ),
    "trips that do not divide stored columns": (
        lambda: at_l3(conv("a", P=1, Q=8, epilogue=("avg_pool",), out=(1, 6)), conv("b", "a", P=1, Q=8, S=3), Q=4),
        "aligned",
        ("a", "b"),
        ["4 trips of Q do not divide a's 6 stored Q'"],
    ),
    "a batch that changes along an edge": (
        lambda: at_l3(mac("a", N=4, K=8, C=2, epilogue=("reshape",)), mac("b", "a", N=8, K=2, C=4), N=4),
        "aligned",
        ("a", "b"),
        ["N is shared, but a has N 4 and b 8"],
    ),
    "G without a common G": (
        lambda: remapped(regrouped(reference("d1_dwpw"), {"P": 14, "G": 2}), "dw", l3={"G": 2}, l1={"G": 1}),
        "aligned",
        ("dw", "pw"),
        ["G is shared (2 trips), but its layers have no common G > 1 (dw 64, pw 1)", "pw's L3 factor of G, 1"],
    ),
    "G in a group with a sum": (
        lambda: at_l3(mac("a", G=2, C=2, K=2), add("s", "a", None, K=4), G=2),
        "aligned",
        ("a", "s"),
        ["G is shared (2 trips), but its layers have no common G > 1 (a 2, s 1)"],
    ),
    "X across a kernel": (
        lambda: at_l3(conv("a"), conv("b", "a", R=3), X=2, loops="X"),
        "aligned",
        ("a", "b"),
        ["X is shared (2 trips), but b has a 3x1 kernel: it must be 1x1"],
    ),
    "X in a chain of three": (
        lambda: regrouped(reference("f5_chain3"), {"N": 8, "X": 2}, "NX"),
        "aligned",
        ("u", "v", "w"),
        ["X is shared (2 trips), but only a group of exactly two MAC layers may"],
    ),
    "X in a layer on its own": (
        lambda: at_l3(conv("a"), X=2, loops="X"),
        "aligned",
        ("a",),
        ["X is shared (2 trips), but only a group of exactly two MAC layers may"],
    ),
    "X into a sum": (
        lambda: at_l3(conv("a"), add("s", "a", None, K=2, P=4, Q=4), X=2, loops="X"),
        "aligned",
        ("a", "s"),
        ["X is shared (2 trips), but only a group of exactly two MAC layers may"],
    ),
    "X where K is not C": (
        lambda: at_l3(mac("a", K=8, C=2), mac("b", "a", G=2, C=4, K=2), X=2, loops="X"),
        "aligned",
        ("a", "b"),
        ["X is shared (2 trips), but a has G,K 1,8 and b G,C 2,4: they must be equal"],
    ),
    "X into a weight port": (
        lambda: at_l3(mac("k", N=4, K=2, C=2), mac("qk", None, "k", N=4, K=4, C=2), X=2, loops="X"),
        "aligned",
        ("k", "qk"),
        ["X is shared (2 trips), but k does not feed the input of qk"],
    ),
    "X that does not divide channels": (
        lambda: regrouped(reference("a3_GNX"), {"G": 8, "N": 8, "X": 3}),
        "aligned",
        ("qk", "av"),
        ["3 trips of X do not divide qk's L3 factor of K, 4", "3 trips of X do not divide av's L3 factor of C, 4"],
    ),
    "P inside Q": (
        lambda: regrouped(reference("h3_2d"), {"P": 4, "Q": 4}, "QP"),
        "aligned",
        ("u", "v"),
        ["loops 'QP' nest P inside Q: P is always outside"],
    ),
    "a fused producer that spills": (
        lambda: broken_sums("u"),
        "complete",
        ("u",),
        ["u is fused but spills 200,704 partial sums to L3"],
    ),
    "weights cut by N": (
        lambda: at_l3(mac("k", N=4, K=2, C=2), mac("qk", None, "k", N=4, K=4, C=2), N=2),
        "whole",
        ("k", "qk"),
        ["k is the weight of qk, so N, P and Q must not be shared (trips N 2)"],
    ),
    "weights cut by P": (
        lambda: at_l3(conv("k", K=1, Q=1), mac("v", None, "k", K=2, C=2, P=4), P=2),
        "whole",
        ("k", "v"),
        ["k is the weight of v, so N, P and Q must not be shared (trips P 2)"],
    ),
    "a transposed input cut by N": (
        lambda: at_l3(mac("a", N=4, K=4, C=2, epilogue=("transpose",)), mac("b", "a", N=4, K=2, C=4), N=2),
        "whole",
        ("a", "b"),
        ["a is transposed for b, so N, P and Q must not be shared (trips N 2)"],
    ),
    "flatten cut by P": (
        lambda: at_l3(conv("a"), conv("b", "a", epilogue=("flatten",)), P=2),
        "whole",
        ("a", "b"),
        ["flatten of b needs whole images, so P and Q must not be shared (trips P 2)"],
    ),
    "flatten cut by Q": (
        lambda: at_l3(conv("a", epilogue=("flatten",)), Q=4),
        "whole",
        ("a",),
        ["flatten of a needs whole images, so P and Q must not be shared (trips Q 4)"],
    ),
    "flatten cut by G": (
        lambda: at_l3(conv("a", G=2), conv("b", "a", G=2, epilogue=("flatten",)), G=2),
        "whole",
        ("a", "b"),
        ["flatten of b needs all channels, so G and X must not be shared (trips G 2)"],
    ),
    "flatten cut by X": (
        lambda: at_l3(conv("a"), conv("b", "a", epilogue=("flatten",)), X=2, loops="X"),
        "whole",
        ("a", "b"),
        ["flatten of b needs all channels, so G and X must not be shared (trips X 2)"],
    ),
    "global_pool cut by P": (
        lambda: at_l3(conv("a"), conv("b", "a", epilogue=("global_pool",), out=(1, 1)), P=2),
        "whole",
        ("a", "b"),
        ["global_pool of b needs whole images, so P and Q must not be shared (trips P 2)"],
    ),
    "global_pool cut by Q": (
        lambda: at_l3(conv("a"), conv("b", "a", epilogue=("global_pool",), out=(1, 1)), Q=2),
        "whole",
        ("a", "b"),
        ["global_pool of b needs whole images, so P and Q must not be shared (trips Q 2)"],
    ),
    "layer_norm cut by G": (
        lambda: at_l3(mac("a", G=2, N=2), mac("b", "a", G=2, N=2, epilogue=("layer_norm",)), G=2),
        "whole",
        ("a", "b"),
        ["layer_norm of b needs all channels, so G and X must not be shared (trips G 2)"],
    ),
    "layer_norm cut by X": (
        lambda: at_l3(mac("a", N=2, K=4, epilogue=("layer_norm",)), mac("b", "a", N=2, C=4), X=2, loops="X"),
        "whole",
        ("a", "b"),
        ["layer_norm of a needs all channels, so G and X must not be shared (trips X 2)"],
    ),
    "softmax under X without online softmax": (
        lambda: machine(attention(), online_softmax=False),
        "whole",
        ("qk", "av"),
        ["softmax of qk needs whole rows, X is 4 and afcheck has no online softmax"],
    ),
    "softmax under X whose consumer spills": (
        lambda: attention(loops="GXN"),
        "whole",
        ("qk", "av"),
        ["softmax of qk under X needs the sums of av in L1, but 786,432 spill"],
    ),
    "a part of a tensor read on chip": (
        lambda: at_l3(conv("a", K=4), Layer("b", "mac", Dims(K=2, C=2, P=4, Q=4), (Input("a", fusible=False),))),
        "fusible",
        ("a", "b"),
        ["b cannot read a on chip (its input is not fusible): put them in different groups"],
    ),
    "a part of a tensor read by a group around it": (
        lambda: at_l3(
            conv("a"),
            conv("b", "a"),
            Layer("c", "mac", Dims(K=2, C=3, P=4, Q=4), (Input("b"), Input("a", fusible=False))),
        ),
        "fusible",
        ("a", "c"),
        ["c cannot read a on chip (its input is not fusible)"],
    ),
    "two layers that have nothing to do with each other": (
        lambda: at_l3(conv("a"), conv("b"), P=2),
        "one sink",
        ("a", "b"),
        ["a+b: a does not reach b inside the group"],
    ),
    "a branch that ends inside the group": (
        lambda: at_l3(conv("a"), conv("b", "a"), conv("c", "a"), P=2),
        "one sink",
        ("a", "b", "c"),
        ["a+b+c: b does not reach c inside the group"],
    ),
    "groups out of order": (
        lambda: replace(reference("f5_chain3"), groups=(Group(("v",)), Group(("u",)), Group(("w",)))),
        "ordered",
        ("u", "v"),
        ["v runs before u, whose output it reads"],
    ),
    "layers of a group out of order": (
        lambda: replace(reference("f5_chain3"), groups=(Group(("v", "u", "w"), Trips(N=8)),)),
        "ordered",
        ("u", "v"),
        ["v runs before u, whose output it reads"],
    ),
    "repeat counts that differ": (
        lambda: at_l3(conv("a", repeat=2), conv("b", "a", repeat=3)),
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
    assert {violation.rule for violation in found} == {rule}
    assert layers in {violation.layers for violation in found}
    messages = [str(violation) for violation in found]
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


LEGAL = {
    "capacities exactly filled": lambda: machine(reference("h1_rows"), l2_bytes=40320, l1_bytes=28672),
    "double buffers exactly filled": lambda: machine(
        reference("h1_rows"), l2_bytes=2 * 40320, l1_bytes=2 * 28672, double_buffered=True
    ),
    "waiting sums exactly fit": lambda: machine(attention(), l1_bytes=49152),
    "kernel rows on the array where it takes them": lambda: remapped(
        machine(reference("h1_rows"), spatial_rows=("C", "R", "S"), rows=96), "u", spatial={"R": 3}, l1={"R": 1}
    ),
    "the last layer may spill": lambda: broken_sums("v"),
    "trips that divide with a private rest": lambda: regrouped(reference("h1_rows"), {"P": 7}),
    "softmax without X": lambda: regrouped(reference("a3_GNX"), {"G": 8, "N": 8}),
    "softmax under an X that does not spill": lambda: attention(loops="NGX"),
    "X between the other loops": lambda: at_l3(conv("a"), conv("b", "a"), X=2, P=2, loops="PXQ"),
    "a weight port kept whole": lambda: at_l3(mac("k", N=4, K=2, C=2), mac("qk", None, "k", N=4, K=4, C=2)),
    "a weight port cut by G": lambda: at_l3(mac("k", G=2, N=4, K=2), mac("qk", None, "k", G=2, N=4, K=4, C=2), G=2),
    "a reshape kept whole": lambda: at_l3(mac("a", N=4, K=8, C=2, epilogue=("reshape",)), mac("b", "a", N=8, K=2, C=4)),
    "a transpose kept whole": lambda: at_l3(mac("a", N=4, K=4, epilogue=("transpose",)), mac("b", "a", N=4, C=4)),
    "flatten kept whole": lambda: at_l3(conv("a"), conv("b", "a", epilogue=("flatten",))),
    "global_pool cut by N": lambda: at_l3(
        conv("a", N=2), conv("b", "a", N=2, epilogue=("global_pool",), out=(1, 1)), N=2
    ),
    "layer_norm cut by N": lambda: at_l3(mac("a", N=2), mac("b", "a", N=2, epilogue=("layer_norm",)), N=2),
    "equal repeat counts": lambda: at_l3(conv("a", repeat=2), conv("b", "a", repeat=2)),
    "groups cut and ordered well": lambda: replace(
        reference("f5_chain3"), groups=(Group(("u",), Trips(N=8)), Group(("v", "w"), Trips(N=4)))
    ),
}


@pytest.mark.parametrize("build", LEGAL.values(), ids=LEGAL.keys())
def test_what_no_rule_forbids_is_legal(build):
    check_legal(build())


def test_all_rules_a_schedule_breaks_are_reported_at_once():
    schedule = at_l3(
        conv("a"),
        conv("b", "a", epilogue=("global_pool",), out=(1, 1)),
        mac("fc", "b", C=2, K=16),
        mac("after", "fc", C=16, repeat=2),
        groups=(Group(("a", "b"), Trips(P=2)), Group(("fc",), Trips(N=3)), Group(("after",))),
    )
    schedule = remapped(schedule, "a", l3={"P": 2}, l1={"P": 2, "K": 1}, l0={"K": 2})
    schedule = remapped(schedule, "b", l3={"P": 2}, l1={"P": 2, "Q": 2})
    schedule = remapped(schedule, "after", spatial={"C": 16}, l1={"C": 1})
    schedule = replace(schedule, groups=(schedule.groups[2], *schedule.groups[:2]))
    found = [(violation.rule, violation.layers) for violation in violations(schedule)]
    assert found == [
        ("factors", ("b",)),
        ("spatial", ("after",)),
        ("registers", ("a",)),
        ("aligned", ("fc",)),
        ("whole", ("a", "b")),
        ("ordered", ("fc", "after")),
    ]
    with pytest.raises(IllegalScheduleError) as refused:
        check_legal(schedule)
    assert [violation.rule for violation in refused.value.violations] == [rule for rule, _ in found]
    assert all(str(violation) in str(refused.value) for violation in violations(schedule))


def test_a_group_around_another_one_has_no_sink_and_no_order():
    chain = at_l3(conv("a"), conv("b", "a"), conv("c", "b"), groups=(Group(("b",)), Group(("a", "c"))))
    assert [(v.rule, v.layers) for v in violations(chain)] == [("one sink", ("a", "c")), ("ordered", ("a", "b"))]


def test_every_layer_that_breaks_a_rule_is_named():
    schedule = machine(reference("f5_chain3"), rows=16, cols=16)
    assert [(v.rule, v.layers) for v in violations(schedule)] == [
        ("spatial", (name,)) for name in ("u", "u", "v", "v", "w", "w")
    ]


def test_shapes_that_disagree_make_no_workload():
    with pytest.raises(WorkloadError, match=r"shapes: 'a' -> 'b' \(input\): 2 channels arrive, G\*C is 3"):
        Workload("toy", (conv("a"), conv("b", "a", C=3)))
    with pytest.raises(WorkloadError, match=r"shapes: 'a' -> 'b' \(input\): 4 rows arrive, the layer reads 9"):
        Workload("toy", (conv("a"), conv("b", "a", P=9)))
    with pytest.raises(WorkloadError, match=r"shapes: 'a' -> 's' \(addend\)"):
        Workload("toy", (conv("a"), add("s", "a", None, K=2, P=4, Q=5)))
    with pytest.raises(WorkloadError, match=r"shapes: 'a' -> 'b' \(weight\): 32 words arrive, the weights are 4"):
        Workload("toy", (conv("a"), mac("b", None, "a", K=2, C=2)))


def test_a_file_whose_shapes_disagree_is_refused_as_shapes(tmp_path):
    path = tmp_path / "shapes.json"
    text = (FOLDER / "h1_rows.json").read_text()
    first, second = text.split('"name": "v"', 1)
    path.write_text(first + '"name": "v"' + second.replace('"C": 32', '"C": 16', 1))
    with pytest.raises(FileError, match=r"shapes: 'u' -> 'v' \(input\): 32 channels arrive, G\*C is 16"):
        load_schedule(path)
