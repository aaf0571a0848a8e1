"""Sessions for tests: made, damaged, looked at and read back, in the words of the domain.

State in these sessions is the list of what the events carried, so that any event that is lost,
doubled or out of order shows.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from durasess import Engine, Event
from durasess.engine import codec, survey
from durasess.engine.files import RealFiles
from durasess.engine.scheduler import InlineScheduler
from durasess.engine.types import LineError
from tests.support.sim_files import SimFiles

STORE = "/store"
SIM_PATH = "/store/s1"
SIM_SEGMENT = "/store/s1/events_0001.jsonl"
START_NS = 1_700_000_000_000_000_000
PATIENCE_S = 5.0
"""How long a thread may take before it is called stuck; nothing waits for it when all is well."""


# Making and opening


def collect(state: list[Any], event: Event) -> None:
    """The reducer: keeps what each event carried, in place."""
    state.append(event.data)


def clock(start: int = START_NS) -> Callable[[], int]:
    """A clock that moves one millisecond with each look."""
    now = start

    def read() -> int:
        nonlocal now
        now += 1_000_000
        return now

    return read


def open_session(path: Path | str, **options: Any) -> Engine:
    """A handle whose state is the list of all data."""
    options.setdefault("initial", list)
    options.setdefault("apply", collect)
    options.setdefault("clock", clock())
    return Engine.open(path, **options)


def open_inline(path: Path | str, **options: Any) -> Engine:
    """The same, with every commit and every background job in the calling thread."""
    options.setdefault("scheduler", InlineScheduler())
    return open_session(path, **options)


def sim_disk() -> SimFiles:
    """An empty store on the disk in memory."""
    return SimFiles.from_tree({STORE: None})


def open_sim(files: Any, **options: Any) -> Engine:
    """The session on a disk in memory, in the calling thread."""
    return open_inline(SIM_PATH, files=files, **options)


def join(files: Any, **options: Any) -> Engine:
    """One of several writers of the session on a simulated disk; takes no snapshot unasked."""
    options.setdefault("snapshot_every", 10**9)
    return open_sim(files, mode="shared", **options)


def append_all(engine: Engine, count: int, *, first: int = 1) -> None:
    """Events that carry first, first + 1 …, each a batch by itself."""
    for n in range(first, first + count):
        engine.append("counted", n)


def make_session(path: Path | str, events: int = 3, **options: Any) -> str:
    """A session that ended cleanly, without a snapshot: its events carry 1, 2, 3 …"""
    options.setdefault("snapshot_every", 1_000_000)
    engine = open_inline(path, **options)
    append_all(engine, events)
    engine.rotate()
    engine.abandon()
    return str(path)


def make_unclean(path: Path | str, events: int = 3, **options: Any) -> str:
    """A session whose writer was killed behind its last acknowledgement."""
    options.setdefault("snapshot_every", 1_000_000)
    engine = open_inline(path, **options)
    append_all(engine, events)
    engine.abandon()
    return str(path)


def make_segments(path: Path | str, segments: int, each: int = 2) -> str:
    """Sealed segments with `each` events, no snapshot: data is 1, 2, 3 …"""
    engine = open_inline(path, snapshot_every=1_000_000)
    for number in range(segments):
        append_all(engine, each, first=number * each + 1)
        engine.rotate()
    engine.abandon()
    return str(path)


def make_snapshots(path: Path | str, snapshots: int, **options: Any) -> str:
    """One event, then a snapshot, and so on; data is 1, 2, 3 …; no tail. Segments stay plain if
    nothing else is said."""
    options.setdefault("compress", False)
    engine = open_inline(path, **options)
    for n in range(1, snapshots + 1):
        engine.append("counted", n)
        engine.snapshot()
    engine.close()
    return str(path)


# Looking


def state_of(path: Path | str, **options: Any) -> Any:
    """What a reader sees, which changes nothing."""
    return open_session(path, mode="read", **options).state


def claims_of(path: Path | str) -> survey.Claims:
    """What stands beside the log."""
    return survey.look(RealFiles(), str(path), every_snapshot=True)


def segment_path(path: Path | str, number: int = 1) -> Path:
    """The file of a segment."""
    return Path(path) / f"events_{number:04d}.jsonl"


def lines_of(file: Path) -> list[bytes]:
    """A file's lines without their line feeds."""
    return file.read_bytes().split(b"\n")[:-1]


