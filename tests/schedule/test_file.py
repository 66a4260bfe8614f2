"""Schedule files: strict on load, the same bytes on every write, whole or not there at all."""

import doctest
import json
import os
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import FILES, FIRST, SECOND, second
from fadiff.cost.checked import load_schedule, save_schedule
from fadiff.cost.evaluate import evaluate
from fadiff.errors import FadiffError
from fadiff.files import FileError
from fadiff.schedule import Group, Mapping, Schedule, ScheduleError, Trips, asked
from fadiff.schedule.asked import Asked, AskedOne
from fadiff.schedule.file import write_schedule
from fadiff.workload import Dims

RESIDUAL = SECOND / "eyeriss_residual_fused.json"
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@pytest.fixture
def refusal(tmp_path):
    """What loading a changed priced file says."""

    def refuse(change, origin=RESIDUAL):
        data = json.loads(origin.read_text())
        path = tmp_path / "changed.json"
        changed = change(data)
        path.write_text(changed if isinstance(changed, str) else json.dumps(data))
        with pytest.raises(FileError) as refused:
            load_schedule(path)
        message = str(refused.value)
        assert message.startswith(f"{path}: ")
        assert "\n" not in message
        return message.removeprefix(f"{path}: ")

    return refuse


def edited(place, value=None):
    """A change of one value; with None, its removal."""

    def change(data):
        for step in place[:-1]:
            data = data[step]
        if value is None:
            del data[place[-1]]
        else:
            data[place[-1]] = value

    return change


# Edition 1.


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (("hardware", "rows"), "hardware.rows: this key is missing: add it"),
        (("hardware", "pj", "L2"), "hardware.pj.L2: this key is missing: add it"),
        (("mappings", "v"), "mappings leave out 'v': every mac layer needs one"),
        (
            ("mappings", "u", "order", "L1"),
            "mappings.u.order.accumulator: more than one loop runs there: give their order",
        ),
    ],
)
def test_a_file_of_edition_1_that_lacks_something_is_refused(refusal, place, told):
    assert refusal(edited(place), FIRST / "small" / "r1_resid.json") == told


def test_a_file_of_edition_1_knows_no_nodes(refusal):
    told = refusal(edited(("mappings", "u", "scratchpad"), {"K": 2}), FIRST / "small" / "r1_resid.json")
    assert told == "mappings.u.scratchpad: this key is unknown: remove it or correct its spelling"
    hardware = json.loads(RESIDUAL.read_text())["hardware"]
    assert refusal(edited(("hardware",), hardware), FIRST / "small" / "r1_resid.json").startswith("hardware.")


# Keys that are too many, too few, or not what they should be.


@pytest.mark.parametrize(
    "place",
    [
        (),
        ("workload",),
        ("workload", "layers", 1),
        ("workload", "layers", 0, "dims"),
        ("workload", "layers", 3, "inputs", 1),
        ("hardware",),
        ("hardware", "bits"),
        ("hardware", "nodes", 0),
        ("hardware", "nodes", 2),
        ("groups", 0),
        ("groups", 0, "trips"),
        ("mappings", "b", "glb"),
        ("cost",),
    ],
    ids=lambda place: ".".join(map(str, place)) or "top",
)
def test_an_unknown_key_is_refused_with_its_path(refusal, place):
    told = ".".join(map(str, (*place, "extra")))
    assert refusal(edited((*place, "extra"), 1)) == f"{told}: this key is unknown: remove it or correct its spelling"


@pytest.mark.parametrize(
    "place",
    [
        ("workload", "layers"),
        ("workload", "layers", 1, "inputs"),
        ("workload", "layers", 1, "inputs", 0, "from"),
        ("hardware", "nodes"),
        ("hardware", "bits", "sums"),
        ("hardware", "mac_pj"),
        ("hardware", "nodes", 0, "read_pj"),
        ("hardware", "nodes", 1, "keeps"),
        ("hardware", "nodes", 2, "size"),
        ("groups", 0, "layers"),
        ("mappings",),
        ("cost", "cycles"),
    ],
    ids=lambda place: ".".join(map(str, place)),
)
def test_a_missing_key_is_refused_with_its_path(refusal, place):
    assert refusal(edited(place)) == f"{'.'.join(map(str, place))}: this key is missing: add it"


