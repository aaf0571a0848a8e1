"""Segments that both snapshots cover become smaller, and stay what they were."""

import threading
from pathlib import Path
from typing import Any

import pytest
import zstandard

from durasess import Engine, EventRejectedError
from durasess.engine import compression, files, frames, paths
from durasess.engine.files import RealFiles
from durasess.engine.types import LineError
from durasess.engine.verify import verify
from tests.support.sessions import (
    append_all,
    collect,
    flip_bit,
    make_segments,
    open_descriptors,
    open_inline,
    open_session,
    segment_path,
    state_of,
)


def names(path: str | Path) -> list[str]:
    return sorted(one.name for one in Path(path).iterdir() if one.name.startswith("events_"))


def with_snapshots(path: Path | str, count: int, **options: Any) -> Engine:
    """One event in front of each snapshot; nothing runs beside it until it is asked for."""
    engine = open_inline(path, **options)
    for n in range(1, count + 1):
        engine.append("counted", n)
        engine.snapshot()
    return engine


# one segment


def test_a_segment_comes_back_from_zstd(tmp_path: Path) -> None:
    path = make_segments(tmp_path / "s1", 2)
    plain = segment_path(path, 1).read_bytes()
    assert compression.prepare(RealFiles(), path, 1)
    assert names(path) == ["events_0001.jsonl", "events_0002.jsonl"]
    assert (Path(path) / paths.COMPRESSING).exists()
    compression.publish(RealFiles(), path, 1)
    assert names(path) == ["events_0001.jsonl.zst", "events_0002.jsonl"]
    stored = (Path(path) / "events_0001.jsonl.zst").read_bytes()
    assert zstandard.ZstdDecompressor().stream_reader(stored).read() == plain
    assert open_descriptors(path) == []


@pytest.mark.parametrize("number", [1, 2])
def test_what_is_not_as_it_was_sealed_stays(tmp_path: Path, number: int) -> None:
    path = make_segments(tmp_path / "s1", 1)
    engine = open_inline(path)
    engine.append("counted", 3)
    engine.abandon()
    flip_bit(segment_path(path, 1), 250)
    before = names(path)
    with pytest.raises(LineError):
        compression.prepare(RealFiles(), path, number)
    assert names(path) == before


def test_memory_that_is_not_to_be_trusted_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_segments(tmp_path / "s1", 1)
    honest = frames.compress
    monkeypatch.setattr(frames, "compress", lambda data: honest(data.replace(b"1", b"7", 1)))
    with pytest.raises(LineError, match="does not come back equal"):
        compression.prepare(RealFiles(), path, 1)
    assert names(path) == ["events_0001.jsonl"]


def test_what_a_kill_left_half_compressed_goes_with_the_next_opening(tmp_path: Path) -> None:
    path = make_segments(tmp_path / "s1", 2)
    left = Path(path) / paths.COMPRESSING
    assert compression.prepare(RealFiles(), path, 1)
    assert state_of(path) == [1, 2, 3, 4]
    assert left.exists(), "a reader removes nothing"
    open_inline(path).close()
    assert not left.exists()
    assert names(path) == ["events_0001.jsonl", "events_0002.jsonl"]
    left.write_bytes(b"half")
    assert compression.prepare(RealFiles(), path, 2)
    compression.publish(RealFiles(), path, 2)
    assert names(path) == ["events_0001.jsonl", "events_0002.jsonl.zst"]


def test_a_segment_that_went_meanwhile_stays_gone(tmp_path: Path) -> None:
    path = make_segments(tmp_path / "s1", 2)
    compression.prepare(RealFiles(), path, 1)
    segment_path(path, 1).unlink()
    compression.publish(RealFiles(), path, 1)
    assert names(path) == ["events_0002.jsonl"]
    assert not (Path(path) / paths.COMPRESSING).exists()
    assert not compression.prepare(RealFiles(), path, 1)


def test_a_huge_segment_stays_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_segments(tmp_path / "s1", 1)
    monkeypatch.setattr(compression, "_MOST_BYTES", 100)
    assert not compression.prepare(RealFiles(), path, 1)


# when


def test_what_both_snapshots_cover_is_compressed_behind_a_snapshot(tmp_path: Path) -> None:
    engine = with_snapshots(tmp_path / "s1", 3)
    engine.close()
    assert names(tmp_path / "s1") == [
        "events_0001.jsonl.zst",
        "events_0002.jsonl.zst",
        "events_0003.jsonl",
    ]
    assert state_of(tmp_path / "s1") == [1, 2, 3]
    assert verify(str(tmp_path / "s1"), files=RealFiles()).damage == []


def test_nothing_is_compressed_when_told_so_and_caught_up_with_later(tmp_path: Path) -> None:
    path = tmp_path / "s1"
    with_snapshots(path, 4, compress=False).close()
    assert names(path) == [f"events_000{n}.jsonl" for n in range(1, 5)]
    engine = open_inline(path)
    append_all(engine, 1, first=5)
    engine.snapshot()
    engine.close()
    assert names(path) == [
        *(f"events_000{n}.jsonl.zst" for n in range(1, 5)),
        "events_0005.jsonl",
    ]
    assert [event.data for event in open_inline(path, mode="read").events()] == [1, 2, 3, 4, 5]


def test_one_snapshot_compresses_a_few_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "_ROUND", 2)
    path = tmp_path / "s1"
    with_snapshots(path, 6, compress=False).close()
    engine = open_inline(path)
    append_all(engine, 1, first=7)
    engine.snapshot()
    while engine._scheduler.run_background():
        pass
    assert [name.endswith("zst") for name in names(path)] == [True] * 2 + [False] * 5
    append_all(engine, 1, first=8)
    engine.snapshot()
    engine.close()
    assert [name.endswith("zst") for name in names(path)] == [True] * 4 + [False] * 4


