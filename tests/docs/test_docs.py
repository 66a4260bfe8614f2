"""What the documentation says is so: its commands run, its examples hold, its links lead somewhere."""

import doctest
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import figures, results
from docs.pages import PAGES, ROOT, Command, anchors, blocks, commands, links, prose, spans, table, text_of
from fadiff import Machine, Schedule, Workload, evaluate, load_schedule
from fadiff.cli import app
from fadiff.hardware import pack_machine
from fadiff.hardware.gemmini import GemminiFileModel
from fadiff.hardware.machine_json import AxisModel
from fadiff.hardware.nodes_file import MemoryFileModel, NodesFileModel
from fadiff.reproduce.experiment import with_section
from fadiff.schedule.capacity import needs
from fadiff.schedule.rules import RULES, Examined
from fadiff.search.driver import Incumbent, OutOfTimeError, Settings, Status
from fadiff.search.evolutionary.genetic import GeneticSettings
from fadiff.search.layerwise import LayerwiseSettings
from fadiff.search.optimize import METHODS

MODEL, PAPER, FILES = (ROOT / "docs" / f"{name}.md" for name in ("model", "paper", "files"))
FOLDERS = ("src", "tests", "docs", "data", "benchmarks")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@cache
def found_before() -> tuple[Schedule, ...]:
    """Results of searches that pages show: what `fadiff optimize` found, and the best on its way that fuses nothing."""
    paths = [path for folder in ("img", "schedules") for path in sorted((ROOT / "docs" / folder).glob("*.json"))]
    return tuple(map(load_schedule, paths))


def recall(workload: Workload, machine: Machine, settings: Settings, incumbent: Incumbent) -> Iterator[Status]:
    """In place of a search, which takes too long for a test: what it found before, or else the end of the budget."""
    known = [schedule for schedule in found_before() if (schedule.workload, schedule.machine) == (workload, machine)]
    if not known:
        raise OutOfTimeError
    for schedule in known:
        incumbent.offer(schedule)
    return iter(())


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, from which the repository's own data can be seen; searches only recall."""
    for folder in ("tests", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    for method in METHODS.keys() - {"greedy"}:
        monkeypatch.setitem(METHODS, method, recall)
    monkeypatch.setattr(import_module("fadiff.search.pareto"), "_method", lambda *given, **_: recall(*given))
    for module in ("fadiff.search.solver.network_bound", "fadiff.search.pareto"):
        monkeypatch.setattr(import_module(module), "PROVEN_GAP", 10.0)
    return tmp_path


def write_files(page: Path, folder: Path) -> None:
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def run(command: Command) -> str:
    """Run `fadiff ...`, with its output to a file where the command says so; it fails where the page shows errors."""
    words, target = command.words[1:], None
    if ">" in words:
        words, (_, target) = words[: words.index(">")], words[words.index(">") :]
    result = CliRunner().invoke(app, words)
    refused = any(line.startswith("error: ") for line in command.shown)
    assert result.exit_code == (2 if refused else 0), f"{command.line}: {result.output}"
    if target is not None:
        Path(target).write_text(result.stdout, encoding="utf-8")
    return result.output


def squeezed(line: str) -> str:
    return " ".join(line.split())


@each_page
def test_commands_run_and_print_what_the_page_shows(page: Path, desk: Path):
    write_files(page, desk)
    for command in commands(page):
        if command.words[0] != "fadiff":
            continue
        printed = {squeezed(line) for line in run(command).splitlines()}
        for line in command.shown:
            assert squeezed(line) in printed, f"{command.line} does not print: {line}"


@each_page
def test_other_commands_name_what_there_is(page: Path):
    targets = set(re.findall(r"^(\w+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    for command in commands(page):
        match command.words:
            case ["make", target, *_]:
                assert target in targets, command.line
            case ["python", "-m", module, *_] if module.startswith("benchmarks."):
                assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), command.line
            case _:
                pass


@each_page
def test_python_examples_run(page: Path, desk: Path):
    write_files(page, desk)
    names: dict[str, object] = {"__name__": page.stem}
    for block in blocks(page):
        if block.language != "python":
            continue
        if ">>>" not in block.text:
            exec(compile(block.text, str(page), "exec"), names)
            continue
        example = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), 0)
        said: list[str] = []
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        assert runner.run(example, out=said.append, clear_globs=False).failed == 0, "".join(said)
        names.update(example.globs)


@each_page
def test_links_lead_somewhere(page: Path):
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@each_page
def test_paths_in_the_text_are_there(page: Path):
    for span in spans(page):
        if span.split("/")[0] in FOLDERS and "/" in span and not re.search(r"[\s*<{]", span):
            assert (ROOT / span).exists(), span


@each_page
def test_names_of_the_package_are_there(page: Path):
    for span in spans(page):
        if re.fullmatch(r"fadiff(\.\w+)+", span):
            resolve(span)


