"""Constraints as values and as files: what they say, what they refuse, and how a schedule that breaks them is told."""

import json
from dataclasses import replace

import pytest
import yaml

from fadiff import Constraints, FadiffError, greedy, load_constraints, load_machine, load_model, save_schedule
from fadiff.schedule.constraint_kinds import Extent, Factor, Keep, Once, Order, Unroll, parse_order
from fadiff.schedule.constraints import kept
from fadiff.schedule.constraints_file import asked_of
from fadiff.schedule.constraints_written import all_asked, written
from fadiff.schedule.group_constraints import Fuse, Together
from fadiff.schedule.ir import Trips
from fadiff.schedule.selection import Layers, kinds_of
from fadiff.workload import DIMS
from search.networks import GEMMINI, NETWORKS, mac, network

NETWORK, MACHINE = load_model("mobilenet_v1"), load_machine("gemmini-small")
FILE = """
mapping:
  - layers: pw2
    factors: {scratchpad: {K: 2}, cols: {K: {most: 8}}}
    extents: {accumulator: {P: {least: 2, most: 4}}}
    order: {DRAM: "K*(CRS)"}
    once: [W, O]
  - kinds: [depthwise, conv]
    but: dw1*
    unroll: {rows: C, cols: {never: G}}
fuse: [[dw2, pw2]]
split: [[conv1, dw1]]
outputs: {on_chip: dw3, off_chip: ["pw*"]}
groups: [{layers: [dw4, pw4], trips: {P: 2}}, {layers: [fc]}]
"""
SENTENCES = [
    "pw2: K at scratchpad is 2",
    "pw2: K at cols is at most 8",
    "pw2: accumulator holds 2 to 4 of P",
    "pw2: loops at DRAM nest as K*(CRS)",
    "pw2: weights are fetched once",
    "pw2: sums leave finished",
    "depthwise and conv layers but dw1*: rows unrolls only C",
    "depthwise and conv layers but dw1*: cols unrolls never G",
    "dw2 -> pw2 is fused",
    "conv1 -> dw1 is not fused",
    "the output of dw3 stays on chip",
    "the output of pw* leaves the chip",
    "dw4+pw4 is a group that shares P 2",
    "fc runs on its own",
]


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_a_file_reads_as_sentences(tmp_path, suffix):
    path = tmp_path / f"asked.{suffix}"
    path.write_text(FILE if suffix == "yaml" else json.dumps(yaml.safe_load(FILE)), encoding="utf-8")
    asked = load_constraints(path)
    assert sorted(map(str, asked.given)) == sorted(SENTENCES)
    assert asked == load_constraints(yaml.safe_load(FILE))
    asked.check(NETWORK, MACHINE)


def test_what_a_schedule_breaks_is_told_with_its_numbers():
    schedule = greedy(NETWORK, MACHINE)
    asked = Constraints(
        (
            Factor("DRAM", "K", 3, 3, Layers(("pw2",))),
            Extent("scratchpad", "C", most=1, layers=Layers(("pw2",))),
            Unroll("rows", never="C", layers=Layers(("pw2",))),
            Fuse(Layers(("dw2",)), Layers(("pw2",))),
            Together(("conv1", "dw1")),
        )
    )
    factors = dict(zip((node.name for node in MACHINE.nodes), schedule.mappings["pw2"].factors, strict=True))
    assert asked.broken(schedule) == [
        f"pw2: K at DRAM is 3: in pw2 DRAM has {factors['DRAM'].K} of K",
        f"pw2: scratchpad holds 1 of C: in pw2 scratchpad holds {NETWORK['pw2'].dims.C} of C",
        f"pw2: rows unrolls never C: in pw2 rows has {factors['rows'].C} of C",
        "dw2 -> pw2 is fused: dw2 -> pw2 is not fused",
        "conv1+dw1 is a group: conv1 -> dw1 is not fused",
        "conv1+dw1 is a group: the group of conv1 is conv1",
    ]


def test_an_order_says_which_loops_stand_outside_which():
    assert dict(zip(DIMS, parse_order("K*(CRS)"), strict=True)) == {
        **dict.fromkeys("K", 0),
        **dict.fromkeys("GNPQ", 1),
        **dict.fromkeys("CRS", 2),
    }
    assert sorted(parse_order("GNKCPQRS")) == list(range(8))