def tree_of(path: Path | str) -> dict[str, bytes | None]:
    """Every name below a directory with its bytes (None: a directory)."""
    root = Path(path)
    return {
        str(found.relative_to(root)): None if found.is_dir() else found.read_bytes()
        for found in sorted(root.rglob("*"))
    }


@contextlib.contextmanager
def unchanged(path: Path | str) -> Iterator[None]:
    """Nothing below the directory may be made, changed or removed inside this block."""
    before = tree_of(path)
    yield
    assert tree_of(path) == before


def open_descriptors(path: Path | str) -> list[str]:
    """The files below a directory that this process has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return [name for name in found if name.startswith(str(path))]


# Damage


def cut_tail(file: Path, count: int) -> None:
    """The last bytes are gone."""
    os.truncate(file, file.stat().st_size - count)


def append_bytes(file: Path, data: bytes) -> None:
    """Something wrote behind the end."""
    with open(file, "ab") as target:
        target.write(data)


def flip_bit(file: Path, at: int, bit: int = 0) -> None:
    """One bit is another one; `at` may count from the end."""
    data = bytearray(file.read_bytes())
    data[at] ^= 1 << bit
    file.write_bytes(data)


def zero_range(file: Path, start: int, end: int) -> None:
    """Bytes start..end-1 are zeros."""
    data = bytearray(file.read_bytes())
    data[start:end] = bytes(end - start)
    file.write_bytes(data)


def replace_line(file: Path, index: int, text: bytes) -> None:
    """Other bytes stand in place of line `index` (0 is the header)."""
    lines = lines_of(file)
    lines[index] = text
    _write_lines(file, lines)


def drop_line(file: Path, index: int) -> None:
    """A line is missing."""
    lines = lines_of(file)
    del lines[index]
    _write_lines(file, lines)


def duplicate_line(file: Path, index: int) -> None:
    """A line stands twice."""
    lines = lines_of(file)
    lines.insert(index, lines[index])
    _write_lines(file, lines)


def swap_lines(file: Path, one: int, other: int) -> None:
    """Two lines changed places."""
    lines = lines_of(file)
    lines[one], lines[other] = lines[other], lines[one]
    _write_lines(file, lines)


def _write_lines(file: Path, lines: list[bytes]) -> None:
    file.write_bytes(b"".join(line + b"\n" for line in lines))


def unacknowledged(path: Path | str, *data: Any, type_: str = "counted") -> bytes:
    """The bytes of the next write, a batch of these data, which nobody has written yet."""
    engine = open_session(path, mode="read")
    seq = engine.last_seq
    chain = codec.unhexed(list(engine.events())[-1].crc) if seq else codec.CHAIN_START
    lines = []
    for index, value in enumerate(data, 1):
        batch = None if len(data) == 1 else (len(data) if index == len(data) else 0)
        encoded = codec.encode(value)
        body = codec.body(type=type_, data=encoded, run_id=None, call_id=None, event_id=None)
        line, chain = codec.event_line(seq + index, codec.timestamp(START_NS), batch, body, chain)
        lines.append(line)
    return b"".join(lines)


# Threads


def outcome_of(work: Callable[[], Any]) -> Any:
    """What `work` returns or raises in a thread of its own; an assertion fails when it hangs."""
    box: list[Any] = []

    def run() -> None:
        try:
            box.append(work())
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "it hangs"
    return box[0]


def refused(call: Callable[..., Any], *arguments: Any) -> LineError:
    """The error with which a call refuses bytes."""
    with pytest.raises(LineError) as caught:
        call(*arguments)
    return caught.value


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    """This process makes files with this mask."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
