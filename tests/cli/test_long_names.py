"""Names of any length are cut where they are printed, and stay whole in files and JSON."""

from pathlib import Path

import pytest

from cli.command import MACHINE, NETWORK, answer, fadiff, refusal, write

LONG = 20_000
NAMES = {"letters": "n" * LONG, "words": "a name " * (LONG // 7) + "end"}


@pytest.fixture(scope="module", params=NAMES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, a machine and a schedule in which everything has a long name."""
    place, name = tmp_path_factory.mktemp("long"), NAMES[request.param]
    network = NETWORK.replace("name: a,", f"name: 1{name},").replace("from: a,", f"from: 1{name},")
    write(place, "net.yaml", network.replace("name: tiny", f"name: 2{name}"))
    write(place, "chip.yaml", MACHINE.replace("name: chip", f"name: 3{name}"))
    command = ("optimize", place / "net.yaml", "-H", place / "chip.yaml", "-b", "5s", "-o", place / "tiny.json")
    assert_short(*command)
    return place


def assert_short(*command: object) -> None:
    result = fadiff(*command)
    assert result.exit_code == 0, result.output
    assert "…" in result.stdout
    assert sum(map(len, result.output.split())) < LONG / 2  # padding of cells left away


def test_tables_and_summaries_cut_long_names(folder: Path):
    for command in (
        ("show", folder / "net.yaml"),
        ("hardware", folder / "chip.yaml"),
        ("evaluate", folder / "tiny.json"),
        ("verify", folder / "tiny.json", "--layers"),
        ("bound", folder / "tiny.json", "-b", "1s"),
    ):
        assert_short(*command)


def test_errors_cut_long_names(folder: Path):
    text = (folder / "net.yaml").read_text(encoding="utf-8")
    wrong = write(folder, "wrong.yaml", text.replace("{K: 8, C: 8,", "{K: 8, C: 16,"))
    sentence = refusal("show", wrong)
    assert "8 channels arrive, G*C is 16" in sentence
    assert len(sentence) < LONG / 4
    assert len(refusal("show", "m" * LONG)) < LONG / 4


def test_documents_keep_names_whole(folder: Path):
    assert any(len(layer["name"]) > LONG - 10 for layer in answer("show", folder / "net.yaml")["layers"])
