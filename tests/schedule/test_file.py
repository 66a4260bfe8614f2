"""Schedule files: strict on load, the same bytes on every write, whole or not there at all."""

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fadiff.cost import evaluate, load_schedule, save_schedule
from fadiff.errors import FadiffError
from fadiff.files import FileError
from fadiff.schedule.file import read_schedule, schedule_to_json, write_schedule

FOLDER = Path(__file__).parent.parent / "data" / "schedules"
FILES = sorted(FOLDER.rglob("*.json"))
SMALL = FOLDER / "small"
GOLDEN = Path(__file__).parent / "golden" / "r1_resid.json"


@pytest.fixture
def refusal(tmp_path):
    """What loading a changed reference file says."""

    def refuse(change, name="r1_resid"):
        data = json.loads((SMALL / f"{name}.json").read_text())
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


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ((), "extra"),
        (("workload",), "workload.extra"),
        (("workload", "layers", 1), "workload.layers.1.extra"),
        (("workload", "layers", 0, "dims"), "workload.layers.0.dims.extra"),
        (("workload", "layers", 2, "inputs", 1), "workload.layers.2.inputs.1.extra"),
        (("hardware",), "hardware.extra"),
        (("hardware", "pj"), "hardware.pj.extra"),
        (("hardware", "words_per_cycle"), "hardware.words_per_cycle.extra"),
        (("hardware", "spatial"), "hardware.spatial.extra"),
        (("groups", 0), "groups.0.extra"),
        (("groups", 0, "trips"), "groups.0.trips.extra"),
        (("mappings", "v"), "mappings.v.extra"),
        (("mappings", "v", "L2"), "mappings.v.L2.extra"),
        (("mappings", "v", "order"), "mappings.v.order.extra"),
        (("cost",), "cost.extra"),
    ],
)
def test_an_unknown_key_is_refused_with_its_path(refusal, place, told):
    def change(data):
        for step in place:
            data = data[step]
        data["extra"] = 1

    assert refusal(change) == f"{told}: this key is unknown: remove it or correct its spelling"


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (("format",), "format"),
        (("workload", "layers"), "workload.layers"),
        (("workload", "layers", 1, "inputs"), "workload.layers.1.inputs"),
        (("workload", "layers", 1, "inputs", 0, "from"), "workload.layers.1.inputs.0.from"),
        (("hardware", "pj", "L2"), "hardware.pj.L2"),
        (("hardware", "rows"), "hardware.rows"),
        (("groups", 0, "layers"), "groups.0.layers"),
        (("mappings",), "mappings"),
        (("cost", "cycles"), "cost.cycles"),
    ],
)
def test_a_missing_key_is_refused_with_its_path(refusal, place, told):
    def change(data):
        for step in place[:-1]:
            data = data[step]
        del data[place[-1]]

    assert refusal(change) == f"{told}: this key is missing: add it"


@pytest.mark.parametrize("key", ["energy_pj", "cycles", "edp_uj_cycles"])
def test_a_wrong_cost_is_refused(refusal, key):
    def change(data):
        data["cost"][key] *= 1 + 2e-6

    assert refusal(change).startswith(f"cost.{key}: the file states ")


@pytest.mark.parametrize("key", ["energy_pj", "cycles", "edp_uj_cycles"])
def test_a_cost_within_a_millionth_is_taken(tmp_path, key):
    data = json.loads((SMALL / "r1_resid.json").read_text())
    data["cost"][key] *= 1 + 5e-7
    (tmp_path / "close.json").write_text(json.dumps(data))
    assert load_schedule(tmp_path / "close.json") == load_schedule(SMALL / "r1_resid.json")


def test_a_file_may_leave_its_cost_to_the_model(tmp_path):
    data = json.loads((SMALL / "r1_resid.json").read_text())
    del data["cost"]
    (tmp_path / "free.json").write_text(json.dumps(data))
    assert load_schedule(tmp_path / "free.json") == load_schedule(SMALL / "r1_resid.json")


def test_a_mac_layer_without_mapping_is_refused(refusal):
    assert (
        refusal(lambda data: data["mappings"].pop("v") and None) == "mappings leave out 'v': every mac layer needs one"
    )


