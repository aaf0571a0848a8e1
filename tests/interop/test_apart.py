"""A large file that a process of its own reads: the same session to the byte, and nothing is left
of the process, however it or this one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from benchmarks import foreign
from durasess.engine.engine import Engine
from durasess.errors import StorageError
from durasess.interop import apart, apart_reader, recording
from durasess.interop.importing import import_file
from durasess.interop.tally import ImportReport
from durasess.store.store import Store
from tests.interop.test_corpus import FILES
from tests.interop.test_importing import GROWING, ROOT
from tests.support.foreign import PI_HEADER, encoded, pi_reply, pi_user, write
from tests.support.sessions import clock

SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Every file counts as large, and two processors are there; the processes that were started,
    which are gone at the end."""
    processes: list[subprocess.Popen[bytes]] = []
    whole = apart._started

    def noted(*given: Any) -> subprocess.Popen[bytes]:
        processes.append(whole(*given))
        return processes[-1]

    monkeypatch.setattr(apart, "LARGE", 0)
    monkeypatch.setattr(apart, "_processors", lambda: 2)
    monkeypatch.setattr(apart, "_started", noted)
    yield processes
    for one in processes:
        assert one.returncode is not None
        with pytest.raises(ProcessLookupError):
            os.kill(one.pid, 0)


def segments(below: Path) -> list[bytes]:
    """What the segments hold, without their headers and seals, which name a process."""
    found = []
    for path in sorted(below.glob("*/events_*.jsonl")):
        lines = path.read_bytes().splitlines()
        found += [line for line in lines if line.startswith(b'{"seq":')]
    return found


