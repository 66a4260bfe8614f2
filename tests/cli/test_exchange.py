"""`export` and `import-mapping`: folders that are whole or not there, and schedules that come back."""

import json
import os
from pathlib import Path

import pytest
import yaml

from cli.command import answer, fadiff, refusal, schedule_file
from fadiff.files import FileError, write_folder


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """A folder with a network, a machine and a schedule without fusion."""
    folder = tmp_path_factory.mktemp("exchange")
    schedule_file(folder)
    return folder


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_schedule_goes_to_timeloop_and_comes_back_with_its_cost(desk: Path, tmp_path: Path):
    result = fadiff("export", desk / "tiny.json", "--to", "timeloop", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    files = [f"layers/{layer}/{name}.yaml" for layer in "ab" for name in ("mapping", "problem")]
    assert listed(tmp_path / "out") == ["README.md", "architecture.yaml", "energies.yaml", *files]
    assert "an add layer has no mapping: it is left out" in " ".join(result.stdout.split())
    assert "it runs 2 times: the files are those of one run" in " ".join(result.stdout.split())
    again = tmp_path / "again.json"
    read = fadiff(
        "import-mapping", tmp_path / "out", "--model", desk / "net.yaml", "-H", desk / "chip.yaml", "-o", again
    )
    assert read.exit_code == 0, read.output
    before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (desk / "tiny.json", again))
    assert after["mappings"] == before["mappings"]
    assert after["cost"] == before["cost"]
    assert after["made_by"] == {"method": "import-mapping", "from": "timeloop"}
    assert answer("verify", again)["holds"]


def test_a_schedule_goes_to_zigzag(desk: Path, tmp_path: Path):
    (tmp_path / "out").mkdir()  # an empty folder is as good as none
    result = fadiff("export", desk / "tiny.json", "--to", "zigzag", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    files = [f"layers/{layer}/{name}.yaml" for layer in "ab" for name in ("mapping", "workload")]
    assert listed(tmp_path / "out") == ["README.md", "accelerator.yaml", *files]


def test_other_programs_read_what_is_printed(desk: Path, tmp_path: Path):
    printed = answer("export", desk / "tiny.json", "--to", "timeloop", "-o", tmp_path / "out")
    assert sorted(printed["files"]) == listed(tmp_path / "out")
    assert {"layer": "s", "text": "an add layer has no mapping: it is left out", "lost": True} in printed["remarks"]
    place = ("--model", desk / "net.yaml", "-H", desk / "chip.yaml", "-o", tmp_path / "again.json")
    again = answer("import-mapping", tmp_path / "out", *place)
    assert again["totals"] == answer("evaluate", desk / "tiny.json")["totals"]


def test_strict_refuses_what_cannot_be_told_and_writes_nothing(desk: Path, tmp_path: Path):
    sentence = refusal("export", desk / "tiny.json", "--to", "timeloop", "-o", tmp_path / "out", "--strict")
    assert "not all of it can be told to timeloop: a: of 8x8 outputs 4x4 are stored" in sentence
    assert "; and 1 more; without --strict it is left out" in sentence
    assert listed(tmp_path) == []


def test_exporting_twice_writes_the_same_bytes(desk: Path, tmp_path: Path):
    for name in ("one", "two"):
        assert fadiff("export", desk / "tiny.json", "--to", "timeloop", "-o", tmp_path / name).exit_code == 0
    for path in listed(tmp_path / "one"):
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--to", "maestro", "-o", "out"), "'maestro' is no tool that schedules are written for"),
        (("--to", "timeloop", "-o", "not/there"), "its folder not does not exist: create it"),
        (("--to", "timeloop", "-o", "taken"), "it is there already, and not an empty folder"),
        (("--to", "timeloop", "-o", "full"), "it is there already, and not an empty folder"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_written(
    arguments: tuple[str, ...], told: str, desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine", encoding="utf-8")
    assert told in refusal("export", desk / "tiny.json", *arguments)
    assert listed(tmp_path) == ["full/file", "taken"]


def test_a_mapping_that_breaks_a_rule_is_refused_with_the_rule(desk: Path, tmp_path: Path):
    out, again = tmp_path / "out", tmp_path / "again.json"
    assert fadiff("export", desk / "tiny.json", "--to", "timeloop", "-o", out).exit_code == 0
    path = out / "layers" / "a" / "mapping.yaml"
    told = yaml.safe_load(path.read_text(encoding="utf-8"))
    cols, rows = (entry for entry in told["mapping"] if entry["type"] == "spatial")
    cols["factors"], rows["factors"] = cols["factors"].replace("K=8", "K=1"), rows["factors"].replace("K=1", "K=8")
    path.write_text(yaml.safe_dump(told), encoding="utf-8")
    sentence = refusal("import-mapping", out, "--model", desk / "net.yaml", "-H", desk / "chip.yaml", "-o", again)
    assert "spatial: a: K unrolls 8 times over rows, which takes C" in sentence
    assert not again.exists()


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path):
    with pytest.raises(FileError, match="it cannot be written"):
        write_folder(tmp_path / "out", {"fine.txt": "yes", "not\0fine.txt": "no"})
    assert os.listdir(tmp_path) == []
    write_folder(tmp_path / "out", {"a/b.txt": "yes"})
    assert (tmp_path / "out" / "a" / "b.txt").read_text(encoding="utf-8") == "yes"
    assert os.listdir(tmp_path) == ["out"]