def test_a_spilled_sum_is_as_wide_as_any_other_unless_the_file_says_so():
    assert "spilled" not in json.loads(RESIDUAL.read_text())["hardware"]["bits"]
    bits = load_schedule(RESIDUAL).machine.bits
    assert bits.spilled == bits.sums != 8
    assert second("gemmini_db_gemm_odd").machine.bits.spilled == 8


def test_a_machine_that_makes_no_sense_is_refused(refusal):
    assert refusal(edited(("hardware", "nodes", 0, "keeps"), "WI")) == (
        "hardware 'eyeriss-like': DRAM, the first memory, keeps 'WI': it must keep W, I and O"
    )
    assert refusal(edited(("hardware", "nodes", 1, "bytes"))) == (
        "hardware 'eyeriss-like': glb has no bytes: only the first memory is unbounded"
    )
    assert refusal(edited(("hardware", "nodes", 2, "axis"), "cols")) == (
        "hardware 'eyeriss-like': two nodes are named 'cols': node names must be unique"
    )


# Mappings for the machine that the file states.


def test_a_mapping_for_another_machines_nodes_is_refused(refusal):
    hardware = json.loads((SECOND / "gemmini_conv.json").read_text())["hardware"]
    told = refusal(edited(("hardware",), hardware))
    assert told == (
        "mappings.u: 'glb' is no node of gemmini-small: "
        "its nodes are DRAM, scratchpad, cols, accumulator, rows, registers"
    )


def test_an_order_for_what_is_no_memory_is_refused(refusal):
    told = refusal(edited(("mappings", "c", "order", "rows"), "GNPQKCRS"))
    assert told == "mappings.c: 'rows' is no memory of eyeriss-like: its memories are DRAM, glb, ispad, wspad, pspad"
    assert refusal(edited(("mappings", "c", "order"), "GNPQKCRS")).startswith("mappings.c.order: ")
    assert refusal(edited(("mappings", "c", "order", "glb"), 3)).startswith("mappings.c.order.glb: ")


def test_a_mapping_of_other_nodes_makes_no_schedule():
    theirs, mine = second("gemmini_conv"), second("eyeriss_conv")
    with pytest.raises(ScheduleError) as refused:
        Schedule(mine.workload, mine.machine, mine.groups, {"c": theirs.mappings["c"]})
    assert str(refused.value) == (
        "the mapping of 'c' is for a machine of 6 nodes and 4 memories; eyeriss-like has 7 and 5"
    )
    with pytest.raises(ScheduleError, match=r"^'scratchpad' is no node of eyeriss-like: its nodes are DRAM, glb, "):
        Mapping.of(mine.machine, {"scratchpad": Dims(K=2)})


def test_a_mac_layer_without_mapping_is_refused(refusal):
    assert refusal(edited(("mappings", "b"))) == "mappings leave out 'b': every mac layer needs one"


def test_a_mapping_of_an_add_layer_or_of_nothing_is_refused(refusal):
    for name in ("s", "nobody"):
        told = refusal(lambda data, name=name: data["mappings"].update({name: {}}))
        assert told == f"mappings name '{name}': only mac layers of the workload have one"


def test_an_order_may_be_left_out_only_where_one_loop_runs_or_no_memory_follows(refusal, tmp_path):
    told = refusal(edited(("mappings", "c", "order", "glb")))
    assert told == "mappings.c.order.glb: more than one loop runs there: give their order"
    data = json.loads(RESIDUAL.read_text())
    assert len(data["mappings"]["b"]["pspad"]) > 1
    del data["mappings"]["b"]["order"]["pspad"]
    (tmp_path / "short.json").write_text(json.dumps(data))
    assert evaluate(load_schedule(tmp_path / "short.json")).energy_pj == pytest.approx(data["cost"]["energy_pj"])


