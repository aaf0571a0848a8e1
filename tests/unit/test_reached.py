"""Whether a log reaches what a receipt proves; changes nothing."""

import pytest

from durasess import CorruptionError, Receipt
from durasess.engine import recovery
from durasess.engine.files import RealFiles
from durasess.engine.fold import Fold
from tests.support.sessions import (
    collect,
    drop_line,
    make_snapshots,
    open_inline,
    segment_path,
    unchanged,
)

LIST = Fold(initial=list, apply=collect)


def recovered(path, *, at_least):
    return recovery.recover(RealFiles(), str(path), LIST, at_least=at_least, writer=False)


def receipts_of(path):
    engine = open_inline(path)
    found = [engine.append("t", n) for n in range(1, 5)]
    engine.snapshot()
    found.append(engine.append("t", 5))
    engine.close()
    return found


def test_every_receipt_of_the_log_is_reached(tmp_path):
    for receipt in receipts_of(tmp_path / "s1"):
        assert recovered(tmp_path / "s1", at_least=receipt).place.seq == 5


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seq": 6}, "1 acknowledged events are missing"),
        ({"crc": "00000000"}, "another event stands there"),
        ({"session_id": "s2"}, "of session 's2'"),
        ({"durable": False}, "proves nothing"),
    ],
)
@pytest.mark.parametrize("index", [1, 3, 4])
def test_receipt_that_is_not_reached_is_corruption(tmp_path, change, reason, index):
    receipt = receipts_of(tmp_path / "s1")[index]
    fields = {name: getattr(receipt, name) for name in ("session_id", "seq", "crc", "durable")}
    with unchanged(tmp_path), pytest.raises(CorruptionError, match=reason):
        recovered(tmp_path / "s1", at_least=Receipt(**{**fields, **change}))


def test_receipt_whose_segment_was_pruned_is_accepted(tmp_path):
    path = make_snapshots(tmp_path / "s1", 4)
    engine = open_inline(path)
    assert engine.prune().segments == [1, 2, 3]
    engine.close()
    assert recovered(path, at_least=Receipt("s1", 1, "00000000")).place.seq == 4


def test_receipt_whose_line_is_lost_before_the_snapshot_is_accepted(tmp_path):
    """What a snapshot covers need not be there any more."""
    path = tmp_path / "s1"
    with open_inline(path, compress=False) as engine:
        receipts = [engine.append("t", n) for n in range(1, 5)]
        engine.snapshot()
        engine.append("t", 5)
    for _ in range(3):
        drop_line(segment_path(path, 1), -1)
    assert recovered(path, at_least=receipts[2]).state == [1, 2, 3, 4, 5]


def test_receipt_before_a_segment_of_which_nothing_is_left_is_still_looked_for(tmp_path):
    """The snapshot covers the segment that lost its bytes; the one before it is whole."""
    path = tmp_path / "s1"
    with open_inline(path, compress=False) as engine:
        receipt = engine.append("t", 1)
        engine.snapshot()
        engine.append("t", 2)
        engine.snapshot()
    segment_path(path, 2).write_bytes(b"")
    assert recovered(path, at_least=receipt).state == [1, 2]
    with pytest.raises(CorruptionError, match="another event stands there"):
        recovered(path, at_least=Receipt("s1", 1, "00000000"))