def test_a_mapping_of_an_add_layer_or_of_nothing_is_refused(refusal):
    for name in ("s", "nobody"):
        told = refusal(lambda data, name=name: data["mappings"].update({name: {}}))
        assert told == f"mappings name '{name}': only mac layers of the workload have one"


def test_an_order_may_be_left_out_only_where_one_loop_runs(refusal, tmp_path):
    def change(data):
        del data["mappings"]["u"]["order"]["L1"]

    assert refusal(change) == "mappings.u.order.L1: more than one loop runs at L1: give their order"
    data = json.loads((SMALL / "r1_resid.json").read_text())
    del data["mappings"]["u"]["order"]["L3"]
    del data["mappings"]["u"]["order"]["L2"]
    (tmp_path / "short.json").write_text(json.dumps(data))
    assert evaluate(load_schedule(tmp_path / "short.json")).energy_pj == data["cost"]["energy_pj"]


@pytest.mark.parametrize("order", ["", "GNPQKCR", "GNPQKCRR", "GNPQKCRSS", "gnpqkcrs", "GNPQKCRX"])
def test_an_order_that_is_no_permutation_is_refused(refusal, order):
    def change(data):
        data["mappings"]["u"]["order"]["L1"] = order

    told = refusal(change)
    assert told == f"mappings.u: order L1 is {order!r}: it must hold each of GNPQKCRS once, outer to inner"


def test_layers_that_groups_leave_out_repeat_or_invent_are_refused(refusal):
    assert refusal(lambda data: data["groups"][0]["layers"].remove("v")).startswith("groups leave out 'v'")
    assert refusal(lambda data: data["groups"][0]["layers"].append("v")).startswith("groups list layer 'v' twice")
    assert refusal(lambda data: data["groups"][0]["layers"].append("x")).startswith("groups name 'x', which is not")
    assert refusal(lambda data: data["groups"].append({"layers": []})).startswith("a group has no layers")


def test_loops_that_name_no_shared_loop_are_refused(refusal):
    assert "loops is 'NK'" in refusal(lambda data: data["groups"][0].update(loops="NK"))
    assert "loops is 'NN'" in refusal(lambda data: data["groups"][0].update(loops="NN"))
    told = refusal(lambda data: data["groups"][0].update(trips={"X": 2}))
    assert told == "group u+v+s: it shares X but loops 'GNPQ' does not say where X stands"


@pytest.mark.parametrize("value", [0, -1, 1.5, 2.0, True, "2", None, [], {}, 10**400], ids=lambda value: str(value)[:8])
def test_a_factor_that_is_no_positive_integer_is_refused(refusal, value):
    def change(data):
        data["mappings"]["u"]["L1"]["K"] = value

    assert refusal(change).startswith("mappings.u.L1")


def test_numbers_too_long_to_print_are_refused(refusal):
    def factors(data):
        for level in ("L1", "L2", "L3"):
            data["mappings"]["u"][level]["K"] = 10**4000

    assert refusal(factors).startswith("mappings.u.L3: a factor is larger than any loop")
    assert refusal(lambda data: data["groups"][0]["trips"].update(N=10**4000)).startswith("groups.0.trips.N: ")
    assert refusal(lambda data: data["workload"]["layers"][0]["dims"].update(N=10**4000)).startswith("layer 'u': ")


def test_another_format_is_refused(refusal):
    assert refusal(lambda data: data.update(format="fadiff-schedule/2")).startswith("format: ")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(refusal, number):
    def change(data):
        data["cost"]["cycles"] = "here"
        return json.dumps(data).replace('"here"', number)

    assert refusal(change)


def test_a_key_given_twice_is_refused(refusal):
    def change(data):
        return json.dumps(data).replace('"L2": {}', '"L2": {}, "L2": {"K": 2}', 1)

    assert refusal(change) == "the JSON is not valid (key 'L2' is given twice): correct it"


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


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_schedule_survives_writing_and_reading(path, tmp_path):
    schedule = load_schedule(path)
    save_schedule(tmp_path / "again.json", schedule)
    again = load_schedule(tmp_path / "again.json")
    assert again == schedule
    assert evaluate(again).energy_pj == evaluate(schedule).energy_pj


