"""What `durasess tail` reads by: every acknowledged event once and in order, whatever happens to
the files meanwhile, and never one that may still be withdrawn."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durasess import CorruptionError, Engine, FencedError, SessionNotFoundError
from durasess.cli import cursor
from durasess.cli.cursor import PATIENCE, Cursor
from durasess.engine import files, frames
from tests.cli import sessions


class Watch:
    """A cursor, and the seqs that it gave at each look; a gap is its text."""

    def __init__(self, path: Path, after: int = 0) -> None:
        self.cursor = Cursor(files.RealFiles(), str(path))
        self.first_seq = self.cursor.start(after)

    def look(self) -> list[Any]:
        """The seqs of one look."""
        return [told.event.seq if told.event else told.missing for told in self.cursor.read()]

    def looks(self, number: int) -> list[Any]:
        """The seqs of several looks."""
        return [seq for _ in range(number) for seq in self.look()]

    def until(self, number: int) -> list[Any]:
        """The seqs of as many looks as it takes."""
        found: list[Any] = []
        for _ in range(10_000):
            found += self.look()
            if len(found) >= number:
                break
            time.sleep(0.002)
        return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the session is."""
    return tmp_path / "s"


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    """An open session with three events."""
    with Engine.open(path) as engine:
        append(engine, 3)
        yield engine


def append(engine: Engine, number: int) -> None:
    """So many events, each a batch."""
    for n in range(number):
        engine.append("counted", {"n": n})


def newest(path: Path) -> Path:
    """The segment that is written to."""
    return sorted(path.glob("events_*.jsonl"))[-1]


def write_behind(path: Path, data: bytes) -> None:
    """Bytes behind the last line, before the filler."""
    with open(newest(path), "r+b") as segment:
        segment.seek(len(segment.read().rstrip(b"\t")))
        segment.write(data)


def test_each_look_gives_what_is_new(path: Path, engine: Engine) -> None:
    watch = Watch(path)
    assert watch.look() == [1, 2, 3] and watch.look() == []
    engine.append_many([("a", 1), ("b", 2)])
    assert watch.look() == [4, 5] and watch.look() == []


@pytest.mark.parametrize("after", [0, 1, 4, 6, 9, 30])
def test_it_begins_behind_a_seq_in_any_segment(after: int, path: Path, engine: Engine) -> None:
    for _ in range(3):
        engine.rotate()
        append(engine, 3)
    watch = Watch(path, after)
    assert watch.look() == list(range(after + 1, 13))
    append(engine, 20)
    assert watch.look() == list(range(max(after, 12) + 1, 33))


def test_it_goes_on_over_rotations_and_snapshots(path: Path, engine: Engine) -> None:
    watch = Watch(path)
    watch.look()
    engine.rotate()
    assert watch.look() == []
    append(engine, 2)
    engine.rotate()
    append(engine, 1)
    engine.snapshot()
    assert watch.look() == [4, 5, 6]
    append(engine, 1)
    assert watch.look() == [7]


def test_close_and_open_by_another_writer_lose_nothing(path: Path, engine: Engine) -> None:
    watch = Watch(path)
    watch.look()
    engine.close()
    assert watch.look() == []
    with Engine.open(path) as again:
        append(again, 2)
        assert watch.look() == [4, 5]


def test_copied_forward_segment_is_read_on_where_it_was_left(path: Path, engine: Engine) -> None:
    watch = Watch(path, 1)
    assert watch.look() == [2, 3]
    engine.abandon()
    write_behind(path, b'{"seq":4,"ts":"2026')
    assert watch.look() == []
    with Engine.open(path) as again:
        assert again.recovery.torn is not None
        assert watch.look() == []
        append(again, 1)
        assert watch.look() == [4]


def test_writers_that_share_are_followed_all(path: Path) -> None:
    with Engine.open(path, mode="shared") as one, Engine.open(path, mode="shared") as two:
        watch = Watch(path)
        for n in range(5):
            append(one, 1)
            append(two, 2)
            # The anchor says so at the end of the turn, which the caller does not wait for.
            assert watch.until(3) == [3 * n + 1, 3 * n + 2, 3 * n + 3]


def test_event_is_given_when_the_anchor_says_that_it_was_acknowledged(
    path: Path, engine: Engine
) -> None:
    watch = Watch(path)
    watch.look()
    before = (path / "lock").read_bytes()
    append(engine, 2)
    after = (path / "lock").read_bytes()
    (path / "lock").write_bytes(before)
    assert watch.looks(3) == [], "somebody has the session open and may withdraw it"
    (path / "lock").write_bytes(after)
    assert watch.look() == [4, 5]


def test_event_of_a_sealed_segment_was_acknowledged(path: Path, engine: Engine) -> None:
    watch = Watch(path)
    watch.look()
    before = (path / "lock").read_bytes()
    append(engine, 1)
    engine.rotate()
    (path / "lock").write_bytes(before)
    assert watch.look() == [4]


def test_when_nobody_is_writing_all_that_is_whole_is_given(path: Path, engine: Engine) -> None:
    watch = Watch(path)
    watch.look()
    before = (path / "lock").read_bytes()
    append(engine, 2)
    (path / "lock").write_bytes(before)
    engine.abandon()
    assert watch.look() == [4, 5]


