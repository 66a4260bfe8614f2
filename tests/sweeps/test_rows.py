"""Tables of rows in a folder that one run has for itself."""

import subprocess
import sys
from pathlib import Path

import pytest

from fadiff.errors import FadiffError
from fadiff.sweeps.rows import alone_in, read_rows, write_rows


def test_rows_come_back_with_the_columns_of_all(tmp_path: Path):
    write_rows(tmp_path / "t.csv", [{"a": 1, "b": 1 / 3}, {"a": None, "c": 'x, "y"\nz'}])
    rows = read_rows(tmp_path / "t.csv", ("a", "c"))
    assert rows == [{"a": "1", "b": repr(1 / 3), "c": ""}, {"a": "", "b": "", "c": 'x, "y"\nz'}]


def test_a_folder_is_made_and_cleared_of_what_a_killed_run_left(tmp_path: Path):
    with alone_in(tmp_path / "new" / "folder"):
        (tmp_path / "new" / "folder" / ".fadiff-half").write_text("ha")
    with alone_in(tmp_path / "new" / "folder"):
        assert not list((tmp_path / "new" / "folder").iterdir())


def test_two_at_once_are_refused_and_the_lock_ends_with_its_process(tmp_path: Path):
    holds = "import sys, time; from pathlib import Path; from fadiff.sweeps.rows import alone_in\n"
    holds += f"with alone_in(Path({str(tmp_path)!r})): print('mine', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", holds], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(FadiffError, match="another run works in this folder: wait for its end, or take another"):
            alone_in(tmp_path, "take another").__enter__()
        other.kill()
        other.wait()
    with alone_in(tmp_path):
        pass


def test_where_no_folder_can_be_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FadiffError, match=r"file/in: no folder can be made there \(Not a directory\): take another"):
        alone_in(tmp_path / "file" / "in", "take another").__enter__()


def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fadiff.sweeps.rows.os.access", lambda path, mode: False)
    with pytest.raises(FadiffError, match="nothing may be written there: take another"):
        alone_in(tmp_path, "take another").__enter__()