def test_the_same_schedule_is_always_the_same_bytes(tmp_path):
    for path in FILES:
        save_schedule(tmp_path / "first.json", load_schedule(path))
        save_schedule(tmp_path / "second.json", load_schedule(tmp_path / "first.json"))
        assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()


def test_a_written_file_is_the_plain_json_of_its_schedule(tmp_path):
    schedule = load_schedule(SMALL / "a3_GNX.json")
    evaluation = save_schedule(tmp_path / "a3.json", schedule)
    assert json.loads((tmp_path / "a3.json").read_text()) == schedule_to_json(schedule, evaluation.stated())


def test_the_written_form_is_the_golden_one(tmp_path):
    """One line per layer, group and mapping. On purpose changed? Write the golden file anew and read the difference."""
    save_schedule(tmp_path / "r1.json", load_schedule(SMALL / "r1_resid.json"))
    assert (tmp_path / "r1.json").read_text() == GOLDEN.read_text()


def test_save_returns_the_evaluation_it_states(tmp_path):
    schedule = load_schedule(SMALL / "h1_rows.json")
    evaluation = save_schedule(tmp_path / "h1.json", schedule)
    assert read_schedule(tmp_path / "h1.json")[1] == evaluation.stated()


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    schedule = load_schedule(SMALL / "h1_rows.json")
    for place in (tmp_path / "missing" / "schedule.json", tmp_path):
        with pytest.raises(FileError, match="it cannot be written"):
            save_schedule(place, schedule)
        assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_halfway_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "schedule.json"
    save_schedule(path, load_schedule(SMALL / "h1_rows.json"))
    before = path.read_bytes()

    def full_disk(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(FileError, match="No space left on device"):
        save_schedule(path, load_schedule(SMALL / "h3_2d.json"))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_takes_the_place_of_the_old_one(tmp_path):
    path = tmp_path / "schedule.json"
    save_schedule(path, load_schedule(SMALL / "a2_kept.json"))
    save_schedule(path, load_schedule(SMALL / "g1_ws.json"))
    assert load_schedule(path) == load_schedule(SMALL / "g1_ws.json")
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_written_without_a_check_is_checked_on_load(tmp_path):
    schedule = load_schedule(SMALL / "h1_rows.json")
    stated = evaluate(load_schedule(SMALL / "h3_2d.json")).stated()
    write_schedule(tmp_path / "lie.json", schedule, stated)
    with pytest.raises(FileError, match="the file states"):
        load_schedule(tmp_path / "lie.json")


def _places(value, path=()):
    """Paths to every value inside a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _places(inner, (*path, key))


ORIGINALS = [json.loads((SMALL / f"{name}.json").read_text()) for name in ("r1_resid", "a3_GNX", "h3_2d", "w1_kT")]
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 70)
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["GNPQKCRS", "GXN", "u", "v", "mac", "add", "weight", "softmax", "fadiff-schedule/1"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.sampled_from("GNKCPQRSX"), inner)
    ),
    max_leaves=4,
)
# Every example overwrites the one file of the test's folder.
one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def load_or_be_refused(path):
    with suppress(FadiffError):
        load_schedule(path)


@settings(one_folder, max_examples=400)
@given(data=st.data())
def test_a_mutated_file_loads_or_is_refused_and_nothing_else(tmp_path, data):
    changed = json.loads(json.dumps(data.draw(st.sampled_from(ORIGINALS))))
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


@settings(one_folder, max_examples=200)
@given(name=st.sampled_from(["r1_resid", "a3_GNX"]), data=st.data())
def test_a_file_with_other_text_in_it_loads_or_is_refused_and_nothing_else(tmp_path, name, data):
    original = (SMALL / f"{name}.json").read_bytes()
    start = data.draw(st.integers(0, len(original)))
    end = data.draw(st.integers(start, min(len(original), start + 20)) | st.just(len(original)))
    path = tmp_path / "mutated.json"
    path.write_bytes(original[:start] + data.draw(st.binary(max_size=10)) + original[end:])
    load_or_be_refused(path)
