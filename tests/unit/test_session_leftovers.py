"""Temporary files of workspace writes that a killed process left go when its session recovers."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from durasess.engine.files import RealFiles
from durasess.session.leftovers import discard_leftovers, tmp_path

DEAD = 4_000_001
WRITES = [{"path": "a.py", "before": None, "after": "0" * 32}]


def left(directory: Path, *, pid: int = DEAD, thread: int = 5, of: str = "a.py") -> Path:
    """What a process leaves that is killed while it writes a file."""
    digest = Path(tmp_path(str(directory / of))).name.split(".")[1]
    path = directory / f".{digest}.{pid}-{thread:x}.tmp"
    path.write_bytes(b"half")
    return path


def cleaned(directory: Path, *, pid: int = DEAD) -> None:
    discard_leftovers(str(directory), WRITES, pid=pid, files=RealFiles())


def test_file_of_the_dead_process_goes(tmp_path: Path) -> None:
    path = left(tmp_path)
    cleaned(tmp_path)
    assert not path.exists()


def test_file_of_another_process_stays(tmp_path: Path) -> None:
    path = left(tmp_path, pid=DEAD + 1)
    cleaned(tmp_path)
    assert path.exists()


def test_file_beside_another_file_stays(tmp_path: Path) -> None:
    path = left(tmp_path, of="b.py")
    cleaned(tmp_path)
    assert path.exists()


def test_file_of_a_dead_process_with_this_number_goes(tmp_path: Path) -> None:
    path = left(tmp_path, pid=os.getpid())
    cleaned(tmp_path, pid=os.getpid())
    assert not path.exists()


def test_file_of_another_thread_of_this_process_stays(tmp_path: Path) -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert thread.ident is not None
    path = left(tmp_path, pid=os.getpid(), thread=thread.ident)
    cleaned(tmp_path, pid=os.getpid())
    done.set()
    thread.join()
    assert path.exists()


@pytest.mark.parametrize("writes", [[{}], [{"path": "../../x"}], [{"path": 7}], [None]])
def test_record_that_is_none_is_passed_over(tmp_path: Path, writes: list[object]) -> None:
    discard_leftovers(str(tmp_path), writes, pid=DEAD, files=RealFiles())  # type: ignore[arg-type]


def test_workspace_that_is_not_there_is_passed_over(tmp_path: Path) -> None:
    discard_leftovers(str(tmp_path / "gone"), WRITES, pid=DEAD, files=RealFiles())