def test_without_an_anchor_all_that_is_whole_is_given(path: Path, engine: Engine) -> None:
    (path / "lock").write_bytes(b"")
    assert Watch(path).look() == [1, 2, 3]


def test_pruned_segments_are_told_and_passed(path: Path, engine: Engine) -> None:
    engine.rotate()
    watch = Watch(path)
    assert watch.look() == [1, 2, 3]
    append(engine, 2)
    engine.snapshot()
    append(engine, 2)
    engine.snapshot()
    append(engine, 1)
    engine.prune()
    assert watch.look() == ["seq 4 to 5: not there any more", 6, 7, 8]
    assert Watch(path).first_seq == 6


def test_compressed_segment_is_read_like_a_plain_one(path: Path, engine: Engine) -> None:
    engine.rotate()
    append(engine, 1)
    plain = path / "events_0001.jsonl"
    (path / "events_0001.jsonl.zst").write_bytes(frames.compress(plain.read_bytes()))
    plain.unlink()
    assert Watch(path).look() == [1, 2, 3, 4]


def test_edited_line_ends_are_passed_over(tmp_path: Path) -> None:
    path = sessions.copy("clean", tmp_path)
    first = path / "events_0001.jsonl"
    first.write_bytes(b"\xef\xbb\xbf" + first.read_bytes().replace(b"\n", b"\r\n"))
    assert Watch(path).look() == list(range(1, 9))


def test_damage_is_believed_when_it_stays(tmp_path: Path) -> None:
    path = sessions.copy("damaged-middle", tmp_path)
    watch = Watch(path)
    assert watch.looks(PATIENCE - 1) == [1, 2, 3]
    with pytest.raises(CorruptionError, match="checksum") as found:
        watch.look()
    assert found.value.seq == 4


def test_damage_that_goes_away_was_a_write_in_flight(path: Path, engine: Engine) -> None:
    watch = Watch(path)
    watch.look()
    whole = newest(path).read_bytes()
    append(engine, 1)
    later = newest(path).read_bytes()
    at = len(whole.rstrip(b"\t"))
    for looks in (PATIENCE - 1, PATIENCE - 1):
        newest(path).write_bytes(later[: at + 20] + b"X" + later[at + 21 :])
        assert watch.looks(looks) == []
        newest(path).write_bytes(later)
        watch.look()
    append(engine, 1)
    assert watch.look() == [5]


def test_log_that_was_put_back_is_no_longer_the_one_that_was_shown(
    path: Path, engine: Engine
) -> None:
    engine.close()
    copy = path.with_name("copy")
    shutil.copytree(path, copy)
    with Engine.open(path) as again:
        append(again, 2)
    watch = Watch(path)
    assert watch.look() == [1, 2, 3, 4, 5]
    shutil.rmtree(path)
    copy.rename(path)
    with Engine.open(path) as again:
        again.append("other", {})
        assert watch.look() == [], "nothing that was shown is contradicted yet"
        append(again, 2)
        with pytest.raises(FencedError, match="no longer holds seq 5"):
            watch.look()


def test_replaced_segment_with_another_event_is_noticed(path: Path, engine: Engine) -> None:
    watch = Watch(path)
    watch.look()
    engine.abandon()
    segment = newest(path)
    lines = segment.read_bytes().rstrip(b"\t").splitlines(keepends=True)
    changed = segment.with_suffix(".tmp")
    changed.write_bytes(b"".join(lines[:-1]))
    (path / "lock").write_bytes(b"")
    changed.rename(segment)
    with Engine.open(path) as again:
        again.append("other", {})
        with pytest.raises(FencedError, match="no longer holds seq 3"):
            watch.looks(PATIENCE)
    shutil.rmtree(path)


def test_session_that_is_removed_ends_it(path: Path, engine: Engine) -> None:
    watch = Watch(path)
    watch.look()
    engine.close()
    shutil.rmtree(path)
    with pytest.raises(SessionNotFoundError):
        watch.looks(2)


def test_new_session_without_events_is_waited_for(path: Path) -> None:
    with Engine.open(path) as engine:
        watch = Watch(path)
        assert watch.looks(PATIENCE + 2) == []
        append(engine, 1)
        assert watch.look() == [1]


def test_line_that_is_no_event_is_damage(
    path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from durasess.engine.types import LineError

    def refuse(line: bytes) -> None:
        raise LineError("json", "no fields")

    monkeypatch.setattr(cursor.codec, "event", refuse)
    with pytest.raises(CorruptionError, match="no fields"):
        Watch(path).looks(PATIENCE)


def test_reading_changes_nothing(path: Path, engine: Engine) -> None:
    before = {one: (one.stat().st_mtime_ns, one.read_bytes()) for one in path.iterdir()}
    Watch(path).looks(3)
    assert {one: (one.stat().st_mtime_ns, one.read_bytes()) for one in path.iterdir()} == before
    assert json.loads((path / "lock").read_bytes())["seq"] == 3
