"""Constraints on the command line: files, layers that are kept, refusals, and what is told of them."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from cli.command import MACHINE, NETWORK, answer, fadiff, refusal
from fadiff import load_constraints, load_schedule

ASKED = """\
mapping:
  - layers: b
    factors: {cols: {K: 4}}
split: [[b, s]]
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network, a machine, constraints, and a schedule that keeps them."""
    folder = tmp_path_factory.mktemp("asked")
    for name, text in (("tiny.yaml", NETWORK), ("chip.yaml", MACHINE), ("asked.yaml", ASKED)):
        (folder / name).write_text(text, encoding="utf-8")
    made = fadiff(*greedy(folder), "--constraints", folder / "asked.yaml", "-o", folder / "tiny.json")
    assert made.exit_code == 0, made.output
    return folder


def greedy(desk: Path) -> tuple[object, ...]:
    return "optimize", desk / "tiny.yaml", "-H", desk / "chip.yaml", "-m", "greedy"


def test_a_schedule_keeps_the_file_and_names_it(desk: Path):
    schedule = load_schedule(desk / "tiny.json")
    assert load_constraints(desk / "asked.yaml").broken(schedule) == []
    assert schedule.mappings["b"].factors[schedule.machine.number["cols"]].K == 4
    assert str(schedule.made_by["command"]).endswith(f"--constraints {desk / 'asked.yaml'}")


def test_the_summary_lists_what_was_asked_and_what_it_costs(desk: Path):
    result = fadiff(*greedy(desk), "--constraints", desk / "asked.yaml", "--price-constraints")
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "constraint costs at least" in lines
    assert any(line.startswith("Constrained: ") for line in lines)
    told = answer(*greedy(desk), "--constraints", desk / "asked.yaml", "--price-constraints")
    assert [one["constraint"] for one in told["constraints"]] == ["b: K at cols is 4", "b -> s is not fused"]
    assert told["cost_of_constraints"] == pytest.approx(max(one["cost"] for one in told["constraints"]))
    assert told["cost_of_constraints"] > 0
    assert "constraints" not in answer(*greedy(desk))


def data_of(page: Path):
    found = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return json.loads(found[1])["summary"]


def test_a_file_and_all_that_read_it_tell_what_was_asked_and_what_it_costs(desk: Path):
    page, file = desk / "priced.html", desk / "priced.json"
    asking = *greedy(desk), "--constraints", desk / "asked.yaml", "--price-constraints"
    told = answer(*asking, "-o", file, "--report", page)
    schedule = load_schedule(file)
    assert " --price-constraints " in str(schedule.made_by["command"])
    priced = schedule.asked
    assert priced is not None
    assert [{"constraint": one.constraint, "cost": one.cost} for one in priced.constraints] == told["constraints"]
    assert priced.cost == told["cost_of_constraints"] > 0
    costliest = max(priced.constraints, key=lambda one: one.cost or 0.0)
    sentence = f"{costliest.constraint} costs {costliest.cost:.1%}"
    shown = data_of(page)
    assert shown["asked"]["priced"]
    assert shown["asked"]["constraints"][0] == {"constraint": costliest.constraint, "cost": costliest.cost}
    assert sum(sentence in one for one in shown["sentences"]) == 1
    said = " ".join(fadiff("evaluate", file).output.split())
    assert sentence in said
    assert "b -> s is not fused" in said
    assert answer("evaluate", file)["asked"] == asdict(priced) | {"constraints": list(map(asdict, priced.constraints))}
    # A bound leaves it as it is.
    answer("bound", file, "-b", "1s", "-o", desk / "bounded.json")
    assert load_schedule(desk / "bounded.json").asked == priced


def test_what_is_not_priced_is_listed_without_prices(desk: Path):
    asked = load_schedule(desk / "tiny.json").asked
    assert asked is not None
    assert [(one.constraint, one.cost) for one in asked.constraints] == [
        ("b: K at cols is 4", None),
        ("b -> s is not fused", None),
    ]
    said = fadiff("evaluate", desk / "tiny.json").output
    assert "b: K at cols is 4" in said
    assert "costs" not in said
    fadiff(*greedy(desk), "-o", desk / "free.json")
    assert "asked" not in json.loads((desk / "free.json").read_text(encoding="utf-8"))
    assert answer("evaluate", desk / "free.json")["asked"] is None
    # From a schedule that was constrained, a search without constraints asks nothing.
    fadiff(*greedy(desk), "--start", desk / "tiny.json", "-o", desk / "free.json")
    assert load_schedule(desk / "free.json").asked is None


def test_a_bound_says_of_which_schedules_it_speaks(desk: Path):
    bounding = "bound", desk / "tiny.json", "-b", "1s", "--constraints", desk / "asked.yaml"
    told = answer(*bounding, "-o", desk / "proven.json")
    assert told["among"] == ["b: K at cols is 4", "b -> s is not fused"]
    assert {one["in_bound"] for one in told["constraints"]} == {"yes"}
    assert json.loads((desk / "proven.json").read_text(encoding="utf-8"))["bound"]["among"] == told["among"]
    assert load_schedule(desk / "proven.json").bound.among == tuple(told["among"])
    assert "no schedule that keeps the constraints is below" in fadiff("evaluate", desk / "proven.json").output
    (desk / "other.yaml").write_text("fuse: [[a, s]]", encoding="utf-8")
    told = refusal("bound", desk / "tiny.json", "--constraints", desk / "other.yaml")
    assert "tiny.json does not keep what is asked (a -> s is fused: a -> s is not fused): find a schedule" in told


def test_a_bound_is_of_schedules_that_keep_what_the_file_says_unless_it_is_of_all(desk: Path):
    file = desk / "partly.json"
    asking = *greedy(desk), "--constraints", desk / "asked.yaml", "--keep", desk / "tiny.json", "--layers", "a,b"
    answer(*asking, "-o", file)
    told = answer("bound", file, "-b", "1s")
    assert told["among"] == [one.constraint for one in load_schedule(file).asked.constraints]
    free = answer("bound", file, "-b", "1s", "--free")
    assert "among" not in free or free["among"] == []
    assert free["edp_uj_cycles"] < told["edp_uj_cycles"]
    data = json.loads(file.read_text(encoding="utf-8"))
    del data["asked"]["constraints"][0]["asks"]
    file.write_text(json.dumps(data), encoding="utf-8")
    said = " ".join(fadiff("bound", file, "-b", "1s").output.split())
    assert said.endswith("The file does not say them in full: give --constraints.")
    data["asked"]["constraints"][0]["asks"] = {"mapping": [{"layers": "b", "once": "I"}]}
    file.write_text(json.dumps(data), encoding="utf-8")
    told = refusal("bound", file)
    assert told.endswith("asked.constraints.0.asks: mapping.0.once.0: input should be 'W' or 'O' (it is 'I')")
    data["asked"]["constraints"][0]["asks"] = {"keep": [{"layers": "a", "order": "KC"}]}
    file.write_text(json.dumps(data), encoding="utf-8")
    assert "asked.constraints.0.asks: order 'KC' must hold each of " in refusal("bound", file)
    assert refusal("bound", file, "--free", "--keep", file) == (
        "--free asks for nothing: leave it away, or --constraints and --keep"
    )


def test_layers_are_kept(desk: Path):
    told = answer(*greedy(desk), "--keep", desk / "tiny.json", "--layers", "a, b", "-o", desk / "kept.json")
    kept, first = load_schedule(desk / "kept.json"), load_schedule(desk / "tiny.json")
    assert {name: one.factors for name, one in kept.mappings.items()} == {
        name: one.factors for name, one in first.mappings.items()
    }
    assert [one["constraint"] for one in told["constraints"]] == [
        "a is kept as it is",
        "b is kept as it is",
        "a runs on its own",
        "b runs on its own",
    ]


def test_bad_input_is_refused_in_one_sentence(desk: Path):
    (desk / "bad.yaml").write_text("mapping: [{layers: c, once: W}]", encoding="utf-8")
    assert refusal(*greedy(desk), "--constraints", desk / "bad.yaml") == "'c' is no layer of tiny"
    assert refusal(*greedy(desk), "--layers", "a").startswith("--layers says which layers of a schedule are kept: ")
    told = refusal(*greedy(desk), "--keep", desk / "tiny.json", "--layers", " ,")
    assert told.startswith("--layers ' ,' names no layer: write for example ")
    assert refusal(*greedy(desk), "--price-constraints").startswith("--price-constraints has nothing to price: ask for")
    (desk / "bad.yaml").write_text("mappings: [{layers: a, once: W}]", encoding="utf-8")
    told = refusal(*greedy(desk), "--constraints", desk / "bad.yaml")
    assert told.endswith("bad.yaml: mappings: this key is unknown: remove it or correct its spelling")
    told = refusal(*greedy(desk), "--constraints", desk / "tiny.yaml")
    assert told.endswith(
        "tiny.yaml: this is a network, not a file of constraints: fadiff show and fadiff optimize read it"
    )
    told = refusal("optimize", desk / "asked.yaml")
    assert "asked.yaml: this is a file of constraints, not a network: give it after --constraints" in told
    (desk / "bad.yaml").write_text("mapping: [{factors: {cols: {K: 4}, DRAM: {K: 3}}}]", encoding="utf-8")
    told = refusal(*greedy(desk), "--constraints", desk / "bad.yaml")
    assert told.startswith(
        "no schedule of tiny on chip keeps these together: all layers: K at cols is 4; all layers: K at"
    )
    told = refusal(*greedy(desk), "--constraints", desk / "asked.yaml", "-o", desk / "asked.yaml")
    assert told.endswith("asked.yaml: this would replace a file that is read: choose another place")
