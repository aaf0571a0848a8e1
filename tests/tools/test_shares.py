"""The shares of the suite: each file is in exactly one, and none has much more to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import shares

ROOT = Path(__file__).resolve().parents[2]


def test_each_file_is_in_exactly_one_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "SECONDS", {"long": 60.0, "longer": 70.0})
    tests = {"long": 1, "longer": 1, **{f"file{n}": n for n in range(1, 60)}}
    for of in (1, 2, 3):
        found = [shares.files_of((number, of), tests) for number in range(1, of + 1)]
        assert sorted(name for one in found for name in one) == sorted(tests)
    first, second = (shares.files_of((number, 2), tests) for number in (1, 2))
    assert len({"long", "longer"} & first) == len({"long", "longer"} & second) == 1


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/0", ""])
def test_share_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        shares.parse(text)


def test_long_files_are_there() -> None:
    assert [name for name in shares.SECONDS if not (ROOT / name).is_file()] == []


def collected(share: str | None) -> set[str]:
    environment = {name: text for name, text in os.environ.items() if name != "DURASESS_SHARE"}
    if share is not None:
        environment["DURASESS_SHARE"] = share
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "tests/tools", "tests/conformance"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_shares_of_a_real_run_make_the_whole_of_it() -> None:
    first, second, whole = collected("1/2"), collected("2/2"), collected(None)
    assert first and second and not first & second
    assert first | second == whole