def resolve(name: str) -> object:
    """What a dotted name stands for: a module, or something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            fields: dict[str, object] = getattr(found, "__dataclass_fields__", {})
            found = fields[part] if part in fields else getattr(found, part)
        return found
    raise AssertionError(name)


def test_the_model_page_names_files_of_the_package():
    files = re.findall(r"`([a-z_/]+(?:\.\w+)?)`", " ".join(table(MODEL, "## 14. Where it lives").values()))
    assert len(files) > 10
    for name in files:
        assert (ROOT / "src" / "fadiff" / name).exists(), name


def test_the_model_page_lists_every_rule():
    listed = [name.strip("*") for name in table(MODEL, "## 8. When a schedule is legal")]
    assert listed == [*RULES, "shapes"]


def test_the_page_about_methods_lists_every_method():
    page = ROOT / "docs" / "methods.md"
    assert [name.strip("`") for name in table(page, "## At a glance")] == list(METHODS)
    assert set(METHODS) <= anchors(page)
    settings, islands = LayerwiseSettings(), GeneticSettings()
    assert f"{settings.starts}, of {settings.steps:,} steps, rounded every {settings.round_every}" in text_of(page)
    assert f"{islands.islands} populations of {islands.population}" in text_of(page)


def test_the_page_about_accelerators_explains_every_key():
    page = text_of(ROOT / "docs" / "accelerator.md")
    for model in (NodesFileModel, MemoryFileModel, AxisModel, GemminiFileModel):
        for key, entry in model.model_fields.items():
            parts = entry.annotation.model_fields if isinstance(entry.annotation, type(GemminiFileModel)) else ()
            assert f"`{key}`" in page or any(f"`{key}.{part}`" in page for part in parts), key
            for part in parts:
                assert f"`{key}.{part}`" in page or f"`.{part}`" in page or f"`{part}`" in page, f"{key}.{part}"


def test_the_example_to_check_by_hand_is_right(desk: Path):
    write_files(FILES, desk)
    schedule = load_schedule("toy.schedule.json")
    evaluation, examined = evaluate(schedule), Examined(schedule)
    nodes = [node.name for node in schedule.machine.nodes]
    words: dict[str, int] = {}
    for flow, of_layers in zip(evaluation.flows, evaluation.words, strict=True):
        way = "written" if flow.action == "write" else "read"
        by_macs = way == "read" and flow.other is None and flow.tensor == "I"
        name = f"{flow.tensor} read by MACs" if by_macs else f"{flow.tensor} {way} at {nodes[flow.memory]}"
        words[name] = words.get(name, 0) + int(of_layers[0])
    words |= {"MACs": schedule.workload["a"].macs, "buffer of a": int(np.asarray(examined.placement.buffer)[0])}
    told = {name: int(number.replace(",", "")) for name, number in table(MODEL, EXAMPLE).items()}
    assert told == {name: words[name] for name in told}
    page = text_of(MODEL)
    need = needs(examined.nest, examined.placement, pack_machine(schedule.machine)).total
    fullest = int(np.max(np.asarray(need[nodes.index("scratchpad")])))
    assert f"together {fullest:,} bytes" in page
    assert f"{evaluation.energy_pj:,.1f} pJ and {evaluation.cycles:,.0f} cycles" in page


EXAMPLE = "## 11. An example to check by hand"


@pytest.mark.parametrize("quantity", ["energy", "area", "leakage"])
def test_errors_of_the_networks_are_those_of_their_files(quantity: str):
    about = json.loads(text_of(ROOT / "src" / "fadiff" / "hardware" / f"{quantity}_weights.json"))
    held_out = len(about["held_out"]["rows"])
    for name, part, rows in (
        ("training", about["training"], about["table"]["rows"] - held_out),
        ("held out", about["held_out"], held_out),
    ):
        median, p90, rms = part["median_relative_error"], part["p90_relative_error"], part["rms_log_error"]
        assert f"| {name} | {rows} | {median:.2%} | {p90:.2%} | {rms} |" in text_of(MODEL)


@pytest.mark.parametrize("page", [MODEL, PAPER], ids=lambda page: page.name)
def test_numbers_against_timeloop_are_those_of_the_report(page: Path):
    report = squeezed(text_of(ROOT / "docs" / "validation-timeloop.md"))
    quoted = [line for line in prose(page).splitlines() if re.search(r"tau|[Aa]ccuracy|mappings|double step", line)]
    numbers = set(re.findall(r"\d[\d,]*\.\d{4}%?|\d,\d{3}", " ".join(quoted)))
    assert len(numbers) >= 5
    for number in numbers:
        assert number in report, number


def test_the_section_on_speed_is_that_of_the_committed_numbers():
    page = text_of(ROOT / "docs" / "results.md")
    assert with_section(page, "speed", results.speed()) == page, "python -m benchmarks.results writes it anew"


@pytest.mark.parametrize("tone", ["light", "dark"])
def test_pictures_are_the_ones_the_script_draws(tone: str):
    palette = {"light": figures.LIGHT, "dark": figures.DARK}[tone]
    drawn = figures.draw(load_schedule(figures.SCHEDULE), palette)
    made = text_of(figures.IMAGES / f"schedule-{tone}.svg")
    assert drawn == made, "python -m benchmarks.figures makes them anew"
