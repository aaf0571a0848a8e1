"""verify reads every byte, says all that is wrong, never stops early and changes nothing."""

import errno
import zlib

import msgspec
import pytest

from durasess import FormatVersionError, SessionNotFoundError, StorageError
from durasess.engine import codec, snapshot
from durasess.engine.files import RealFiles
from durasess.engine.verify import verify
from tests.support.lines import write_next
from tests.support.sessions import (
    SIM_PATH,
    append_bytes,
    drop_line,
    duplicate_line,
    flip_bit,
    lines_of,
    make_segments,
    make_session,
    make_snapshots,
    make_unclean,
    open_inline,
    open_sim,
    replace_line,
    segment_path,
    sim_disk,
    swap_lines,
    unacknowledged,
    unchanged,
)


def verified(path):
    with unchanged(path):
        return verify(str(path), files=RealFiles())


def rules(path):
    return [damage.rule for damage in verified(path).damage]


@pytest.mark.parametrize("make", [make_session, make_unclean])
def test_sound_session_has_no_damage(tmp_path, make):
    report = verified(make(tmp_path / "s1"))
    assert (report.damage, report.torn) == ([], None)
    assert (report.first_seq, report.last_seq, report.session_id) == (1, 3, "s1")


def test_both_snapshots_are_checked(tmp_path):
    report = verified(make_snapshots(tmp_path / "s1", 3))
    assert [(one.seq, one.reason) for one in report.snapshots] == [(3, None), (2, None)]


@pytest.mark.parametrize("name", ["snapshot.json.zst", "snapshot.prev.json.zst"])
def test_bad_snapshot_is_found(tmp_path, name):
    path = make_snapshots(tmp_path / "s1", 3)
    flip_bit(tmp_path / "s1" / name, 30)
    assert rules(path) == ["snapshot"]


def test_bad_meta_is_found(tmp_path):
    path = make_session(tmp_path / "s1")
    flip_bit(tmp_path / "s1" / "meta.json", 30)
    assert rules(path) == ["meta"]


def test_every_damage_is_told_not_only_the_first(tmp_path):
    path = make_segments(tmp_path / "s1", 4)
    replace_line(segment_path(path, 1), 1, b"@@@@")
    replace_line(segment_path(path, 3), 2, b"@@@@")
    report = verified(path)
    assert {damage.path for damage in report.damage} >= {
        str(segment_path(path, 1)),
        str(segment_path(path, 3)),
    }
    assert report.last_seq == 8


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: drop_line(file, 2),
        lambda file: duplicate_line(file, 2),
        lambda file: swap_lines(file, 1, 2),
        lambda file: drop_line(file, 0),
        lambda file: flip_bit(file, 300),
        lambda file: append_bytes(file, b'{"seq":9}\n'),
        lambda file: append_bytes(file, b"\t"),
    ],
)
def test_damage_in_a_sealed_segment_is_found(tmp_path, damage):
    path = make_segments(tmp_path / "s1", 2, each=3)
    damage(segment_path(path, 1))
    report = verified(path)
    assert report.damage
    assert report.damage[0].path == str(segment_path(path, 1))


def test_missing_segment_is_found(tmp_path):
    path = make_segments(tmp_path / "s1", 3)
    segment_path(path, 2).unlink()
    assert rules(path) == ["missing"]


def test_torn_tail_is_told_and_is_no_damage(tmp_path):
    path = make_unclean(tmp_path / "s1")
    write_next(segment_path(path), unacknowledged(path, 4)[:20])
    report = verified(path)
    assert report.damage == []
    assert report.torn.size == 20


def test_foreign_names_are_listed(tmp_path):
    path = make_session(tmp_path / "s1")
    (tmp_path / "s1" / "notes.txt").write_text("mine")
    assert verified(path).foreign == ["notes.txt"]


def test_leftovers_below_a_gap_are_a_notice(tmp_path):
    path = make_snapshots(tmp_path / "s1", 5)
    segment_path(path, 2).unlink()
    report = verified(path)
    assert report.damage == []
    assert any("below a gap" in notice for notice in report.notices)


def test_snapshot_of_another_history_is_found(tmp_path):
    path = make_session(tmp_path / "s1")
    (tmp_path / "other").mkdir()
    make_snapshots(tmp_path / "other" / "s1", 2)
    for name in ("snapshot.json.zst", "snapshot.prev.json.zst"):
        data = (tmp_path / "other" / "s1" / name).read_bytes()
        (tmp_path / "s1" / name).write_bytes(data)
    assert "snapshot" in rules(path)


def test_event_whose_fields_are_no_event_is_found_though_its_crc_agrees(tmp_path):
    path = make_unclean(tmp_path / "s1")
    file = segment_path(path)
    head, _, _ = lines_of(file)[3].partition(b',"data"')
    chain = int(lines_of(file)[2][-10:-2], 16)
    replace_line(file, 3, b'%s,"crc":"%08x"}' % (head, zlib.crc32(head, chain)))
    assert rules(path)


def test_newer_format_is_refused(tmp_path):
    path = make_session(tmp_path / "s1")
    line = codec.control_line({"format": 9, "session_id": "s1"})
    (tmp_path / "s1" / "meta.json").write_bytes(line)
    with pytest.raises(FormatVersionError):
        verified(path)


def test_missing_session_is_not_found(tmp_path):
    with pytest.raises(SessionNotFoundError):
        verify(str(tmp_path / "s1"), files=RealFiles())


def test_error_of_the_system_is_raised_not_reported_as_damage():
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    engine.abandon()
    files.fail("read_at", where="events_0001.jsonl")
    with pytest.raises(StorageError) as caught:
        verify(SIM_PATH, files=files)
    assert caught.value.errno == errno.EIO


def test_line_ends_of_an_editor_are_a_notice(tmp_path):
    path = make_session(tmp_path / "s1", preallocate=0)
    file = segment_path(path)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert any("byte order mark" in notice for notice in verified(path).notices)


def test_event_id_that_a_snapshot_knows_otherwise_is_found(tmp_path, monkeypatch):
    with open_inline(tmp_path / "s1", compress=False) as engine:
        engine.append("t", 1, event_id="mine")
        engine.snapshot()
    assert rules(tmp_path / "s1") == []
    original = snapshot.parse

    def parse(data, session_id):
        trailer, document = original(data, session_id)
        known = [msgspec.structs.replace(one, digest="0" * 32) for one in document.event_ids]
        return trailer, msgspec.structs.replace(document, event_ids=known)

    monkeypatch.setattr(snapshot, "parse", parse)
    assert rules(tmp_path / "s1") == ["event_id"]
