"""System calls of a real process fail: each once and for ever, with the errors a disk has. What the
process was told is compared with what a healthy disk shows afterwards.

A forked process with everything imported waits until strace has attached to it; from then on the
nth call of one name in each of its threads fails without being executed. A first run without faults
counts the calls, and a fault that strace did not inject is a failure of the test. The suite takes a
sample, `DURASESS_TIER=full` every call.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import portalocker
import pytest

from durasess import DurasessError, Engine
from durasess.engine.files import RealFiles
from durasess.engine.verify import verify
from tests.support.capabilities import attaching_strace
from tests.support.planting import planted
from tests.support.tiers import FULL

PATIENCE = 30
"""Seconds for the whole of a traced life."""

SAMPLE = 3
"""Faults of each call in the suite, and one of them for ever."""

assert portalocker, "imported here, so that no import of the traced thread fails instead"

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

CODES = {
    "pwrite64": ("EIO", "ENOSPC", "EDQUOT", "EINTR"),
    "fdatasync": ("EIO", "ENOSPC"),
    "fsync": ("EIO", "ENOSPC"),
    "openat": ("EMFILE", "EACCES", "EROFS", "EIO", "EINTR"),
    "rename": ("EIO", "EROFS", "ENOSPC", "EINTR"),
    "mkdir": ("EROFS", "ENOSPC", "EIO"),
    "ftruncate": ("EIO", "EINTR"),
    "flock": ("EIO", "EINTR", "ENOLCK"),
    "pread64": ("EIO", "EINTR"),
    "lseek": ("EIO",),
    "close": ("EIO", "EINTR"),
    "unlink": ("EIO", "EROFS"),
    "newfstatat": ("EIO", "EACCES"),
    "getdents64": ("EIO",),
    "readlink": ("EIO", "EACCES"),
    "chmod": ("EROFS", "EIO"),
    "fchmod": ("EROFS", "EIO"),
}
"""Name → errors; strace refuses a name that the machine does not have. A short write is not among
them: strace executes nothing, so it would be a system that lies. test_disk.py has real ones."""

ANY = ("EIO", "ENOSPC", "EDQUOT", "EROFS", "EMFILE", "EINTR")
"""In the full tier each call fails with each of these too, whether a system would say so or not."""

AT_LEAST = {"pwrite64": 12, "fdatasync": 8, "fsync": 2, "openat": 12, "rename": 3, "close": 8}
"""So many calls the plan makes of these, in one thread; otherwise little would be tried."""


def opened(path: Path, **more: Any) -> Engine:
    settings: dict[str, Any] = {"segment_bytes": 600, "snapshot_every": 10_000}
    return Engine.open(
        path, initial=list, apply=lambda state, event: [*state, event.data], **settings, **more
    )


def work(path: Path) -> dict[str, Any]:
    """Appends, a snapshot, a second life; what was acknowledged, refused and unknown."""
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
    return said


@pytest.fixture(scope="module")
def calls() -> Counter[str]:
    """How many calls of each name the busiest thread makes when nothing fails."""
    attaching_strace()
    with tempfile.TemporaryDirectory() as directory:
        # What a process asks the system once (the id of the boot) is asked before the first fork.
        work(Path(directory, "before"))
        traced = Traced(Path(directory), ["-e", f"trace={','.join(CODES)}"])
        assert traced.said is not None and traced.said["errors"] == [], traced.said
        threads = traced.calls()
    counts: Counter[str] = Counter()
    for (_, name), count in threads.items():
        counts[name] = max(counts[name], count)
    assert {name: counts[name] for name in AT_LEAST if counts[name] < AT_LEAST[name]} == {}
    return counts


class Traced:
    """One run of `work` under strace: what it said (None when it did not come to an end), and what
    strace wrote down."""

    def __init__(
        self,
        directory: Path,
        options: list[str],
        bug: Callable[[], Any] = contextlib.nullcontext,
    ) -> None:
        self.session = directory / "s"
        self._output = directory / "trace"
        go, said = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            _live(self.session, go, said[1], bug)
        os.close(go[0])
        os.close(said[1])
        # Attached sooner, strace would make one of the first steps fail that are no part of it.
        assert os.read(said[0], 1) == b"!"
        command = ["strace", "-f", "-o", str(self._output), *options, "-p", str(pid)]
        try:
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
                first = strace.stderr.readline() if strace.stderr else ""
                if "attached" in first:
                    os.write(go[1], b"go")
                    text = _read_all(said[0])
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            assert "attached" in first, first
        finally:
            os.close(go[1])
            os.close(said[0])
        self.said: dict[str, Any] | None = json.loads(text) if text else None

    @property
    def injected(self) -> int:
        """How many faults strace injected."""
        return self._output.read_text().count("(INJECTED)")

    def calls(self) -> Counter[tuple[str, str]]:
        """Calls by thread and name."""
        lines = re.findall(r"^([0-9]+) +([a-z0-9_]+)\(", self._output.read_text(), re.MULTILINE)
        return Counter(lines)


def _read_all(fd: int) -> bytes:
    """What is said until the end, within the time that anybody has patience."""
    found = b""
    while select.select([fd], [], [], PATIENCE)[0]:
        chunk = os.read(fd, 65536)
        if not chunk:
            break
        found += chunk
    return found


def _live(session: Path, go: tuple[int, int], said: int, bug: Callable[[], Any]) -> None:
    """The life of the traced process; it never returns into its parent's code."""
    try:
        os.close(go[1])
        os.write(said, b"!")
        os.read(go[0], 2)
        with bug():
            text = json.dumps(work(session))
        os.write(said, text.encode())
    finally:
        os._exit(0)


