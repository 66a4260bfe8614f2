"""The installed program, in processes of its own."""

import json
import subprocess
import sys
from pathlib import Path

import fadiff as api
from cli.command import fadiff, schedule_file

PROGRAM = Path(sys.executable).parent / "fadiff"


def run(*command: object, **options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)


def test_the_program_and_the_module_are_one():
    program, module = run(PROGRAM, "--version"), run(sys.executable, "-m", "fadiff", "--version")
    assert program.stdout == module.stdout == f"fadiff {api.__version__}\n"
    assert program.returncode == module.returncode == 0


def test_errors_reach_stderr_and_the_exit_code(tmp_path: Path):
    result = run(PROGRAM, "optimize", "resnet19", "-o", tmp_path / "out.json")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: model 'resnet19' is unknown (did you mean resnet18?)")
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_reading_and_pricing_load_neither_jax_nor_the_executor(tmp_path: Path):
    path = schedule_file(tmp_path)
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom fadiff.cli import app\n"
        f"for command in (['models'], ['show', 'vgg16'], ['hardware'], ['evaluate', {str(path)!r}]):\n"
        "    assert CliRunner().invoke(app, command).exit_code == 0\n"
        "print([name for name in ('jax', 'fadiff.execute', 'fadiff.search') if name in sys.modules])\n"
    )
    result = run(sys.executable, "-W", "error", "-c", code)
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_a_search_loads_jax_only_where_it_compiles_something(tmp_path: Path):
    (tmp_path / "toy.yaml").write_text(
        "name: toy\nlayers:\n- {name: a, kind: mac, dims: {K: 8, C: 4}, inputs: [{from: null, port: input}]}\n"
    )
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom fadiff.cli import app\n"
        f"told = 'optimize', {str(tmp_path / 'toy.yaml')!r}, '--hardware', 'gemmini-small', '-b', '9s', '--method'\n"
        "for method in ('exact', 'greedy', 'layerwise'):\n"
        "    assert CliRunner().invoke(app, [*told, method]).exit_code == 0\n"
        "    print(method, 'jax' in sys.modules)\n"
    )
    result = run(sys.executable, "-W", "error", "-c", code)
    assert (result.stdout, result.stderr) == ("exact False\ngreedy False\nlayerwise True\n", "")


def test_a_reader_that_has_seen_enough_ends_the_program_quietly():
    shell = run("sh", "-c", f"{PROGRAM} show mobilenet_v2 --json | head -n 1")
    assert (shell.stdout, shell.stderr) == ("{\n", "")


def test_a_full_disk_is_told_before_a_command_is_read():
    for wanted in ("--version", "--help"):
        shell = run("sh", "-c", f"{PROGRAM} {wanted} > /dev/full")
        assert shell.returncode == 2
        assert shell.stderr.startswith("error: output: No space left on device")
        assert shell.stderr.count("\n") == 1


def test_closed_streams_take_nothing():
    shell = run("sh", "-c", f"{PROGRAM} show vgg16 >&- && {PROGRAM} show vgg17 2>&-")
    assert (shell.returncode, shell.stdout, shell.stderr) == (2, "", "")


def test_help_explains_every_command():
    top = fadiff("--help")
    assert top.exit_code == 0
    for command in ("models", "hardware", "show", "optimize", "evaluate", "verify", "report"):
        assert command in top.stdout
        result = fadiff(command, "--help")
        assert result.exit_code == 0
        assert f"fadiff {command}" in result.stdout
        assert "Examples:" in result.stdout


def test_the_program_speaks_json(tmp_path: Path):
    result = run(
        PROGRAM, "optimize", "mobilenet_v1:size=32", "-m", "greedy", "-o", "out.json", "--json", cwd=str(tmp_path)
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["schedule_file"] == "out.json"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
