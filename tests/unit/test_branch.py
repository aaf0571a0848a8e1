"""Copies of a session up to a seq: the same lines, a session of their own, the source untouched."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from durasess import CorruptionError, Engine, Event, StorageError
from durasess.engine import branch
from durasess.engine.files import RealFiles
from durasess.engine.verify import verify
from durasess.engine.walk import EVERYTHING
from tests.support import sessions

CREATED = "2026-11-29T10:00:00.000000Z"


def copied(source: str, target: Path, through: int = EVERYTHING) -> int:
    """Copy, and prove that the copy is sound and the source untouched."""
    with sessions.unchanged(source):
        last = branch.copy(
            RealFiles(),
            source,
            str(target),
            through=through,
            created=CREATED,
            token=lambda: "t",
        )
    assert not verify(str(target), files=RealFiles()).damage
    return last


def events(path: Path | str) -> list[Event]:
    """As a reader sees them."""
    with sessions.open_session(path, mode="read") as engine:
        return list(engine.events())


@pytest.mark.parametrize("through", range(1, 7))
def test_copy_up_to_a_seq_has_the_same_lines_up_to_it(tmp_path: Path, through: int) -> None:
    source = sessions.make_segments(tmp_path / "a1", 3)
    assert copied(source, tmp_path / "b1", through) == through
    assert events(tmp_path / "b1") == events(source)[:through]


@pytest.mark.parametrize("through", [2, 3, 4])
def test_cut_through_a_batch_marks_its_first_events_as_a_batch(
    tmp_path: Path, through: int
) -> None:
    with sessions.open_inline(tmp_path / "a1") as engine:
        engine.append("counted", 1)
        engine.append_many([("counted", n) for n in (2, 3, 4)])
    copied(str(tmp_path / "a1"), tmp_path / "b1", through)
    found, original = events(tmp_path / "b1"), events(tmp_path / "a1")
    assert [one.data for one in found] == list(range(1, through + 1))
    assert [one.ts for one in found] == [one.ts for one in original[:through]]


def test_copy_goes_on_as_a_session_of_its_own(tmp_path: Path) -> None:
    source = sessions.make_session(tmp_path / "a1", 3)
    copied(source, tmp_path / "b1", 2)
    with sessions.unchanged(source), sessions.open_session(tmp_path / "b1") as engine:
        assert engine.recovery.clean
        assert engine.append("counted", 99).seq == 3
    assert sessions.state_of(tmp_path / "b1") == [1, 2, 99]


def test_torn_tail_of_the_source_is_left_out(tmp_path: Path) -> None:
    source = sessions.make_unclean(tmp_path / "a1", 3)
    segment = sessions.segment_path(source)
    segment.write_bytes(segment.read_bytes().rstrip(b"\t") + b'{"seq":4,"ts')
    assert copied(source, tmp_path / "b1") == 3


def test_snapshots_up_to_the_cut_come_along(tmp_path: Path) -> None:
    source = sessions.make_snapshots(tmp_path / "a1", 3)
    copied(source, tmp_path / "b1", 2)
    with sessions.open_session(tmp_path / "b1", mode="read") as engine:
        assert (engine.recovery.snapshot_seq, engine.recovery.replayed) == (2, 0)
        assert engine.state == [1, 2]


def test_pruned_source_is_copied_from_its_oldest_snapshot(tmp_path: Path) -> None:
    source = pruned(tmp_path)
    assert copied(source, tmp_path / "b1") == 4
    assert sessions.state_of(tmp_path / "b1") == [1, 2, 3, 4]


def test_seq_that_was_pruned_is_refused_with_the_oldest_that_is_left(tmp_path: Path) -> None:
    source = pruned(tmp_path)
    with pytest.raises(StorageError, match=r"Choose 3 or a later"):
        copied(source, tmp_path / "b1", 1)
    assert not (tmp_path / "b1").exists()


def pruned(tmp_path: Path) -> str:
    """Snapshots of 3 and 4 and nothing before them."""
    source = sessions.make_snapshots(tmp_path / "a1", 4)
    with sessions.open_inline(source) as engine:
        engine.prune()
    assert not sessions.segment_path(source, 1).exists()
    return source


@pytest.mark.parametrize("through", [5, EVERYTHING])
def test_damage_before_the_cut_is_refused(tmp_path: Path, through: int) -> None:
    source = sessions.make_segments(tmp_path / "a1", 3)
    sessions.flip_bit(sessions.segment_path(source, 2), 300)
    with pytest.raises(CorruptionError, match="Nothing was copied"):
        copied(source, tmp_path / "b1", through)


def test_damage_behind_the_cut_does_not_matter(tmp_path: Path) -> None:
    source = sessions.make_segments(tmp_path / "a1", 3)
    sessions.flip_bit(sessions.segment_path(source, 3), 300)
    assert copied(source, tmp_path / "b1", 4) == 4


def test_segment_without_events_keeps_its_number(tmp_path: Path) -> None:
    source = tmp_path / "a1"
    with sessions.open_inline(source, segment_bytes=1) as engine:
        sessions.append_all(engine, 3)
    copied(str(source), tmp_path / "b1")
    names = sorted(one.name for one in (tmp_path / "b1").glob("events_*"))
    assert names == sorted(one.name for one in source.glob("events_*"))


def test_blobs_that_the_copied_events_name_come_along_and_no_others(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a1") as engine:
        names = [engine.put_blob(text) for text in (b"one", b"two")]
        for name in names:
            engine.append("kept", {"$blob": {"hash": name, "size": 3, "kind": "text"}})
    copied(str(tmp_path / "a1"), tmp_path / "b1", 1)
    assert [one.name for one in (tmp_path / "b1/blobs").iterdir()] == [names[0]]


def test_damaged_session_is_not_copied(tmp_path: Path) -> None:
    """Damage that is seen before the log is read."""
    source = sessions.make_snapshots(tmp_path / "a1", 2)
    Path(source, "meta.json").unlink()
    for name in ("snapshot.json.zst", "snapshot.prev.json.zst"):
        Path(source, name).write_bytes(b"")
    sessions.segment_path(source, 1).unlink()
    with sessions.unchanged(source), pytest.raises(CorruptionError):
        branch.copy(
            RealFiles(),
            source,
            str(tmp_path / "b1"),
            through=EVERYTHING,
            created=CREATED,
            token=lambda: "t",
        )


def test_disk_that_takes_no_copy_is_an_error_of_the_system_and_the_source_is_whole() -> None:
    files = sessions.sim_disk()
    with sessions.open_sim(files) as engine:
        sessions.append_all(engine, 3)
    target = f"{sessions.SIM_PATH}-copy"
    before = {path: data for path, data in files.tree().items() if not path.startswith(target)}
    files.fail("write_at", code=errno.ENOSPC)
    with pytest.raises(StorageError, match="The session was only read") as raised:
        branch.copy(
            files,
            sessions.SIM_PATH,
            target,
            through=EVERYTHING,
            created=CREATED,
            token=lambda: "t",
        )
    assert raised.value.errno == errno.ENOSPC
    after = {path: data for path, data in files.tree().items() if not path.startswith(target)}
    assert after == before
    assert not files.descriptors


def test_session_without_events_is_copied_as_one(tmp_path: Path) -> None:
    with sessions.open_inline(tmp_path / "a1"):
        pass
    assert copied(str(tmp_path / "a1"), tmp_path / "b1") == 0
    with sessions.open_inline(tmp_path / "b1") as engine:
        assert engine.append("counted", 1).seq == 1


def test_session_of_which_snapshots_alone_are_left_keeps_its_schema_version(
    tmp_path: Path,
) -> None:
    source = sessions.make_snapshots(tmp_path / "a1", 2)
    for number in (1, 2):
        sessions.segment_path(source, number).unlink()
    Path(source, "snapshot.prev.json.zst").unlink()
    with sessions.unchanged(source):
        last = branch.copy(
            RealFiles(),
            source,
            str(tmp_path / "b1"),
            through=EVERYTHING,
            created=CREATED,
            token=lambda: "t",
        )
    assert last == 2
    assert sessions.state_of(tmp_path / "b1") == [1, 2]


def test_meta_of_another_session_is_refused(tmp_path: Path) -> None:
    source = sessions.make_session(tmp_path / "a1")
    other = sessions.make_session(tmp_path / "c1")
    Path(source, "meta.json").write_bytes(Path(other, "meta.json").read_bytes())
    with pytest.raises(CorruptionError, match="Rename the directory back"):
        copied(source, tmp_path / "b1")


def test_damage_behind_the_last_event_is_refused(tmp_path: Path) -> None:
    source = sessions.make_segments(tmp_path / "a1", 1)
    file = sessions.segment_path(source)
    sessions.flip_bit(file, file.read_bytes().index(b'"blake2b":"') + 12)
    with pytest.raises(CorruptionError, match="Nothing was copied"):
        copied(source, tmp_path / "b1")


def test_descriptor_of_a_copy_that_cannot_be_closed_is_closed_once() -> None:
    """Its number may be another file's by then."""
    files = sessions.sim_disk()
    with sessions.open_sim(files) as engine:
        sessions.append_all(engine, 3)
    target = f"{sessions.SIM_PATH}-copy"
    closed: list[int] = []
    original = files.close

    def close(fd: int) -> None:
        closed.append(fd)
        original(fd)
        if files.tree().get(f"{target}/events_0001.jsonl"):
            raise OSError(errno.EIO, "no close")

    files.close = close  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        branch.copy(
            files,
            sessions.SIM_PATH,
            target,
            through=EVERYTHING,
            created=CREATED,
            token=lambda: "t",
        )
    assert len(closed) == len(set(closed))


def test_segment_of_a_copy_that_cannot_be_made_closes_the_one_before_once() -> None:
    files = sessions.sim_disk()
    with sessions.open_sim(files) as engine:
        for n in (1, 2):
            engine.append("counted", n)
            engine.rotate()
    target = f"{sessions.SIM_PATH}-copy"
    closed: list[int] = []
    original = files.close

    def close(fd: int) -> None:
        closed.append(fd)
        original(fd)

    files.close = close  # type: ignore[method-assign]
    files.fail("create", where=f"{target}/events_0002.jsonl", code=errno.ENOSPC)
    with pytest.raises(StorageError, match="The session was only read") as raised:
        branch.copy(
            files,
            sessions.SIM_PATH,
            target,
            through=EVERYTHING,
            created=CREATED,
            token=lambda: "t",
        )
    assert raised.value.errno == errno.ENOSPC
    assert len(closed) == len(set(closed))
    assert not files.descriptors
