"""What tests of the command line share: small files, and a way to run a command in this process."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from fadiff.next.cli import app

NETWORK = """\
name: tiny
layers:
  - {name: a, kind: mac, dims: {K: 8, C: 4, P: 8, Q: 8, R: 3, S: 3}, inputs: [{from: null, port: input}],
     epilogue: [relu, max_pool], out: {P: 4, Q: 4}}
  - {name: b, kind: mac, dims: {K: 8, C: 8, P: 4, Q: 4, R: 3, S: 3}, inputs: [{from: a, port: input}], repeat: 2}
  - {name: s, kind: add, dims: {K: 8, P: 4, Q: 4}, inputs: [{from: b, port: addend}, {from: a, port: addend}]}
"""
MACHINE = "name: chip\nrows: 8\ncols: 8\nl1: 4 KB\nl2: 16 KB\n"


def fadiff(*arguments: object) -> Result:
    """Run a command."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def answer(*arguments: object) -> Any:
    """The JSON document a command prints, once it has succeeded and printed nothing else."""
    result = fadiff(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


def refusal(*arguments: object) -> str:
    """The sentences of a command that refuses its input, without their prefix."""
    result = fadiff(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    lines = result.stderr.splitlines()
    assert lines
    assert all(line.startswith("error: ") for line in lines), result.stderr
    return "\n".join(line.removeprefix("error: ") for line in lines)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def schedule_file(folder: Path) -> Path:
    """A small schedule with a padded layer, a pooled one, a repeated one and a sum."""
    network, machine = write(folder, "net.yaml", NETWORK), write(folder, "chip.yaml", MACHINE)
    path = folder / "tiny.json"
    assert fadiff("optimize", network, "--hardware", machine, "--method", "greedy", "-o", path).exit_code == 0
    return path
