"""The second reader and the library say the same of what is left of a session."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from tests.support.agreement import assert_readers_agree
from tests.support.sessions import make_snapshots, open_inline


@pytest.mark.parametrize("end", ["closed", "unclean", "pruned"])
def test_both_readers_agree_whichever_files_are_missing(tmp_path: Path, end: str) -> None:
    source = Path(make_snapshots(tmp_path / "s1", 4))
    with open_inline(source, compress=False) as engine:
        if end == "pruned":
            engine.prune()
        elif end == "unclean":
            engine.append("counted", 5)
            engine.abandon()
    names = sorted(file.name for file in source.iterdir() if file.name.count("."))
    assert len(names) > 3
    for count in range(len(names) + 1):
        for gone in itertools.combinations(names, count):
            copy = tmp_path / "copy" / "s1"
            shutil.copytree(source, copy)
            for name in gone:
                (copy / name).unlink()
            assert_readers_agree(copy)
            shutil.rmtree(copy)