@pytest.mark.parametrize("order", ["", "GNPQKCR", "GNPQKCRR", "GNPQKCRSS", "gnpqkcrs", "GNPQKCRX"])
def test_an_order_that_is_no_permutation_is_refused(refusal, order):
    told = refusal(edited(("mappings", "c", "order", "glb"), order))
    assert told == f"mappings.c: order {order!r} must hold each of GNPQKCRS once, outer to inner"


@pytest.mark.parametrize("value", [0, -1, 1.5, 2.0, True, "2", [], {}, 10**400], ids=lambda value: str(value)[:8])
def test_a_factor_that_is_no_positive_integer_is_refused(refusal, value):
    assert refusal(edited(("mappings", "b", "wspad", "K"), value)).startswith("mappings.b.wspad")


def test_factors_that_are_none_are_refused(refusal):
    for factors in (3, "K2", [2], True):
        assert refusal(edited(("mappings", "b", "wspad"), factors)).startswith("mappings.b.wspad: ")


@pytest.mark.parametrize("name", ["value", "model_config", "dict", "orders", "L2", "ä ö"])
def test_a_node_may_have_any_name(name, tmp_path):
    data = RESIDUAL.read_text().replace('"glb"', json.dumps(name))
    (tmp_path / "renamed.json").write_text(data)
    schedule = load_schedule(tmp_path / "renamed.json")
    assert schedule.machine.nodes[1].name == name
    assert schedule.mappings == load_schedule(RESIDUAL).mappings
    save_schedule(tmp_path / "again.json", schedule)
    assert load_schedule(tmp_path / "again.json") == schedule


# Groups.


def test_layers_that_groups_leave_out_repeat_or_invent_are_refused(refusal):
    assert refusal(lambda data: data["groups"][0]["layers"].remove("b")).startswith("groups leave out 'b'")
    assert refusal(lambda data: data["groups"][0]["layers"].append("b")).startswith("groups list layer 'b' twice")
    assert refusal(lambda data: data["groups"][0]["layers"].append("x")).startswith("groups name 'x', which is not")
    assert refusal(lambda data: data["groups"].append({"layers": []})).startswith("a group has no layers")


def test_loops_that_name_no_shared_loop_are_refused(refusal):
    assert "loops is 'NK'" in refusal(edited(("groups", 0, "loops"), "NK"))
    assert "loops is 'NN'" in refusal(edited(("groups", 0, "loops"), "NN"))
    told = refusal(edited(("groups", 0, "trips"), {"X": 2}))
    assert told == "group u+b+c+s: it shares X but loops 'GNPQ' does not say where X stands"


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2", 10**400], ids=lambda value: str(value)[:8])
def test_trips_that_are_no_positive_integer_are_refused(refusal, value):
    assert refusal(edited(("groups", 0, "trips", "P"), value)).startswith("groups.0.trips.P: ")


def test_a_group_without_trips_is_no_value():
    with pytest.raises(ScheduleError, match="each is at least 1"):
        Group(("a",), Trips(P=0))


# The cost.


@pytest.mark.parametrize("key", ["energy_pj", "cycles", "edp_uj_cycles"])
def test_a_wrong_cost_is_refused(refusal, key):
    def change(data):
        data["cost"][key] *= 1 + 2e-6

    told = refusal(change)
    assert told.startswith(f"cost.{key}: the file states ")
    assert told.endswith(": remove the cost to have it computed, or find out what changed")


@pytest.mark.parametrize("key", ["energy_pj", "cycles", "edp_uj_cycles"])
def test_a_cost_within_a_millionth_is_taken(tmp_path, key):
    data = json.loads(RESIDUAL.read_text())
    data["cost"][key] *= 1 + 5e-7
    (tmp_path / "close.json").write_text(json.dumps(data))
    assert load_schedule(tmp_path / "close.json") == load_schedule(RESIDUAL)


def test_a_file_may_leave_its_cost_to_the_model(tmp_path):
    data = json.loads(RESIDUAL.read_text())
    del data["cost"]
    (tmp_path / "free.json").write_text(json.dumps(data))
    assert load_schedule(tmp_path / "free.json") == load_schedule(RESIDUAL)


# What was asked of it.

UNPRICED = Asked((AskedOne("a: K at cols is 4"), AskedOne("a -> b is fused")))
PRICED = Asked((AskedOne("a: K at cols is 4", 0.25), AskedOne("a -> b is fused", 0.0)), 0.5, "energy")


