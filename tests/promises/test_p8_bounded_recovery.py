"""P8: time and memory to be ready again depend on the state and the tail, not on the history."""

import pytest

from durasess.engine.files import RealFiles
from durasess.engine.types import PREALLOCATE
from tests.support.sessions import open_inline


def count(state, _event):
    return state + 1


class Counting(RealFiles):
    """Counts what an open costs in calls and bytes."""

    def __init__(self):
        super().__init__()
        self.bytes = self.opened = self.stats = 0

    def read_at(self, fd, size, offset):
        data = super().read_at(fd, size, offset)
        self.bytes += len(data)
        return data

    def open(self, path, *, write=False):
        self.opened += 1
        return super().open(path, write=write)

    def stat(self, path):
        self.stats += 1
        return super().stat(path)

    def listdir(self, path):
        """`workers/` has one name for each live writer; only the session grows with its history."""
        assert path.endswith("/workers"), "an open never lists the directory"
        return super().listdir(path)


def session(path, events, *, tail=20, preallocate=0):
    """Many segments and snapshots, then a tail."""
    options = {"initial": int, "apply": count, "segment_bytes": 4000, "preallocate": preallocate}
    engine = open_inline(path, **options)
    for start in range(0, events, 250):
        engine.append_many([("t", n) for n in range(start, start + 250)])
        engine.snapshot()
    engine.append_many([("t", n) for n in range(tail)])
    engine.abandon()


def cost(path):
    """(bytes, opened files, looked-up names) of opening for reading."""
    files = Counting()
    engine = open_inline(str(path), initial=int, apply=count, files=files, mode="read")
    assert engine.recovery.replayed == 20
    return files.bytes, files.opened, files.stats


@pytest.mark.parametrize("preallocate", [0, PREALLOCATE])
def test_p8_open_of_a_ten_times_longer_history_reads_the_same(tmp_path, preallocate):
    session(tmp_path / "s1", 1000, preallocate=preallocate)
    session(tmp_path / "s2", 10_000, preallocate=preallocate)
    short, long = cost(tmp_path / "s1"), cost(tmp_path / "s2")
    assert long[1:] == short[1:]
    assert abs(long[0] - short[0]) < 200


def test_p8_has_teeth_without_the_snapshot_the_whole_history_is_read(tmp_path):
    session(tmp_path / "s1", 1000)
    expected = cost(tmp_path / "s1")[0]
    for name in ("snapshot.json.zst", "snapshot.prev.json.zst"):
        (tmp_path / "s1" / name).unlink()
    files = Counting()
    engine = open_inline(str(tmp_path / "s1"), initial=int, apply=count, files=files, mode="read")
    assert engine.recovery.replayed == 1020
    assert files.bytes > 10 * expected


def test_p8_filler_costs_an_open_less_than_one_step(tmp_path):
    session(tmp_path / "s1", 1000)
    session(tmp_path / "s2", 1000, preallocate=PREALLOCATE)
    without, with_filler = cost(tmp_path / "s1"), cost(tmp_path / "s2")
    assert with_filler[1:] == without[1:]
    assert 0 < with_filler[0] - without[0] < PREALLOCATE


def test_p8_append_reads_nothing(tmp_path):
    files = Counting()
    engine = open_inline(str(tmp_path / "s1"), files=files, initial=int, apply=count)
    engine.append("t", 0)
    before = files.bytes, files.opened
    for n in range(200):
        engine.append("t", n)
    assert (files.bytes, files.opened) == before
    engine.abandon()
