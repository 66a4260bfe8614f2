"""Ctrl-C and SIGTERM, sent to the command line in a process of its own as soon as a line says where it is."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fadiff.cost import load_schedule

from .test_optimize import MACHINE, NETWORK, write

SIGNALS = [(signal.SIGINT, "interrupted", 130), (signal.SIGTERM, "terminated", 143)]
SLOW_METHOD = """
import time
from dataclasses import replace
from fadiff.schedule import Group
from fadiff.search.driver import Status
from fadiff.search.optimize import METHODS

def method(workload, machine, settings, incumbent):
    groups = (Group(("a", "b", "s")), Group(("c",)))
    incumbent.offer(replace(incumbent.best.schedule, groups=groups))
    yield Status("look")
    print("here", flush=True)
    time.sleep(600)

METHODS["exact"] = method
"""
SLOW_COMPILER = """
import time
from fadiff.search.optimize import METHODS
from fadiff.search.programs import compile_in_time

class Program:
    def lower(self):
        return self

    def as_text(self):
        return "slow"

    def compile(self):
        print("here", flush=True)
        time.sleep(600)

def method(workload, machine, settings, incumbent):
    compile_in_time("the search", settings.deadline, 1, Program())
    yield

METHODS["exact"] = method
"""
SLOW_PROOF = """
import time
from fadiff.search.optimize import METHODS
from fadiff.search.solver import network_bound

class Prover:
    def __init__(self, *_, **__):
        pass

    def run(self, *_):
        print("here", flush=True)
        time.sleep(600)
        yield

METHODS["exact"] = METHODS["greedy"]
network_bound.Prover = Prover
"""


@pytest.fixture
def ended(tmp_path: Path):
    """What a command says that gets a signal after it said "here"; `before` is run in its process first."""
    write(tmp_path, "net.yaml", NETWORK)
    write(tmp_path, "chip.yaml", MACHINE)

    def run(before: str, number: int, *arguments: str) -> subprocess.CompletedProcess[str]:
        # Where tests run in the background, Ctrl-C is ignored, and processes inherit that.
        heard = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
        command = f"import sys\nsys.argv = ['fadiff', *{arguments!r}]\nfrom fadiff_command import main\nmain()"
        code = f"{heard}\n{before}\n{command}"
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        ) as process:
            try:
                assert process.stdout.readline() == "here\n", process.stderr.read()
                process.send_signal(number)
                out, err = process.communicate(timeout=120)
            finally:
                process.kill()
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    return run


NET = ("net.yaml", "--hardware", "chip.yaml", "-o", "out.json")


@pytest.mark.parametrize(("number", "word", "code"), SIGNALS)
def test_a_search_saves_the_best_so_far(ended, tmp_path: Path, number, word, code):
    done = ended(SLOW_METHOD, number, "optimize", *NET)
    assert done.returncode == (0 if number == signal.SIGINT else code)
    assert f"{word.title()}: this is the best legal schedule so far." in done.stdout
    assert "Traceback" not in done.stderr
    assert load_schedule(tmp_path / "out.json").fused_edges


@pytest.mark.parametrize(("number", "word", "code"), SIGNALS)
def test_no_compiler_is_waited_for(ended, tmp_path: Path, number, word, code):
    done = ended(SLOW_COMPILER, number, "optimize", *NET, "--json")
    assert done.returncode == (0 if number == signal.SIGINT else code)
    assert json.loads(done.stdout)["stopped"] == "interrupt"
    assert load_schedule(tmp_path / "out.json").made_by["method"] == "exact"


@pytest.mark.parametrize(("number", "word", "code"), SIGNALS)
@pytest.mark.parametrize("slow", [SLOW_METHOD, SLOW_PROOF], ids=["search", "proof"])
def test_a_bound_of_which_nothing_is_proven_saves_the_schedule(ended, tmp_path: Path, slow, number, word, code):
    done = ended(slow, number, "bound", *NET)
    assert done.returncode == code
    assert done.stderr == f"{word}: nothing is proven yet; the schedule without a bound is in out.json\n"
    assert load_schedule(tmp_path / "out.json").bound is None


@pytest.mark.parametrize(("number", "word", "code"), SIGNALS)
def test_an_experiment_says_that_it_can_go_on(ended, number, word, code):
    slow = """
import time
from fadiff.reproduce import experiment

def slow(desk):
    print("here", flush=True)
    time.sleep(600)

experiment.find_experiment = lambda name: slow
"""
    done = ended(slow, number, "reproduce", "table1")
    assert done.returncode == code
    assert done.stderr == f"{word}: what was measured is kept, and the same command goes on from there\n"


@pytest.mark.parametrize("before", ["", "import io, sys\nsys.stderr = io.StringIO()"], ids=["loud", "quiet"])
@pytest.mark.parametrize(("number", "word", "code"), SIGNALS)
def test_a_signal_while_libraries_are_loaded_ends_the_command_at_once(
    ended, tmp_path: Path, number, word, code, before
):
    package = tmp_path / "fadiff"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "cli.py").write_text(f"{before}\nimport time\nprint('here', flush=True)\ntime.sleep(600)\n")
    done = ended(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})", number, "models")
    assert (done.returncode, done.stderr) == (code, f"{word}\n")


@pytest.mark.parametrize(("number", "word", "code"), SIGNALS)
def test_a_signal_that_comes_where_python_would_lose_it_is_heard_later(ended, number, word, code):
    collecting = """
import gc, time
from fadiff.cli import machines

def slow(phase, info):
    if phase == "start":
        print("here", flush=True)
        time.sleep(1)  # the signal comes now

def collect():
    gc.callbacks.append(slow)
    gc.collect()
    gc.callbacks.remove(slow)
    time.sleep(600)

machines.builtin_machines = collect
"""
    done = ended(collecting, number, "hardware")
    assert (done.returncode, done.stderr) == (code, f"{word}\n")


@pytest.mark.parametrize(("number", "word", "code"), SIGNALS)
def test_a_signal_while_the_command_line_is_read_is_a_word_too(ended, number, word, code):
    reading = """
import time
from fadiff.cli.errors import SentencesOnErrors

def slow(self, ctx, args):
    print("here", flush=True)
    time.sleep(600)

SentencesOnErrors.parse_args = slow
"""
    done = ended(reading, number, "hardware")
    assert (done.returncode, done.stderr) == (code, f"{word}\n")