def test_examples_in_docstrings_run():
    failed, tried = doctest.testmod(asked)
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize("told", [UNPRICED, PRICED])
def test_a_file_keeps_what_was_asked_of_its_schedule(tmp_path, told):
    free, path, again = tmp_path / "free.json", tmp_path / "asked.json", tmp_path / "again.json"
    save_schedule(free, load_schedule(RESIDUAL))
    save_schedule(path, replace(load_schedule(RESIDUAL), asked=told))
    loaded = load_schedule(path)
    assert loaded.asked == told
    save_schedule(again, loaded)
    assert again.read_bytes() == path.read_bytes()
    written = json.loads(path.read_text())
    listed = written.pop("asked")
    assert written == json.loads(free.read_text())
    assert [one["constraint"] for one in listed["constraints"]] == ["a: K at cols is 4", "a -> b is fused"]
    assert ("cost" in listed, "objective" in listed) == (told is PRICED, told is PRICED)
    save_schedule(again, replace(loaded, asked=None))
    assert again.read_bytes() == free.read_bytes()


ONE = {"constraint": "a -> b is fused"}


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"constraints": []}, "asked.constraints: list should have at least 1 item"),
        ({"constraints": ["a -> b is fused"]}, "asked.constraints.0: "),
        ({"constraints": [{"constraint": ""}]}, "asked.constraints.0.constraint: string should have at least 1 char"),
        ({"constraints": [ONE], "price": 1.0}, "asked.price: this key is unknown: remove it or correct its spelling"),
        ({"constraints": [ONE | {"cost": -1.0}], "cost": 0.5}, "asked.constraints.0.cost: input should be greater"),
        (
            {"constraints": [ONE], "cost": 0.5},
            "asked.constraints.0: it has no cost, but all together have: give the cost of all and of each, or of none",
        ),
        (
            {"constraints": [ONE, ONE | {"cost": 0.5}]},
            "asked.constraints.1: it has a cost, but all together have none: give the cost of all and of each, or of",
        ),
    ],
)
def test_what_was_asked_is_refused_where_it_says_nothing(refusal, stated, told):
    assert refusal(edited(("asked",), stated)).startswith(told)


def test_what_is_written_without_a_check_is_checked_on_load(tmp_path):
    write_schedule(tmp_path / "lie.json", second("os_conv"), evaluate(second("os_flatten")).stated())
    with pytest.raises(FileError, match="the file states"):
        load_schedule(tmp_path / "lie.json")


# Text that is no schedule.


def test_numbers_too_long_to_print_are_refused(refusal):
    def factors(data):
        data["mappings"]["u"]["glb"] = {"Q": 10**4000}

    assert refusal(factors) == "mappings.u.glb: a factor is larger than any loop: it is at most 2147483647"
    assert refusal(edited(("groups", 0, "trips", "N"), 10**4000)).startswith("groups.0.trips.N: ")
    assert refusal(edited(("workload", "layers", 0, "dims", "N"), 10**4000)).startswith("layer 'u': ")
    assert refusal(edited(("hardware", "nodes", 1, "bytes"), 10**4000)).startswith("hardware.nodes.1.bytes: ")


@pytest.mark.parametrize("name", ["fadiff-schedule/3", "", 2, [1]])
def test_another_format_is_refused(refusal, name):
    told = "this version reads fadiff-schedule/2 and fadiff-schedule/1"
    assert refusal(edited(("format",), name)) == f"the format is {name!r}: {told}"
    assert refusal(edited(("format",))) == f"no format is stated: {told}"


def test_edition_1_has_other_keys(refusal):
    assert refusal(edited(("format",), "fadiff-schedule/1"))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(refusal, number):
    def change(data):
        data["cost"]["cycles"] = "here"
        return json.dumps(data).replace('"here"', number)

    assert refusal(change)