def test_a_schedule_keeps_itself():
    schedule = greedy(NETWORKS["residual"], GEMMINI)
    assert Constraints(kept(schedule)).broken(schedule) == []
    some = kept(schedule, ["a", "b"])
    assert [type(one) for one in some] == [Keep, Keep, Together, Together]


@pytest.mark.parametrize(
    ("layer", "kind"),
    [("K4 C2 P4 Q4 R3 S3", "conv"), ("K4 C2 P4 Q4", "pointwise"), ("N4 K4 C2", "matmul"), ("G8 P7 R3", "depthwise")],
)
def test_layers_are_of_kinds(layer, kind):
    assert kinds_of(mac("a", layer)) == {"mac", kind}


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"fuse": [["conv1", "dw"]]}, "'dw' is no layer of mobilenet_v1 (did you mean dw9?)"),
        ({"fuse": [["dw1", "conv1"]]}, "dw1 -> conv1 is fused: no layer among the second reads one among the first"),
        (
            {"mapping": [{"factors": {"scratchpat": {"K": 2}}}]},
            "'scratchpat' is no node of gemmini-small (did you mean scratchpad?): its nodes are DRAM, ",
        ),
        ({"mapping": [{"factors": {"cols": {"C": 2}}}]}, "all layers: C at cols is 2: cols takes only KG"),
        ({"mapping": [{"extents": {"cols": {"K": 2}}}]}, "'cols' is an axis of gemmini-small: its memories are DRAM, "),
        ({"mapping": [{"extents": {"DRAM": {"K": 2}}}]}, "all layers: DRAM holds 2 of K: DRAM holds everything: "),
        ({"mapping": [{"unroll": {"cols": "C"}}]}, "all layers: cols unrolls only C: cols takes only KG, not C"),
        ({"mapping": [{"unroll": {"DRAM": "C"}}]}, "all layers: DRAM unrolls only C: DRAM is a memory: the axes of "),
        ({"mapping": [{"kinds": "add", "once": "W"}]}, "mobilenet_v1 has no add layers"),
        ({"groups": [{"layers": ["conv1", "dv1"]}]}, "conv1+dv1 is a group: 'dv1' is no layer of mobilenet_v1 (did "),
    ],
)
def test_names_that_are_not_there_are_refused(asked, sentence):
    with pytest.raises(FadiffError) as error:
        load_constraints(asked).check(NETWORK, MACHINE)
    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"mapings": []}, "constraints: mapings: this key is unknown: remove it or correct its spelling"),
        (
            {"mapping": [{"factors": {"DRAM": {"K": "2"}}}]},
            "constraints: mapping.0.factors.DRAM.K: write a whole number, or {least: 2}, {most: 8} or both (it is '2')",
        ),
        (
            {"mapping": [{"factors": {"DRAM": {"K": 0}}}]},
            "constraints: mapping.0.factors.DRAM.K.least: input should be greater than 0 (it is 0)",
        ),
        ({"mapping": [{"factors": {"DRAM": {"J": 1}}}]}, "constraints: mapping.0: 'J' is no loop: use one of G, N, "),
        (
            {"mapping": [{"factors": {"DRAM": {"K": {"least": 4, "most": 2}}}}]},
            "constraints: mapping.0: K is at least 4 and at most 2: no number is",
        ),
        (
            {"mapping": [{"order": {"DRAM": "KC"}}]},
            "constraints: mapping.0: order 'KC' does not say where G, N, P, Q, ",
        ),
        ({"mapping": [{"order": {"DRAM": "K*K"}}]}, "constraints: mapping.0: order 'K*K' names a loop twice: "),
        ({"mapping": [{"order": {"DRAM": "*(K"}}]}, "constraints: mapping.0: order '*(K' has a bracket that is not "),
        (
            {"mapping": [{"kinds": "pool", "once": "W"}]},
            "constraints: mapping.0: kind 'pool' is unknown: use one of mac, conv, ",
        ),
        (
            {"mapping": [{"layers": "a", "factors": {}}]},
            "constraints: mapping.0: this asks for nothing: give it factors",
        ),
        (
            {"mapping": [{"unroll": {"cols": {"only": "K", "never": "C"}}}]},
            "constraints: mapping.0.unroll.cols: write dims that alone are unrolled, such as KC",
        ),
        ({"mapping": [{"unroll": {"cols": None}}]}, "constraints: mapping.0.unroll.cols: write dims that alone are "),
        ({"fuse": [["a"]]}, "constraints: fuse.0: list should have at least 2 items, not 1 (it is ['a'])"),
        ({"groups": [{"layers": ["a", "a"]}]}, "constraints: groups.0: group a+a lists a layer twice: "),
        ({"groups": [{"layers": ["a"], "loops": "PQ"}]}, "constraints: groups.0: group a nests loops 'PQ': give its "),
        ({"keep": [{"schedule": "none.json"}]}, "constraints: none.json: there is no such file: check the path"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(asked, sentence):
    with pytest.raises(FadiffError) as error:
        load_constraints(asked)
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


def test_a_file_keeps_layers_of_a_schedule_beside_it(tmp_path):
    schedule = greedy(NETWORKS["residual"], GEMMINI)
    save_schedule(tmp_path / "known.json", schedule)
    (tmp_path / "asked.yaml").write_text("keep: [{schedule: known.json, layers: [a, s]}]", encoding="utf-8")
    asked = load_constraints(tmp_path / "asked.yaml")
    assert list(map(str, asked.given)) == [
        "a is kept as it is",
        "a runs on its own",
        "s runs on its own",
    ]


def test_every_kind_is_written_as_a_file_says_it():
    told = {
        "mapping": [
            {"layers": ["c*"], "but": ["c9"], "factors": {"cols": {"K": 4}}},
            {"layers": "a", "kinds": "conv", "factors": {"DRAM": {"C": {"least": 2}}}},
            {"extents": {"scratchpad": {"K": {"least": 2, "most": 8}}}},
            {"unroll": {"cols": "K"}},
            {"unroll": {"cols": {"never": "KG"}}},
            {"order": {"DRAM": "K*(CRS)"}},
            {"once": ["W", "O"]},
        ],
        "fuse": [["a", ["b", "c"]]],
        "split": [["b", "*"]],
        "outputs": {"on_chip": "a", "off_chip": "b"},
        "groups": [{"layers": ["a", "b"]}, {"layers": ["c", "d"], "trips": {"P": 2}, "loops": "PN"}],
    }
    given = load_constraints(told).given
    assert tuple(one for each in given for one in load_constraints(written(each)).given) == given
    assert written(Factor("cols", "K", most=8)) == {"mapping": [{"factors": {"cols": {"K": {"least": 1, "most": 8}}}}]}
    both = Unroll("cols", only="KG", never="G")
    assert [str(one) for one in load_constraints(written(both)).given] == ["all layers: cols unrolls only K"]
    assert written(Fuse(Layers(kinds=("conv",)))) is None


def test_what_a_file_says_of_kept_layers_is_of_its_own_schedule():
    """With the loops of the first memory in the order of the schedule that they were kept from."""
    first = greedy(NETWORKS["residual"], GEMMINI)
    keeps = kept(first, ["a"])
    own = replace(
        first,
        mappings={
            name: replace(one, orders=(one.orders[0][::-1], *one.orders[1:])) for name, one in first.mappings.items()
        },
        asked=all_asked(keeps),
    )
    assert asked_of(own, "file.json") == Constraints(keeps)
    with pytest.raises(
        FadiffError, match=r"^constraints: keep: name the schedule that has these layers, and no order$"
    ):
        load_constraints({"keep": [{"layers": "a"}]})


def test_a_mapping_of_another_machine_or_tensor_is_refused():
    keeps = Constraints(kept(greedy(NETWORKS["residual"], GEMMINI), ["a"]))
    with pytest.raises(
        FadiffError,
        match=r"a is kept as it is: its mapping is for a machine of DRAM, .* and eyeriss has other nodes: start ",
    ):
        keeps.check(network(*NETWORKS["residual"].layers), load_machine("eyeriss"))
    with pytest.raises(FadiffError, match="tensor 'I' passes once or not: say W"):
        Once("I")
    with pytest.raises(FadiffError, match="order 'CK' does not say where"):
        Order("DRAM", "CK")
    assert str(Together(("a", "b"), Trips(P=2))) == "a+b is a group that shares P 2"
    assert (
        str(Together(("a", "b"), Trips(P=2, X=2), "XG")) == "a+b is a group that shares X 2, P 2 nested in this order"
    )
