"""meta.json and the anchor claim only what is synced, and a failure of theirs costs no event."""

import errno

import pytest

from durasess import StorageError
from durasess.engine import lock, meta
from durasess.engine.files import RealFiles
from tests.support.sessions import (
    SIM_PATH,
    append_all,
    claims_of,
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


# write_anchor


def test_anchor_is_where_the_log_was_acknowledged(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        receipt = engine.append("t", 1)
        anchor = lock.read_anchor(RealFiles(), str(tmp_path / "s1"), "s1")
        assert (anchor.seq, anchor.chain, anchor.segment) == (1, receipt.crc, 1)


def test_anchor_that_cannot_be_written_is_a_notice():
    files = sim_disk()
    engine = open_sim(files)
    files.fail("write_at", where=f"{SIM_PATH}/lock")
    assert engine.append("t", 1).seq == 1
    assert any("anchor" in notice for notice in engine.notices)
    engine.close()


def test_anchor_that_can_never_be_written_does_not_fill_the_memory_with_notices():
    files = sim_disk()
    engine = open_sim(files)
    files.fail("write_at", where=f"{SIM_PATH}/lock", sticky=True)
    append_all(engine, 200)
    assert 1 <= len(engine.notices) < 150
    files.faults.clear()
    engine.close()


def test_reader_changes_nothing(tmp_path):
    path = make_session(tmp_path / "s1")
    with unchanged(path):
        open_inline(path, mode="read").close()