def test_a_key_given_twice_is_refused(refusal):
    def change(data):
        return json.dumps(data).replace('"pspad": {"P": 5}', '"pspad": {"P": 5}, "pspad": {"P": 5}', 1)

    assert refusal(change) == "the JSON is not valid (key 'pspad' is given twice): correct it"


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_file_cut_short_is_refused(refusal, share):
    def change(data):
        text = json.dumps(data)
        return text[: int(len(text) * share)]

    assert refusal(change)


def test_text_that_is_no_schedule_is_refused(refusal):
    assert refusal(lambda _: "[]") == "the top of the file must be a mapping of keys to values"
    assert refusal(lambda _: "hello") == "the top of the file must be a mapping of keys to values"
    assert refusal(lambda _: "{" * 100_000)
    assert refusal(lambda _: "[" * 100_000)


def test_a_path_without_a_file_is_refused(tmp_path):
    with pytest.raises(FileError, match="there is no such file"):
        load_schedule(tmp_path / "nothing.json")
    with pytest.raises(FileError, match="this is a folder"):
        load_schedule(tmp_path)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(FileError, match="is not UTF-8 text"):
        load_schedule(tmp_path / "binary.json")


# Files that cannot be written.


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    for place in (tmp_path / "missing" / "schedule.json", tmp_path):
        with pytest.raises(FileError, match="it cannot be written"):
            save_schedule(place, second("os_conv"))
        assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_halfway_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "schedule.json"
    save_schedule(path, second("os_conv"))
    before = path.read_bytes()

    def full_disk(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(FileError, match="No space left on device"):
        save_schedule(path, second("os_flatten"))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_takes_the_place_of_the_old_one(tmp_path):
    path = tmp_path / "schedule.json"
    save_schedule(path, second("os_conv"))
    save_schedule(path, second("tpu_flash"))
    assert load_schedule(path) == second("tpu_flash")
    assert list(tmp_path.iterdir()) == [path]


# Files with something random in them.


def _places(value, path=()):
    """Paths to every value inside a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _places(inner, (*path, key))


ORIGINALS = [RESIDUAL, SECOND / "tpu_flash.json", SECOND / "os_flatten.json", FIRST / "small" / "a3_GNX.json"]
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 70)
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["GNPQKCRS", "GXN", "u", "s", "mac", "add", "weight", "softmax", "glb", "order", "WIO"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.sampled_from([*"GNKCPQRSX", "memory", "axis", "glb"]), inner)
    ),
    max_leaves=4,
)
# Every example overwrites the one file of the test's folder.
one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def load_or_be_refused(path):
    with suppress(FadiffError):
        load_schedule(path)


@settings(one_folder, max_examples=200)
@given(data=st.data())
def test_a_mutated_file_loads_or_is_refused_and_nothing_else(tmp_path, data):
    changed = json.loads(data.draw(st.sampled_from(ORIGINALS)).read_text())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from([place for place in _places(changed) if place]))
        inside = changed
        for step in place[:-1]:
            inside = inside[step]
        match data.draw(st.sampled_from(["delete", "replace", "insert", "nudge"])):
            case "delete":
                del inside[place[-1]]
            case "replace":
                inside[place[-1]] = data.draw(anything)
            case "insert" if isinstance(inside, dict):
                inside[data.draw(st.sampled_from("GNKCPQRSX") | st.text(max_size=5))] = data.draw(anything)
            case "nudge" if isinstance(inside[place[-1]], int | float):
                inside[place[-1]] += data.draw(st.sampled_from([-1, 1, 0.5, 10**20, -(10**20)]))
            case _:
                pass
    path = tmp_path / "mutated.json"
    path.write_text(json.dumps(changed), encoding="utf-8", errors="surrogatepass")
    load_or_be_refused(path)


@settings(one_folder, max_examples=100)
@given(origin=st.sampled_from(ORIGINALS), data=st.data())
def test_a_file_with_other_text_in_it_loads_or_is_refused_and_nothing_else(tmp_path, origin, data):
    original = origin.read_bytes()
    start = data.draw(st.integers(0, len(original)))
    end = data.draw(st.integers(start, min(len(original), start + 20)) | st.just(len(original)))
    path = tmp_path / "mutated.json"
    path.write_bytes(original[:start] + data.draw(st.binary(max_size=8)) + original[end:])
    load_or_be_refused(path)