def test_damage_is_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s1"
    engine = with_snapshots(path, 1)
    flip_bit(segment_path(path, 1), 250)
    for n in (2, 3):
        engine.append("counted", n)
        engine.snapshot()
    while engine._scheduler.run_background():
        pass
    assert "segment 1 is not what its seal says" in engine.notices[0]
    engine.close()
    assert names(path) == ["events_0001.jsonl", "events_0002.jsonl.zst", "events_0003.jsonl"]


def test_a_full_disk_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s1"
    engine = with_snapshots(path, 2)

    def refused(*arguments: Any) -> bool:
        raise files.disk_full()

    monkeypatch.setattr(compression, "prepare", refused)
    engine._scheduler.run_background()
    assert "could not be compressed and stays as it is" in engine.notices[0]
    monkeypatch.undo()
    append_all(engine, 1, first=3)
    engine.snapshot()
    engine.close()
    assert names(path)[:2] == ["events_0001.jsonl.zst", "events_0002.jsonl.zst"]


def test_a_failed_handle_publishes_nothing(tmp_path: Path) -> None:
    engine = with_snapshots(tmp_path / "s1", 2)
    engine._writer._log.failure = EventRejectedError("told to")
    engine._scheduler.run_background()
    assert "told to" in engine.notices[0]
    assert names(tmp_path / "s1")[0] == "events_0001.jsonl"
    engine.close()


def test_who_reads_the_plain_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "s1"
    engine = with_snapshots(path, 2)
    reader = open_inline(path, mode="read")
    events = reader.events()
    assert next(events).data == 1
    while engine._scheduler.run_background():
        pass
    assert names(path)[0] == "events_0001.jsonl.zst"
    assert [event.data for event in events] == [2]
    assert [event.data for event in reader.events()] == [1, 2]
    engine.close()


def test_writers_that_share_compress_while_one_is_alone(tmp_path: Path) -> None:
    path = tmp_path / "s1"
    one = open_session(path, mode="shared")
    other = open_session(path, mode="shared")
    for n in range(1, 4):
        one.append("counted", n)
        one.snapshot()
    other.close()
    assert [name.endswith("zst") for name in names(path)] == [False] * 3
    one.append("counted", 4)
    one.snapshot()
    one.close()
    assert [name.endswith("zst") for name in names(path)] == [True] * 3 + [False]


def test_a_prune_takes_compressed_segments_too(tmp_path: Path) -> None:
    path = tmp_path / "s1"
    engine = with_snapshots(path, 4)
    while engine._scheduler.run_background():
        pass
    assert engine.prune().segments == [1, 2, 3]
    engine.close()
    assert names(path) == ["events_0004.jsonl"]


def test_appends_go_on_beside_it(tmp_path: Path) -> None:
    """With real threads: a long session, every event there in the end, most of it compressed."""
    path = tmp_path / "s1"
    with Engine.open(path, initial=list, apply=collect, snapshot_every=20) as engine:
        threads = [
            threading.Thread(target=append_all, args=(engine, 100), kwargs={"first": first})
            for first in (1, 101, 201)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(state_of(path)) == list(range(1, 301))
    assert sorted(event.data for event in open_inline(path, mode="read").events()) == list(
        range(1, 301)
    )
    assert verify(str(path), files=RealFiles()).damage == []
    assert "events_0001.jsonl.zst" in names(path)


def test_handle_that_was_dropped_meanwhile_publishes_nothing_and_lets_go(tmp_path: Path) -> None:
    engine = with_snapshots(tmp_path / "s1", 2)
    engine._writer.lose()
    assert not engine._writer.is_released
    engine._scheduler.run_background()
    assert engine._writer.is_released
    assert names(tmp_path / "s1")[0] == "events_0001.jsonl"
    engine._closed = True
    assert open_descriptors(tmp_path / "s1") == []


@pytest.mark.parametrize("is_alone", [True, False])
def test_thread_that_cannot_be_started_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_alone: bool
) -> None:
    """Or ends before its first step, when others could begin."""
    path = tmp_path / "s1"
    engine = with_snapshots(path, 1)
    engine.append("counted", 2)
    if is_alone:
        original = engine._scheduler.background

        def refused(job: Any) -> None:
            if engine._scheduler.background_jobs or engine._writer._snapshots.seq == 2:
                raise RuntimeError("can't start new thread")
            original(job)

        monkeypatch.setattr(engine._scheduler, "background", refused)
        engine.snapshot()
        monkeypatch.undo()
        assert "can't start new thread" in engine.notices[0]
    else:
        engine.snapshot()
        engine._scheduler.background_jobs.clear()
    append_all(engine, 1, first=3)
    engine.snapshot()
    engine.close()
    assert names(path)[0] == "events_0001.jsonl.zst"


def test_job_that_was_given_up_is_not_finished_again(tmp_path: Path) -> None:
    """Its thread was taken for lost, and then comes back."""
    engine = with_snapshots(tmp_path / "s1", 2)
    compressor = engine._writer._snapshots._compressor
    job = compressor.under_way()
    assert job is not None
    compressor._finish(job, None, MemoryError("lost"))
    before = names(tmp_path / "s1")
    compressor._finish(job, 1, None)
    assert names(tmp_path / "s1") == before
    assert len(engine.notices) == 1
    engine.close()


def test_nothing_below_the_first_segment_is_compressed(tmp_path: Path) -> None:
    engine = open_inline(tmp_path / "s1")
    compressor = engine._writer._snapshots._compressor
    compressor.begin(1)
    assert compressor.under_way() is None and not engine._scheduler.background_jobs
    engine.close()
