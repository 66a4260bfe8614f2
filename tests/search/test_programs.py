"""Programs are compiled only where there is time for it; what is measured is a clock of the tests' own."""

import threading

import jax
import numpy as np
import pytest

from fadiff.search import programs
from fadiff.search.driver import OutOfTimeError
from fadiff.search.programs import COMPILING, LOWERING_SECONDS, compile_in_time, search_programs
from search.clock import Clock

NODES = 4


class Program:
    """A jitted function that takes its time."""

    def __init__(self, clock, lowering=1.0, text="", work=lambda: None):
        self.clock, self.lowering, self.text, self.work = clock, lowering, text, work
        self.lowered = self.compiled = 0

    def lower(self, *args, **static):
        self.lowered += 1
        self.clock.now += self.lowering
        return self

    def as_text(self):
        return self.text

    def compile(self):
        self.work()
        self.compiled += 1


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr(programs, "clock", fake)
    monkeypatch.setattr(programs, "_marker", lambda lowered: None)
    return fake


def prepare(program, seconds, *args, **static):
    compile_in_time("the descent", program.clock.now + seconds, NODES, program, *args, **static)


def test_a_program_is_compiled_once_for_arguments_of_one_shape(clock):
    program = Program(clock)
    for _ in range(2):
        prepare(program, 100, np.zeros(3), 0.5)
    prepare(program, 100, np.ones(3), 0.7)
    assert program.compiled == 1
    for args in ((np.zeros(4), 0.5), (np.zeros(3, dtype=np.int32), 0.5), (np.zeros(3), "static")):
        prepare(program, 100, *args)
    prepare(program, 100, np.zeros(3), 0.5, pairs=True)
    assert program.compiled == 5


def test_a_program_that_takes_too_long_to_compile_is_left_out_and_told(clock):
    needed = COMPILING * 1.0
    program = Program(clock)
    with pytest.raises(OutOfTimeError) as late:
        prepare(program, 1 + needed - 0.01)
    assert str(late.value) == "the descent was left out: 16 s were left, and compiling it takes about 16 s"
    assert program.compiled == 0
    prepare(program, 1 + needed)
    assert program.compiled == 1


def test_with_next_to_no_time_left_nothing_is_begun(clock):
    program = Program(clock)
    with pytest.raises(OutOfTimeError, match="the descent was left out: 0 s were left"):
        prepare(program, LOWERING_SECONDS * NODES * 0.99)
    assert program.lowered == 0


def test_a_program_that_is_in_the_cache_is_taken_from_there_in_any_case(clock, tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "_marker", lambda lowered: tmp_path / lowered.text)
    prepare(Program(clock, text="a"), 100)
    again, other = Program(clock, text="a"), Program(clock, text="b")
    prepare(again, 2)
    assert again.compiled == 1
    with pytest.raises(OutOfTimeError):
        prepare(other, 2)


def test_markers_tell_programs_apart(tmp_path, monkeypatch):
    @jax.jit
    def double(x):
        return 2 * x

    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        names = [programs._marker(double.lower(np.zeros(size))) for size in (3, 3, 4)]
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert names[0] == names[1] != names[2]
    assert names[0].parent == tmp_path


def test_a_compiler_that_does_not_end_in_time_is_not_waited_for(clock):
    wait = threading.Event()
    program = Program(clock, lowering=0.0, work=wait.wait)
    with pytest.raises(OutOfTimeError, match="it was not compiled within the 0 s that were left"):
        prepare(program, LOWERING_SECONDS * NODES)
    wait.set()


def test_what_the_compiler_complains_of_is_raised(clock):
    def fail():
        raise MemoryError("too large")

    with pytest.raises(MemoryError, match="too large"):
        prepare(Program(clock, work=fail), 100)


def test_where_nothing_can_be_kept_nothing_is(tmp_path, monkeypatch):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    (tmp_path / "file").touch()
    try:
        monkeypatch.setenv("FADIFF_CACHE_DIR", str(tmp_path / "file" / "cache"))
        with search_programs():
            assert jax.config.jax_compilation_cache_dir == before
        monkeypatch.setenv("FADIFF_CACHE_DIR", str(tmp_path / "new" / "cache"))
        with search_programs():
            assert jax.config.jax_compilation_cache_dir == str(tmp_path / "new" / "cache")
        assert (tmp_path / "new" / "cache").is_dir()
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
