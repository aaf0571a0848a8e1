"""Bytes set aside: they come back, nothing is left of them, and a full disk is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from durasess.engine.files import RealFiles
from durasess.engine.scratch import Scratch
from durasess.errors import StorageError


def test_nothing_is_left_where_bytes_were_set_aside(tmp_path: Path) -> None:
    scratch = Scratch(RealFiles(), str(tmp_path))
    assert os.listdir(tmp_path) == []
    offset = scratch.add(b"abc")
    scratch.add(b"def")
    scratch.change(offset + 1, b"B")
    assert scratch.read(0, 6) == b"aBcdef"
    assert os.listdir(tmp_path) == []
    scratch.close()
    scratch.close()


def test_disk_that_is_full_says_what_was_not_set_aside(tmp_path: Path) -> None:
    class Full(RealFiles):
        def write_at(self, fd: int, data: bytes, offset: int) -> int:
            raise OSError(errno.ENOSPC, "no space")

    scratch = Scratch(Full(), str(tmp_path))
    with pytest.raises(StorageError, match=r"import\.tmp.*make room"):
        scratch.add(b"abc")
    scratch.close()


def test_what_cannot_be_read_back_is_told(tmp_path: Path) -> None:
    class Unreadable(RealFiles):
        def read_at(self, fd: int, size: int, offset: int) -> bytes:
            raise OSError(errno.EIO, "no sector")

    scratch = Scratch(Unreadable(), str(tmp_path))
    scratch.add(b"abc")
    with pytest.raises(StorageError, match="cannot be read"):
        scratch.read(0, 3)
    scratch.close()