def assert_the_same(
    path: Path, below: Path, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> ImportReport:
    """Both ways give the same bytes and the same report."""
    reports, written = [], []
    for name, large in (("apart", 0), ("alone", 1 << 60)):
        monkeypatch.setattr(apart, "LARGE", large)
        store = Store(below / name, clock=lambda: 1_700_000_000_000_000_000, **options)
        read: list[int] = []
        reports.append(import_file(store, str(path), on_progress=read.append))
        assert sum(read) >= path.stat().st_size
        written.append(segments(below / name))
        blobs = sorted(one.name for one in (below / name).glob("*/blobs/*/*"))
        written.append([name.encode() for name in blobs])
    assert written[0] == written[2] and written[0]
    assert written[1] == written[3]
    assert msgspec.to_builtins(reports[0]) == msgspec.to_builtins(reports[1])
    return reports[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_of_the_corpus_is_the_same_to_the_byte(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    started: list[subprocess.Popen[bytes]],
) -> None:
    assert_the_same(path, tmp_path, monkeypatch)
    assert len(started) == 1


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("name", GROWING)
def test_secrets_bad_lines_and_large_values_are_the_same_to_the_byte(
    name: str, mask: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.jsonl"
    foreign.write(path, name, 200_000)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[5:5] = [b"@@@@\n", b'{"a":1e999}\n', b"\n", b'{"type":"x","t":"%s"}\n' % SECRET.encode()]
    lines[9:9] = [b'{"type":"x","t":"\\ud83d","n":%s}\n' % (b"7" * 4_500)]
    lines[12:12] = [b'{"type":"x","t":"%s"}\n' % (b"large " * 30_000)]
    path.write_bytes(b"".join(lines) + b'{"torn')
    options = {} if mask else {"mask": None}
    monkeypatch.setattr(recording, "BATCH_EVENTS", 2000)
    report = assert_the_same(path, tmp_path, monkeypatch, **options)
    assert report.reported == 3 and report.torn == 6 and report.blank == 1


def test_reducers_of_the_program_s_get_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(state: dict[str, Any], event: Any) -> None:
        state["lines"] = [*state.get("lines", []), event.data["foreign"][0]["line"]]

    path = write(tmp_path / "s.jsonl", GROWING["codex"])
    assert_the_same(path, tmp_path, monkeypatch, reducers={"foreign": count})
    states = []
    for name in ("apart", "alone"):
        store = Store(tmp_path / name, reducers={"foreign": count})
        with store.open(store.list().rows[0].session_id, mode="read") as session:
            states.append(session.state)
    assert states[0] == states[1] and states[0].custom_state["lines"]


def test_state_is_the_recovered_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.jsonl"
    foreign.write(path, "codex", 100_000)
    live: list[Any] = []
    whole = Engine.close

    def close(engine: Engine) -> None:
        live.append(engine.state)
        whole(engine)

    monkeypatch.setattr(Engine, "close", close)
    store = Store(tmp_path / "store", clock=clock(0))
    report = import_file(store, str(path))
    for snapshot in (tmp_path / "store").glob("*/snapshot*"):
        snapshot.unlink()
    with store.open(report.session_id, mode="read") as session:
        assert session.state == live[0]


def test_file_that_grew_is_gone_on_with_in_one_process(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    store = Store(tmp_path / "store")
    path = write(tmp_path / "s.jsonl", [PI_HEADER, pi_user("a", None, "go")])
    import_file(store, str(path))
    write(path, [PI_HEADER, pi_user("a", None, "go"), pi_reply("b", "a", "done")])
    assert import_file(store, str(path)).lines == 1
    assert len(started) == 1


def test_program_s_own_mask_is_not_left_to_another_process(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    from durasess.session.masking import mask_secrets

    path = write(tmp_path / "s.jsonl", [PI_HEADER, pi_user("a", None, "go")])
    import_file(Store(tmp_path / "store", mask=lambda data: mask_secrets(data)), str(path))
    assert not started


@pytest.mark.parametrize("executable", ["/nowhere/python", "python-that-fails"])
def test_where_no_process_can_be_started_this_one_does_it(
    executable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = tmp_path / executable
    if not executable.startswith("/"):
        failing.symlink_to("/bin/false")
    monkeypatch.setattr(sys, "executable", str(failing))
    path = write(tmp_path / "s.jsonl", [PI_HEADER, pi_user("a", None, "go")])
    report = import_file(Store(tmp_path / "store"), str(path))
    assert (report.lines, report.mapped, report.problem) == (2, 2, "")


@pytest.mark.parametrize("executable", [None, "", "/opt/shop/bin/shop"])
def test_program_that_python_was_built_into_is_not_started_again(
    executable: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    started: list[subprocess.Popen[bytes]],
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    path = write(tmp_path / "s.jsonl", [PI_HEADER, pi_user("a", None, "go")])
    assert import_file(Store(tmp_path / "store"), str(path)).lines == 2
    assert not started


def test_process_that_is_killed_ends_the_import_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    path = tmp_path / "s.jsonl"
    foreign.write(path, "pi", 6_000_000)
    whole = Engine.append_prepared

    def append_and_kill(engine: Engine, events: Any) -> None:
        whole(engine, events)
        started[-1].kill()

    monkeypatch.setattr(Engine, "append_prepared", append_and_kill)
    store = Store(tmp_path / "store")
    with pytest.raises(StorageError, match="process that read it is gone"):
        import_file(store, str(path))
    monkeypatch.setattr(Engine, "append_prepared", whole)
    report = import_file(store, str(path))
    assert report.conflict == "" and report.skipped > 0 < report.lines
    assert_as_at_once(store, report, path, tmp_path)


def assert_as_at_once(store: Store, report: ImportReport, path: Path, below: Path) -> None:
    other = Store(below / "other")
    import_file(other, str(path))
    with store.open(report.session_id) as session, other.open(report.session_id) as at_once:
        said = [(one.role, one.content) for one in session.state.messages]
        assert said == [(one.role, one.content) for one in at_once.state.messages]
        assert session.usage == at_once.usage


def test_interrupt_ends_the_other_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.jsonl"
    foreign.write(path, "pi", 3_000_000)

    def interrupted(engine: Engine, events: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "append_prepared", interrupted)
    with pytest.raises(KeyboardInterrupt):
        import_file(Store(tmp_path / "store"), str(path))


def test_disk_that_is_full_ends_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.jsonl"
    foreign.write(path, "pi", 3_000_000)

    def refuse(engine: Engine, events: Any) -> None:
        raise StorageError("no space")

    monkeypatch.setattr(Engine, "append_prepared", refuse)
    with pytest.raises(StorageError, match="no space"):
        import_file(Store(tmp_path / "store"), str(path))


def test_no_process_is_left_when_this_one_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(encoded(PI_HEADER) + b"\n")
    foreign.write(path, "pi", 8_000_000)
    code = (
        "import sys, time\n"
        "from durasess.engine.engine import Engine\n"
        "from durasess.interop import apart\n"
        "from durasess.interop.importing import import_file\n"
        "from durasess.store.store import Store\n"
        "apart.LARGE, apart._processors = 0, lambda: 2\n"
        "whole = apart._started\n"
        "def started(*given):\n"
        "    process = whole(*given)\n"
        "    print(process.pid, flush=True)\n"
        "    return process\n"
        "apart._started = started\n"
        "append = Engine.append_prepared\n"
        "def slowly(engine, events):\n"
        "    append(engine, events)\n"
        "    print('wrote', flush=True)\n"
        "    time.sleep(60)\n"
        "Engine.append_prepared = slowly\n"
        "import_file(Store(sys.argv[1]), sys.argv[2])\n"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "store"), str(path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert process.stdout.readline() == b"wrote\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    end = time.monotonic() + 30
    while is_running(pid):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_cause_of_a_reading_that_stops_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process prints to nobody."""

    def read(*given: Any) -> ImportReport:
        raise KeyError("odd")

    monkeypatch.setattr(apart_reader, "_read", read)
    sent: list[tuple[int, bytes]] = []
    outlet: Any = SimpleNamespace(send=lambda kind, content: sent.append((kind, content)))
    orders: Any = SimpleNamespace(path=b"/home/x/rollout.jsonl".hex())
    apart_reader.answer(outlet, orders)
    ((kind, content),) = sent
    refusal = msgspec.json.decode(content, type=apart.Refusal)
    assert kind == apart.REFUSED
    assert refusal.path == "/home/x/rollout.jsonl"
    assert "KeyError('odd')" in refusal.message and "import again" in refusal.message


def is_running(pid: int) -> bool:
    """Whether a process is there and is no remainder that waits for its parent to look."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