def faults(name: str, count: int) -> Iterator[str]:
    """What strace is told to inject; in the suite at some calls, each code where its turn comes."""
    codes = sorted({*CODES[name], *ANY}) if FULL else list(CODES[name])
    places = range(1, count + 1) if FULL else sorted({1, (count + 1) // 2, count})[:SAMPLE]
    for turn, nth in enumerate(places):
        for code in codes if FULL else [codes[turn % len(codes)]]:
            what = f"error={code}"
            yield f"{what}:when={nth}"
            # A call that is tried again while it is interrupted is so for ever.
            if code != "EINTR" and (FULL or turn == 1):
                yield f"{what}:when={nth}+"


def problem(
    directory: Path,
    name: str,
    fault: str,
    bug: Callable[[], Any] = contextlib.nullcontext,
) -> str | None:
    """What is wrong with a process whose calls fail so."""
    directory.mkdir()
    traced = Traced(directory, ["-e", f"trace={name}", "-e", f"inject={name}:{fault}"], bug)
    if not traced.injected:
        return "the fault was never injected"
    said = traced.said
    if said is None:
        return "it came to no end of its own"
    path = traced.session
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


@pytest.mark.parametrize("name", CODES)
def test_system_call_that_fails_loses_nothing(
    tmp_path: Path, calls: Counter[str], name: str
) -> None:
    bad, tried = [], 0
    for tried, fault in enumerate(faults(name, calls[name]), 1):
        found = problem(tmp_path / f"s{tried}", name, fault)
        if found is not None:
            bad.append(f"{name} {fault}: {found}")
    print(f"\n{name}: {calls[name]} calls, {tried} faults")
    assert tried, f"this plan makes no call of {name}"
    assert bad == []


def test_fault_that_is_not_injected_is_told(tmp_path: Path, calls: Counter[str]) -> None:
    found = problem(tmp_path / "s", "fdatasync", f"error=EIO:when={calls['fdatasync'] + 1}")
    assert found == "the fault was never injected"


# -- the oracle has teeth -------------------------------------------------------------------


def writes_are_taken_for_whole() -> Any:
    """However many bytes the system took."""
    original = RealFiles.write_at

    def write_at(self: RealFiles, fd: int, data: bytes, offset: int) -> int:
        with contextlib.suppress(OSError):
            original(self, fd, data, offset)
        return len(data)

    return planted(RealFiles, "write_at", write_at)


def failed_rename_is_taken_for_done() -> Any:
    original = RealFiles.replace

    def replace(self: RealFiles, source: str, target: str) -> None:
        with contextlib.suppress(OSError):
            original(self, source, target)

    return planted(RealFiles, "replace", replace)


BUGS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "a short write is taken for whole": (writes_are_taken_for_whole, "pwrite64", "retval=7"),
    "a full disk is not told": (writes_are_taken_for_whole, "pwrite64", "error=ENOSPC"),
    "a failed rename is taken for done": (failed_rename_is_taken_for_done, "rename", "error=EIO"),
}
"""A bug, the call that shows it, and how that is made to fail."""


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_found(tmp_path: Path, calls: Counter[str], bug: str) -> None:
    patch, name, fault = BUGS[bug]
    found = (
        problem(tmp_path / f"s{nth}", name, f"{fault}:when={nth}", patch)
        for nth in range(1, calls[name] + 1)
    )
    assert any(what is not None and "never injected" not in what for what in found)
