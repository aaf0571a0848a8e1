"""System calls of a real process fail: each once and for ever, with the errors a disk has. What the
process was told is compared with what a healthy disk shows afterwards.

strace makes the nth call of the committer's thread fail without executing it. Run as a program,
this file is the process that is traced. The suite takes a sample, `DURASESS_TIER=full` every call.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import portalocker
import pytest

from durasess import DurasessError, Engine
from durasess.engine.files import RealFiles
from durasess.engine.verify import verify
from tests.support.capabilities import working_strace
from tests.support.tiers import FULL

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60
assert portalocker, "imported here, so that no import of the traced thread fails instead"


class Case(NamedTuple):
    """`calls` of this name are made to fail with each of `codes`, from the first on."""

    name: str
    calls: int
    codes: tuple[str, ...]


CASES = (
    Case("pwrite64", 24, ("EIO", "ENOSPC", "EDQUOT", "retval=7")),
    Case("fdatasync", 12, ("EIO", "ENOSPC")),
    Case("fsync", 8, ("EIO", "ENOSPC")),
    Case("openat", 30, ("EMFILE", "EACCES", "EROFS")),
    Case("rename", 8, ("EIO", "EROFS", "EINTR")),
    Case("mkdir", 2, ("EROFS", "ENOSPC")),
    Case("ftruncate", 4, ("EIO",)),
    Case("flock", 2, ("EIO", "EINTR")),
    Case("pread64", 4, ("EIO",)),
    Case("lseek", 8, ("EIO",)),
    Case("close", 20, ("EIO",)),
)


def opened(path: Path, **more: Any) -> Engine:
    settings: dict[str, Any] = {"segment_bytes": 600, "snapshot_every": 10_000}
    return Engine.open(
        path, initial=list, apply=lambda state, event: [*state, event.data], **settings, **more
    )


def work(path: Path) -> None:
    """Appends, a snapshot, a second life; says what was acknowledged, refused and unknown."""
    said: dict[str, Any] = {"acked": [], "refused": [], "errors": []}
    for life in range(2):
        engine = None
        try:
            engine = opened(path)
            for n in range(life * 10, life * 10 + 4):
                said["refused"].append(n)
                engine.append("n", n)
                said["acked"].append(said["refused"].pop())
            engine.snapshot()
        except DurasessError as error:
            said["errors"].append(type(error).__name__)
            if getattr(error, "unknown", None) or type(error).__name__ == "FencedError":
                said["refused"] = said["refused"][:-1]
        with contextlib.suppress(DurasessError):
            if engine is not None:
                engine.close()
    print(json.dumps(said))


@pytest.fixture(scope="module")
def strace() -> list[str]:
    """The command, when it works here."""
    return working_strace()


def faults(case: Case) -> Iterator[str]:
    """What strace is told to inject; in the suite each code where its turn comes."""
    step = 1 if FULL else max(1, case.calls // 2)
    for turn, nth in enumerate(range(1, case.calls + 1, step)):
        codes = case.codes if FULL else [case.codes[turn % len(case.codes)]]
        for code in codes:
            what = code if code.startswith("retval") else f"error={code}"
            yield f"{what}:when={nth}"
            if FULL or turn == 1:
                yield f"{what}:when={nth}+"


def problem(strace: list[str], path: Path, name: str, fault: str, bug: str = "") -> str | None:
    """What is wrong with a process whose calls fail so."""
    # A launcher script in front of the interpreter would be traced too.
    python = os.path.realpath(sys.executable)
    inject = ["-e", f"trace={name}", "-e", f"inject={name}:{fault}"]
    done = subprocess.run(
        [*strace, *inject, python, __file__, str(path), bug],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    if "durasess" not in done.stdout + done.stderr and not done.stdout.startswith("{"):
        # The interpreter itself did not come up.
        return None
    if done.returncode or not done.stdout.startswith("{"):
        return f"it ended with {done.returncode}: {done.stderr[-300:]}"
    said = json.loads(done.stdout)
    try:
        with opened(path) as engine:
            found = list(engine.state)
    except DurasessError as error:
        return f"refused: {error!r}"
    if set(said["acked"]) - set(found):
        return f"acknowledged {said['acked']}, found {found}"
    if set(said["refused"]) & set(found):
        return f"refused {said['refused']}, found {found}"
    if sorted(set(found)) != found:
        return f"found {found}"
    damage = verify(str(path), files=RealFiles()).damage
    return f"damage: {damage}" if damage else None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_system_call_that_fails_loses_nothing(
    tmp_path: Path, strace: list[str], case: Case
) -> None:
    bad = []
    for number, fault in enumerate(faults(case)):
        found = problem(strace, tmp_path / f"s{number}", case.name, fault)
        if found is not None:
            bad.append(f"{case.name} {fault}: {found}")
    assert bad == []


# -- the oracle has teeth -------------------------------------------------------------------


def writes_are_taken_for_whole() -> Any:
    """However many bytes the system took."""
    original = RealFiles.write_at

    def write_at(self: RealFiles, fd: int, data: bytes, offset: int) -> int:
        with contextlib.suppress(OSError):
            original(self, fd, data, offset)
        return len(data)

    return mock.patch.object(RealFiles, "write_at", write_at)


def failed_rename_is_taken_for_done() -> Any:
    original = RealFiles.replace

    def replace(self: RealFiles, source: str, target: str) -> None:
        with contextlib.suppress(OSError):
            original(self, source, target)

    return mock.patch.object(RealFiles, "replace", replace)


BUGS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "a short write is taken for whole": (writes_are_taken_for_whole, "pwrite64", "retval=7"),
    "a full disk is not told": (writes_are_taken_for_whole, "pwrite64", "error=ENOSPC"),
    "a failed rename is taken for done": (failed_rename_is_taken_for_done, "rename", "error=EIO"),
}
"""A bug, the call that shows it, and how that is made to fail."""


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_found(tmp_path: Path, strace: list[str], bug: str) -> None:
    _, name, fault = BUGS[bug]
    calls = next(case.calls for case in CASES if case.name == name)
    found = (
        problem(strace, tmp_path / f"s{nth}", name, f"{fault}:when={nth}", bug)
        for nth in range(1, calls + 1)
    )
    assert any(found)


def main(path: str, bug: str) -> None:
    """The process that is traced, with one bug or none."""
    with BUGS[bug][0]() if bug else contextlib.nullcontext():
        work(Path(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
