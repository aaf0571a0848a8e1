"""The turns of a writer that owns its session: every moment is one, and the anchor follows."""

import pytest

from durasess import SessionFailedError
from durasess.engine import lock
from durasess.engine.files import RealFiles
from durasess.engine.lock import IDLE
from durasess.engine.turns import Alone
from tests.support.sessions import SIM_PATH, append_all, open_inline, open_sim, sim_disk

LOCK = f"{SIM_PATH}/lock"


@pytest.fixture
def files():
    return sim_disk()


def anchor_of(files):
    return lock.read_anchor(files, SIM_PATH, "s1")


def test_anchor_is_where_the_log_was_acknowledged(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        receipt = engine.append("t", 1)
        anchor = lock.read_anchor(RealFiles(), str(tmp_path / "s1"), "s1")
        assert (anchor.seq, anchor.chain, anchor.segment) == (1, receipt.crc, 1)
        assert anchor.phase == IDLE


def test_lock_holds_one_line_and_spaces_whatever_was_there_before(files):
    engine = open_sim(files)
    for n in range(120):
        if n == 60:
            engine.rotate()
        if n % 7 == 3:
            files.fail("write_at", where=LOCK)
        engine.append("t", n)
        files.faults.clear()
        content = files.tree()[LOCK]
        assert (len(content), content.rstrip(b" ").count(b"\n")) == (lock.ANCHOR_BYTES, 1)
        assert n % 7 == 3 or anchor_of(files).seq == n + 1
    engine.close()


def test_anchor_that_cannot_be_written_is_a_notice(files):
    engine = open_sim(files)
    files.fail("write_at", where=LOCK)
    assert engine.append("t", 1).seq == 1
    assert any("anchor" in notice for notice in engine.notices)
    engine.close()


def test_anchor_that_can_never_be_written_does_not_fill_the_memory_with_notices(files):
    engine = open_sim(files)
    files.fail("write_at", where=LOCK, sticky=True)
    append_all(engine, 200)
    assert 1 <= len(engine.notices) < 150
    files.faults.clear()
    engine.close()


def test_owner_of_its_session_waits_for_nobody_and_is_always_the_last(files):
    engine = open_sim(files)
    engine.append("t", 1)
    turns = engine._writer._turns
    assert isinstance(turns, Alone)
    before = files.tree()
    turns.begin()
    turns.look()
    assert turns.keep()
    turns.end(None)
    turns.tell(SessionFailedError("failed"))
    assert turns.is_last()
    assert files.tree() == before
    assert files.lock(files.open(LOCK))
    engine.close()
