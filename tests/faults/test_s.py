"""FAULTS S, H4 and T16: lists that stay fast, reach everything and survive what is broken."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest

from durasess import Store
from durasess.engine import meta
from durasess.engine.files import RealFiles
from tests.support import stores


def many(store: Store, count: int, *, padding: int = 0) -> None:
    """Copies of one session's meta under other ids, each beside a segment of so many bytes."""
    path = stores.make(store, "s00000", title="many")
    found = meta.read(RealFiles(), path)
    for number in range(1, count):
        session_id = f"s{number:05d}"
        folder = Path(store.path) / session_id
        folder.mkdir()
        data = meta.encoded(msgspec.structs.replace(found, session_id=session_id))
        (folder / "meta.json").write_bytes(data)
        if padding:
            with (folder / "events_0001.jsonl").open("wb") as segment:
                segment.write(b'{"segment":1')
                segment.truncate(padding)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store, outside of what both readers look at in the end."""
    return stores.store_at(tmp_path)


def drop(store: Store) -> None:
    """What is only meta is no session for the other reader."""
    for folder in Path(store.path).iterdir():
        if folder.name != "s00000":
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()


def test_s1_append_reads_nothing_of_the_log(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = RealFiles.read_at

    def counted(self: RealFiles, fd: int, size: int, offset: int) -> bytes:
        data = real(self, fd, size, offset)
        read.append(len(data))
        return data

    with store.create("a1") as session:
        for number in range(300):
            session.note(f"event {number}")
        monkeypatch.setattr(RealFiles, "read_at", counted)
        session.note("one more")
        assert sum(read) == 0


def test_s2_five_thousand_sessions_are_listed_in_a_second(store: Store) -> None:
    many(store, 5000)
    store.list()
    started = time.perf_counter()
    found = store.list()
    took = time.perf_counter() - started
    started = time.perf_counter()
    for row in Path(store.path).iterdir():
        (row / "meta.json").read_bytes()
    floor = time.perf_counter() - started
    drop(store)
    assert found.total == 5000
    # A second, or on a machine that is busy a small multiple of reading the bare files.
    assert took < max(1, 8 * floor), f"{took:.2f} s, the bare files {floor:.2f} s"


def test_s4_paging_reaches_every_session_and_says_how_many_are_hidden(store: Store) -> None:
    many(store, 1000)
    seen: set[str] = set()
    for offset in range(0, 1000, 50):
        page = store.list(offset=offset)
        assert (page.total, page.hidden) == (1000, 950)
        seen |= {row.session_id for row in page.rows}
    drop(store)
    assert len(seen) == 1000


def test_s5_order_of_equals_is_the_same_every_time(store: Store) -> None:
    many(store, 100)
    pages = [[row.session_id for row in store.list(limit=40).rows] for _ in range(2)]
    titles = [row.session_id for row in store.list(sort="title", descending=False).rows]
    drop(store)
    assert pages[0] == pages[1]
    assert titles == sorted(titles)


def test_h4_list_reads_little_and_holds_little(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    many(store, 300, padding=20 * 1024 * 1024)
    read: dict[str, int] = {}
    real_open, real_read = RealFiles.open, RealFiles.read_at
    real_first = RealFiles.first_bytes
    names: dict[int, str] = {}

    def opened(self: RealFiles, path: str, **options: Any) -> int:
        fd = real_open(self, path, **options)
        names[fd] = path
        return fd

    def counted(self: RealFiles, fd: int, size: int, offset: int) -> bytes:
        data = real_read(self, fd, size, offset)
        read[names[fd]] = read.get(names[fd], 0) + len(data)
        return data

    def began(self: RealFiles, path: str, size: int) -> bytes:
        data = real_first(self, path, size)
        read[path] = read.get(path, 0) + len(data)
        return data

    monkeypatch.setattr(RealFiles, "open", opened)
    monkeypatch.setattr(RealFiles, "read_at", counted)
    monkeypatch.setattr(RealFiles, "first_bytes", began)
    tracemalloc.start()
    found = store.list()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    monkeypatch.undo()
    drop(store)
    assert found.total == 300
    others = {name: size for name, size in read.items() if not name.endswith("meta.json")}
    assert len(others) <= 50 and max(others.values()) <= 64, "of the page the first bytes"
    assert max(read.values()) <= 65536
    assert most < 4 * 1024 * 1024


@pytest.mark.parametrize("name", ["snapshot.json.zst", "events_0001.jsonl", "meta.json"])
def test_t16_session_that_begins_with_foreign_bytes_is_one_marked_row_of_four(
    store: Store, name: str
) -> None:
    for session_id in ("a1", "a2", "a3", "bad"):
        stores.make(store, session_id)
    broken = Path(store.path) / "bad" / name
    broken.write_bytes(b"\x1f\x8b foreign bytes, not ours" * 10)
    found = store.list()
    assert (len(found.rows), found.total, found.unreadable) == (4, 4, 1)
    (marked,) = (row for row in found.rows if row.problem)
    assert marked.session_id == "bad" and str(broken) in marked.problem
