"""meta.json claims only what is synced, and a failure of its costs no event."""

import errno

import msgspec
import pytest

from durasess import StorageError
from durasess.engine import meta
from durasess.engine.files import RealFiles
from tests.support.sessions import (
    SIM_PATH,
    append_all,
    claims_of,
    join,
    make_session,
    make_snapshots,
    open_inline,
    open_sim,
    sim_disk,
    unchanged,
)


def meta_of(path, files=None):
    return meta.read(files or RealFiles(), str(path))


# knows_newest_segment, publish


def test_first_append_waits_until_meta_knows_the_segment(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        assert meta_of(tmp_path / "s1").active == 0
        engine.append("t", 1)
        assert meta_of(tmp_path / "s1").active == 1


def test_meta_is_not_replaced_by_every_append(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("t", 1)
        before = (tmp_path / "s1" / "meta.json").read_bytes()
        append_all(engine, 20)
        assert (tmp_path / "s1" / "meta.json").read_bytes() == before


def test_floor_follows_with_each_segment(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        append_all(engine, 3)
        engine.rotate()
        receipt = engine.append("t", 4)
        floor = meta_of(tmp_path / "s1").floor
        assert (floor.seq, floor.segment) == (3, 1)
    floor = meta_of(tmp_path / "s1").floor
    assert (floor.seq, floor.crc) == (4, receipt.crc)


@pytest.mark.parametrize("kind", ["create", "write_at", "sync", "replace"])
def test_meta_that_cannot_be_replaced_refuses_the_append_and_the_next_one_works(kind):
    files = sim_disk()
    engine = open_sim(files)
    before = files.tree()[f"{SIM_PATH}/meta.json"]
    files.fail(kind, where="meta.json.tmp", code=errno.ENOSPC)
    with pytest.raises(StorageError, match=r"meta\.json could not be replaced"):
        engine.append("t", 1)
    assert files.tree()[f"{SIM_PATH}/meta.json"] == before
    assert f"{SIM_PATH}/meta.json.tmp" not in files.tree()
    assert engine.append("t", 1).seq == 1
    engine.close()


# set_baseline


def test_baseline_of_a_snapshot_is_published_with_the_next_segment_or_at_close(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    claims = claims_of(path)
    trailer = claims.snapshots[0].trailer
    assert claims.meta.baseline == meta.Baseline(2, trailer.segment, trailer.frame)
    assert claims.notices == []


# refresh: several writers


def ledger_of(engine):
    return engine._writer._ledger


def test_what_another_writer_published_is_taken_over_and_never_taken_back():
    files = sim_disk()
    one, other = join(files, summary=len), join(files)
    other.append("t", 1)
    one.append("t", 2)
    one.snapshot()
    one.append("t", 3)
    claimed = meta_of(SIM_PATH, files)
    assert (claimed.baseline.seq, claimed.active, claimed.summary.seq) == (2, 2, 2)
    other.append("t", 4)
    other.rotate()
    other.append("t", 5)
    later = meta_of(SIM_PATH, files)
    assert (later.baseline, later.active, later.floor.seq) == (claimed.baseline, 3, 4)
    assert later.summary == claimed.summary, "a writer without a summary leaves it"
    assert later.created == claimed.created
    assert later.epoch > claimed.epoch
    one.close()
    other.close()


def test_claims_only_grow_whoever_publishes():
    files = sim_disk()
    writers = [join(files) for _ in range(3)]
    before = meta_of(SIM_PATH, files)
    for turn in range(12):
        writer = writers[turn % 3]
        writer.append("t", turn)
        if turn % 2:
            writer.rotate()
        if turn % 5 == 4:
            writer.snapshot()
        claimed = meta_of(SIM_PATH, files)
        assert claimed.active >= before.active
        assert claimed.floor.seq >= before.floor.seq
        assert claimed.baseline.seq >= before.baseline.seq
        assert claimed.epoch >= before.epoch
        before = claimed
    for writer in writers:
        writer.close()
    assert open_sim(files, mode="read").damage == ()


def test_segment_that_another_writer_claimed_need_not_be_claimed_again():
    files = sim_disk()
    one, other = join(files), join(files)
    one.append("t", 1)
    before = files.tree()[f"{SIM_PATH}/meta.json"]
    other.append("t", 2)
    assert files.tree()[f"{SIM_PATH}/meta.json"] == before
    one.close()
    other.close()


@pytest.mark.parametrize("text", [None, b"", b"garbage"])
def test_meta_that_another_hand_broke_is_replaced_by_the_next_segment(text):
    files = sim_disk()
    engine = join(files)
    engine.append("t", 1)
    files.unlink(f"{SIM_PATH}/meta.json")
    if text is not None:
        fd = files.create(f"{SIM_PATH}/meta.json")
        files.write_at(fd, text, 0)
        files.close(fd)
    engine.rotate()
    engine.append("t", 2)
    claimed = meta_of(SIM_PATH, files)
    assert (claimed.active, claimed.floor.seq) == (2, 1)
    engine.close()


def test_meta_of_another_session_is_not_taken_over():
    files = sim_disk()
    engine = join(files)
    engine.append("t", 1)
    ledger = ledger_of(engine)
    foreign = msgspec.structs.replace(meta_of(SIM_PATH, files), session_id="s2", active=99)
    meta.publish(files, SIM_PATH, foreign)
    ledger.refresh()
    assert ledger._meta.session_id == "s1"
    engine.close()


def test_newer_snapshot_of_another_writer_is_known_at_once():
    files = sim_disk()
    one, other = join(files), join(files)
    one.append("t", 1)
    assert not ledger_of(other).has_newer_snapshot(1)
    one.snapshot()
    assert ledger_of(other).has_newer_snapshot(1)
    assert not ledger_of(other).has_newer_snapshot(2)
    assert ledger_of(other).baseline.seq == 1
    one.close()
    other.close()


def test_snapshot_is_claimed_before_others_can_replace_it_and_stays_claimed():
    files = sim_disk()
    one, other = join(files), join(files)
    one.append("t", 1)
    one.snapshot()
    assert meta_of(SIM_PATH, files).baseline.seq == 1
    other.append("t", 2)
    one.append("t", 3)
    assert meta_of(SIM_PATH, files).baseline.seq == 1
    one.close()
    other.close()


def test_owner_of_its_session_reads_nobody_elses_claims():
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    fault = files.fail("open", where="meta.json", sticky=True)
    ledger_of(engine).refresh()
    assert not ledger_of(engine).has_newer_snapshot(0)
    engine.rotate()
    engine.append("t", 2)
    assert fault.seen == 0
    files.faults.clear()
    engine.close()


# publish_if_changed


def test_open_and_close_without_an_append_leaves_every_claim_as_it_is(tmp_path):
    path = make_session(tmp_path / "s1")
    open_inline(path, snapshot_every=1_000_000).close()
    before = (tmp_path / "s1" / "meta.json").read_bytes()
    open_inline(path, snapshot_every=1_000_000).close()
    assert (tmp_path / "s1" / "meta.json").read_bytes() == before


def test_missing_meta_is_made_again_by_a_writer(tmp_path):
    path = make_session(tmp_path / "s1")
    (tmp_path / "s1" / "meta.json").unlink()
    open_inline(path).close()
    assert meta_of(path).floor.seq == 3


def test_missing_meta_is_made_again_from_the_snapshot_there_is(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    before = meta_of(path)
    (tmp_path / "s1" / "meta.json").unlink()
    with open_inline(path) as engine:
        engine.append("t", 3)
    claimed = meta_of(path)
    assert (claimed.baseline.seq, claimed.floor.seq) == (3, 3)
    (tmp_path / "s1" / "meta.json").unlink()
    open_inline(path).close()
    assert meta_of(path).baseline == claimed.baseline
    assert before.baseline.seq == 2


# summary


def test_summary_says_as_of_which_seq(tmp_path):
    with open_inline(tmp_path / "s1", summary=lambda state: {"count": len(state)}) as engine:
        append_all(engine, 3)
    summary = meta_of(tmp_path / "s1").summary
    assert (summary.seq, summary.data) == (3, {"count": 3})


def test_summary_that_raises_is_a_notice_and_the_old_one_stays(tmp_path):
    with open_inline(tmp_path / "s1", summary=len) as engine:
        append_all(engine, 2)
    engine = open_inline(tmp_path / "s1", summary=lambda state: 1 // 0)
    engine.append("t", 3)
    engine.close()
    assert any("ZeroDivisionError" in notice for notice in engine.notices)
    assert meta_of(tmp_path / "s1").summary.data == 2


def test_summary_that_is_too_large_does_not_stop_the_session(tmp_path):
    engine = open_inline(tmp_path / "s1", summary=lambda state: "x" * (meta.MAX_META_BYTES + 1))
    try:
        assert engine.append("t", 1).seq == 1
    finally:
        engine.abandon()


def test_reader_changes_nothing(tmp_path):
    path = make_session(tmp_path / "s1")
    with unchanged(path):
        open_inline(path, mode="read").close()
