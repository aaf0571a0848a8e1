"""The rules of the write and read path that one writer can break, each with the test that names it.

The protocol is checked on the log of operations that the disk in memory keeps; "teeth" tests break
a rule and see the check go red.
"""

import errno
import itertools
import os
import re
import subprocess
import sys

import pytest

from durasess import (
    CorruptionError,
    FencedError,
    SessionClosedError,
    SessionFailedError,
    SessionLockedError,
    StorageError,
)
from durasess.engine import codec, files, lock, snapshot, survey
from durasess.engine.log import Log
from durasess.engine.types import FILLER, PREALLOCATE
from tests.faults.tails import end_of_lines, with_and_without_filler, write_on
from tests.support.planting import unsynced
from tests.support.power_cuts import problems
from tests.support.sessions import (
    SIM_PATH,
    START_NS,
    append_bytes,
    clock,
    drop_line,
    lines_of,
    make_segments,
    make_session,
    make_snapshots,
    make_unclean,
    open_descriptors,
    open_inline,
    open_session,
    open_sim,
    segment_path,
    sim_disk,
    state_of,
    unacknowledged,
    unchanged,
)
from tests.support.sim_files import SimFiles

SEGMENT = re.compile(r"events_\d+\.jsonl")


@pytest.fixture
def disk():
    return sim_disk()


def busy(files):
    """A life with everything in it, a mark behind each acknowledgement."""
    engine = open_sim(files, segment_bytes=700)
    for n in range(12):
        engine.append_many([("t", n), ("t", -n)])
        files.mark("ack")
        if n % 4 == 3:
            engine.snapshot()
    engine.prune()
    engine.abandon()
    engine = open_sim(files)
    engine.append("t", "last")
    files.mark("ack")
    engine.close()


def names(files):
    """node → the names it had, in order."""
    found = {}
    for op in files.log:
        if op.kind == "link":
            found.setdefault(op.child, []).append(op.name)
        elif op.kind == "rename":
            found.setdefault(op.child, []).append(op.target_name)
    return found


def unsynced_segment_writes(files):
    """(segments with a write that is not synced, the operation) at each operation of the log. A cut
    takes back a write that begins behind it, not one that it only takes the filler from."""
    known = names(files)
    waiting = {}
    for op in files.log:
        yield dict(waiting), op
        if op.kind == "write" and any(SEGMENT.match(name) for name in known[op.node]):
            waiting.setdefault(op.node, op.offset)
        elif op.kind == "sync" or (op.kind == "truncate" and op.offset <= waiting.get(op.node, -1)):
            waiting.pop(op.node, None)


# Write path


def breaks_r1(files):
    return any(op.kind == "mark" and waiting for waiting, op in unsynced_segment_writes(files))


def test_r1_acknowledgement_comes_after_the_sync(disk):
    busy(disk)
    assert not breaks_r1(disk)


def test_r1_has_teeth(disk, monkeypatch):
    monkeypatch.setattr(Log, "sync", unsynced)
    busy(disk)
    assert breaks_r1(disk)


def test_r2_one_write_is_in_flight_and_a_batch_is_one_write(disk):
    busy(disk)
    for waiting, op in unsynced_segment_writes(disk):
        if op.kind == "write" and op.node in waiting:
            raise AssertionError(f"a second write before the sync: {op}")


def publications(files, pattern):
    """For each rename to a name like this: the kinds of operations on its file before, and whether
    the directory was synced before the next write to that file."""
    for index, op in enumerate(files.log):
        if op.kind == "rename" and re.fullmatch(pattern, op.target_name):
            before = [one.kind for one in files.log[:index] if one.node == op.child]
            after = []
            for one in files.log[index + 1 :]:
                after.append(one.kind)
                if one.node == op.child and one.kind == "write":
                    break
            yield before, after


def test_r3_segment_is_published_with_its_header_before_the_first_append(disk):
    busy(disk)
    found = list(publications(disk, SEGMENT.pattern))
    assert len(found) > 3
    for before, after in found:
        assert before[-1] == "sync"
        assert before.count("write") >= 1
        assert "write" not in after or "sync_dir" in after[: after.index("write")]


def test_r3_has_teeth_without_the_directory_sync(monkeypatch):
    monkeypatch.setattr(SimFiles, "sync_dir", lambda files, path: None)
    assert problems([1, "rotate", 1]) != []


def test_r4_new_session_is_built_aside_and_power_cuts_leave_all_or_nothing(disk):
    open_sim(disk).close()
    renamed = [op for op in disk.log if op.kind == "rename" and op.target_name == "s1"]
    assert [op.name.startswith(".s1.") for op in renamed] == [True]
    assert problems([]) == []


@pytest.mark.parametrize("pattern", [r"meta\.json", r"snapshot\.json\.zst"])
def test_r5_replaced_file_is_synced_before_its_rename(disk, pattern):
    busy(disk)
    found = list(publications(disk, pattern))
    assert found
    for before, _ in found:
        assert before[-1] == "sync"


def test_r5_has_teeth_without_the_sync_of_the_temporary_file(monkeypatch):
    real = SimFiles.sync

    def only_segments(disk, fd):
        if SEGMENT.search(disk.descriptors[fd].path) and ".tmp" not in disk.descriptors[fd].path:
            real(disk, fd)

    monkeypatch.setattr(SimFiles, "sync", only_segments)
    assert problems([1, "snapshot", 1]) != []


def test_r6_prune_deletes_oldest_first_and_keeps_what_both_snapshots_need(disk):
    make_snapshots(SIM_PATH, 4, files=disk)
    with open_sim(disk) as engine:
        engine.prune()
    gone = [op.name for op in disk.log if op.kind == "unlink" and SEGMENT.fullmatch(op.name)]
    assert gone == sorted(gone) == [f"events_000{n}.jsonl" for n in (1, 2, 3)]
    assert f"{SIM_PATH}/events_0004.jsonl" in disk.tree()


@pytest.mark.parametrize("left", [[], [1], [2], [1, 3], [1, 2, 3]])
def test_r6_unlinks_may_reach_the_disk_in_any_order(disk, left):
    make_snapshots(SIM_PATH, 5, files=disk)
    tree = disk.tree()
    for number in {1, 2, 3, 4} - set(left):
        del tree[f"{SIM_PATH}/events_000{number}.jsonl"]
    with open_sim(SimFiles.from_tree(tree)) as engine:
        assert (engine.state, engine.damage) == ([1, 2, 3, 4, 5], ())


def test_r7_snapshot_carries_session_seq_and_chain_and_meta_a_floor(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    claims = survey.look(files.RealFiles(), path)
    trailer = claims.snapshots[0].trailer
    assert (trailer.session_id, trailer.seq) == ("s1", 2)
    assert trailer.chain == claims.meta.floor.crc == claims.anchor.chain
    (tmp_path / "s1" / "snapshot.json.zst").unlink()
    assert state_of(path) == [1, 2]
    segment_path(path, 2).unlink()
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path)


def test_r8_snapshot_that_does_not_read_back_is_not_published(tmp_path, monkeypatch):
    engine = open_inline(tmp_path / "s1")
    engine.append("t", 1)
    engine.snapshot()
    before = (tmp_path / "s1" / "snapshot.json.zst").read_bytes()
    engine.append("t", 2)
    real = snapshot.encoded

    def flipped(content, **trailer):
        data = bytearray(real(content, **trailer))
        data[20] ^= 1
        return bytes(data)

    monkeypatch.setattr(snapshot, "encoded", flipped)
    with pytest.raises(StorageError):
        engine.snapshot()
    assert (tmp_path / "s1" / "snapshot.json.zst").read_bytes() == before
    monkeypatch.undo()
    assert engine.snapshot() == 2
    engine.close()


# Failure


def test_r9_failed_sync_is_never_tried_again_on_that_file(disk):
    engine = open_sim(disk)
    engine.append("t", 1)
    node = disk.descriptors[engine._writer._log._fd].node.number
    disk.fail_sync(where="events_0001.jsonl")
    with pytest.raises(SessionFailedError):
        engine.append("t", 2)
    since = len(disk.log)
    for use in (lambda: engine.append("t", 3), engine.flush, engine.rotate, engine.snapshot):
        with pytest.raises(SessionFailedError):
            use()
    engine.close()
    open_sim(disk).close()
    assert [op for op in disk.log[since:] if op.kind in ("sync", "write") and op.node == node] == []


def test_r9_next_open_does_not_trust_pages_that_may_differ_from_the_disk(disk):
    engine = open_sim(disk)
    engine.append("t", 1)
    disk.fail_sync(where="events_0001.jsonl", pages="keep")
    with pytest.raises(SessionFailedError):
        engine.append("t", 2)
    engine.close()
    with open_sim(disk) as again:
        receipt = again.append("t", 3)
    disk.restart()
    with open_sim(disk, at_least=receipt) as again:
        assert again.state == [1, 2, 3]


@with_and_without_filler
def test_r10_short_write_is_cut_back_to_the_last_whole_batch(disk, preallocate):
    """The filler goes with it: what a write left in it must not be mixed with the next."""
    engine = open_sim(disk, preallocate=preallocate)
    engine.append("t", 1)
    before = disk.tree()[f"{SIM_PATH}/events_0001.jsonl"]
    disk.short_write(-1, then=None, where="events_0001.jsonl")
    with pytest.raises(StorageError):
        engine.append("t", 2)
    assert disk.tree()[f"{SIM_PATH}/events_0001.jsonl"] == before.rstrip(FILLER)
    assert [op.kind for op in disk.log[-2:]] == ["truncate", "sync"]
    assert engine.append("t", 2).seq == 2
    engine.close()


@with_and_without_filler
def test_r10_line_without_its_line_feed_is_no_event_for_a_reader(tmp_path, preallocate):
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    write_on(segment_path(path), unacknowledged(path, 4)[:-1])
    assert state_of(path) == [1, 2, 3]
    text = segment_path(path).read_bytes().split(b"\n")[-1]
    assert codec.event(text.rstrip(FILLER)).data == 4


@pytest.mark.parametrize("kind", ["write_at", "sync", "size", "leads_to"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit, RuntimeError])
def test_r11_any_exception_in_a_commit_fails_the_handle(disk, monkeypatch, kind, error):
    engine = open_sim(disk)
    engine.append("t", 1)

    def raising(*_arguments, **_more):
        raise error("stop")

    monkeypatch.setattr(disk, kind, raising)
    with pytest.raises((error, SessionFailedError)):
        engine.append("t", 2)
    monkeypatch.undo()
    assert (engine.state, engine.last_seq) == ([1], 1)
    with pytest.raises(SessionFailedError):
        engine.append("t", 3)
    engine.close()
    with open_sim(disk) as again:
        assert again.state in ([1], [1, 2])


def test_r12_unsealed_segment_of_another_is_copied_forward_never_appended_to(tmp_path):
    path = make_unclean(tmp_path / "s1")
    before = lines_of(segment_path(path))
    inode = segment_path(path).stat().st_ino
    with open_inline(path) as engine:
        engine.append("t", 4)
    after = lines_of(segment_path(path))
    assert after[:-1] == before
    assert after[-1].startswith(b'{"seal":1')
    assert segment_path(path).stat().st_ino != inode
    assert segment_path(path, 2).exists()


@pytest.mark.parametrize("call", ["mkdir", "unlink", "rmdir"])
def test_r13_interrupted_calls_are_tried_again(tmp_path, monkeypatch, call):
    real, left = getattr(os, call), [1, 1]

    def interrupted(*arguments):
        if left:
            left.pop()
            raise InterruptedError(errno.EINTR, "interrupted")
        return real(*arguments)

    monkeypatch.setattr(os, call, interrupted)
    disk = files.RealFiles()
    if call == "mkdir":
        disk.mkdir(str(tmp_path / "d"))
        assert (tmp_path / "d").is_dir()
    else:
        target = tmp_path / "gone"
        target.mkdir() if call == "rmdir" else target.touch()
        getattr(disk, call)(str(target))
        assert not target.exists()
    assert left == []


def test_r13_interrupted_rename_that_happened_is_not_tried_again(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    real = os.replace

    def interrupted(source, target):
        real(source, target)
        raise InterruptedError(errno.EINTR, "interrupted")

    monkeypatch.setattr(os, "replace", interrupted)
    files.RealFiles().replace(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "b").read_text() == "new"


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS])
def test_r14_directory_sync_that_the_system_does_not_have_is_passed_over(
    tmp_path, monkeypatch, code
):
    monkeypatch.setattr(os, "fsync", failing(code))
    files.RealFiles().sync_dir(str(tmp_path))


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_r14_directory_sync_that_fails_is_an_error(tmp_path, monkeypatch, code):
    monkeypatch.setattr(os, "fsync", failing(code))
    with pytest.raises(OSError):
        files.RealFiles().sync_dir(str(tmp_path))
    assert open_descriptors(tmp_path) == []


def failing(code):
    def fsync(_fd):
        raise OSError(code, "no")

    return fsync


def test_r14_directory_sync_that_fails_stops_the_handle(disk):
    engine = open_sim(disk)
    disk.fail("sync_dir", where="s1")
    with pytest.raises(SessionFailedError):
        engine.append("t", 1)
    engine.close()
    with open_sim(disk) as again:
        assert again.append("t", 1).seq == 1


@with_and_without_filler
@pytest.mark.parametrize("foreign", [b"x", b'{"seq":2}\n', b"\0" * 512, b"\t", b"\t" * PREALLOCATE])
def test_r15_foreign_growth_is_seen_before_the_next_append(tmp_path, foreign, preallocate):
    engine = open_inline(tmp_path / "s1", preallocate=preallocate)
    engine.append("t", 1)
    append_bytes(segment_path(tmp_path / "s1"), foreign)
    before = segment_path(tmp_path / "s1").read_bytes()
    with pytest.raises(FencedError):
        engine.append("t", 2)
    assert segment_path(tmp_path / "s1").read_bytes() == before
    engine.close()


def test_r15_foreign_append_behind_the_filler_is_seen_wherever_the_writer_is_in_it(tmp_path):
    """Not only when the next line would not fit: the size is looked at before each append."""
    engine = open_inline(tmp_path / "s1")
    for n in range(5):
        engine.append("t", n)
    end = end_of_lines(segment_path(tmp_path / "s1"))
    foreign = unacknowledged(tmp_path / "s1", "foreign")
    append_bytes(segment_path(tmp_path / "s1"), foreign)
    with pytest.raises(
        FencedError, match=rf"its size is \d+ bytes, not the {PREALLOCATE} written here"
    ):
        engine.append("t", 5)
    assert (engine.state, engine.last_seq) == ([0, 1, 2, 3, 4], 5)
    engine.close()
    with open_inline(tmp_path / "s1") as again:
        assert (again.state, again.recovery.torn.offset) == ([0, 1, 2, 3, 4], end)


def test_r15_stale_writer_that_overwrites_its_filler_is_stopped_by_the_name(disk, monkeypatch):
    """Its file keeps its size, so only the name tells: an open by another has put a new file in
    its place. What the stale writer puts into the old file is in no log and is not acknowledged."""
    stale = open_sim(disk)
    stale.append("t", 1)
    disk.unlink(f"{SIM_PATH}/owner")
    with open_sim(disk, clock=clock(2 * START_NS)) as second:
        monkeypatch.setattr(stale._writer, "check_owner", lambda: None)
        with pytest.raises(FencedError, match="the name leads to another file now"):
            stale.append("t", "stale")
        assert (stale.state, stale.last_seq) == ([1], 1)
        with pytest.raises(FencedError):
            stale.append("t", "stale")
        stale.abandon()
        assert second.append("t", 2).seq == 2
    with open_sim(disk) as again:
        assert (again.state, again.damage) == ([1, 2], ())


@pytest.mark.parametrize(
    "call, name",
    [("open", "lock"), ("create", "events_0001.jsonl.tmp")],
    ids=["before the copy is read", "before the copy takes the name"],
)
def test_r15_writer_that_is_alive_beside_an_open_is_seen_by_what_it_puts_into_its_filler(
    disk, monkeypatch, call, name
):
    """The size stays, so all bytes behind the last whole batch are compared (R12)."""
    alive = open_sim(disk)
    alive.append("t", 1)
    disk.unlink(f"{SIM_PATH}/owner")
    monkeypatch.setattr(alive._writer, "check_owner", lambda: None)
    real = getattr(disk, call)
    meanwhile = []

    def appended_meanwhile(path, **how):
        if path.endswith(name) and not meanwhile and (call == "create" or how == {"write": True}):
            meanwhile.append(alive.append("t", 2).seq)
        return real(path, **how)

    monkeypatch.setattr(disk, call, appended_meanwhile)
    with pytest.raises(FencedError, match="Another writer is at work; nothing was replaced"):
        open_sim(disk, clock=clock(2 * START_NS))
    assert meanwhile == [2]
    assert alive.append("t", 3).seq == 3
    alive.abandon()
    assert open_sim(disk, mode="read").state == [1, 2, 3]


def test_r15_holds_under_python_o(tmp_path):
    """The check is no assert, which -O would remove."""
    code = (
        "import sys\n"
        "from tests.support.sessions import *\n"
        "from durasess import FencedError\n"
        "e = open_inline(sys.argv[1]); e.append('t', 1)\n"
        "append_bytes(segment_path(sys.argv[1]), b'x')\n"
        "try: e.append('t', 2)\n"
        "except FencedError: print('fenced')\n"
        "e.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-O", "-c", code, str(tmp_path / "s1")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert (done.stdout, done.stderr) == ("fenced\n", "")


# Read path


@pytest.mark.parametrize("blank", [b"\0", FILLER])
@pytest.mark.parametrize("filler", [b"", FILLER, FILLER * 511, FILLER * 512, FILLER * 3000])
def test_r16_only_the_last_batch_of_the_active_segment_can_be_torn(tmp_path, blank, filler):
    """With any filler behind the write, and with zeros or the filler under it where it is lost."""
    path = make_unclean(tmp_path / "s1", preallocate=0)
    file = segment_path(path)
    whole = file.read_bytes()
    line = unacknowledged(path, "x" * 2000)
    hole = len(whole) // 512 * 512 + 512

    def with_hole(size):
        content = whole + line
        return content[:hole] + blank * size + content[hole + size :]

    for torn in (line[:50], line[:-1], b"\0" * 700, b"\0", with_hole(512)[len(whole) :]):
        file.write_bytes(whole + torn + filler)
        assert open_session(path, mode="read").damage == ()
        assert open_session(path, mode="read").recovery.torn.size == len(torn)
    file.write_bytes(whole + filler)
    assert open_session(path, mode="read").recovery.torn is None
    flipped = line.replace(b'"counted"', b'"cOunted"')
    last = lines_of(file)[-1]
    damaged = [
        with_hole(100),
        with_hole(511),
        with_hole(513),
        whole + flipped,
        whole + b"\n",
        whole + line[:50] + b"\n",
        whole + line + FILLER + line,
        whole[:-40] + b"\0" * 40,
        whole[: -len(last) - 1] + last[:-1] + b" \n",
    ]
    for content in damaged:
        file.write_bytes(content + filler)
        with unchanged(path), pytest.raises(CorruptionError):
            open_inline(path)
    file.write_bytes(whole)


@pytest.mark.parametrize("blank", [b"\0", FILLER])
def test_r16_lost_sectors_of_one_batch_are_torn_in_every_combination(disk, blank):
    """Whatever is there of the write in flight, the batches before it come back; all of them, when
    nothing is lost."""
    engine = open_sim(disk, preallocate=512)
    engine.append("t", 1)
    segment = f"{SIM_PATH}/events_0001.jsonl"
    before = disk.tree()
    start = len(before[segment].rstrip(FILLER))
    engine.append_many([("t", "a" * 400), ("t", "b" * 400), ("t", "c" * 400)])
    engine.abandon()
    written = disk.tree()[segment]
    end = len(written.rstrip(FILLER))
    bounds = [start, *range((start // 512 + 1) * 512, end, 512), end]
    pieces = list(itertools.pairwise(bounds))
    assert len(pieces) >= 3
    for count in range(1, len(pieces) + 1):
        for lost in itertools.combinations(pieces, count):
            data = bytearray(written)
            for first, last in lost:
                data[first:last] = blank * (last - first)
            with open_sim(SimFiles.from_tree({**before, segment: bytes(data)})) as again:
                assert again.state == [1], lost
    with open_sim(SimFiles.from_tree({**before, segment: written})) as again:
        assert again.state == [1, "a" * 400, "b" * 400, "c" * 400]


def test_r16_sealed_segment_is_without_filler_before_its_seal_counts(disk):
    """Cut off behind the seal's write and before its sync: a crash leaves both or has neither
    sealed, and no name or floor is published in between."""
    busy(disk)
    seals = [
        index
        for index, op in enumerate(disk.log)
        if op.kind == "write" and op.data.startswith(b'{"seal":')
    ]
    cut = 0
    for index in seals:
        seal, *after = disk.log[index : index + 3]
        if after[0].kind == "truncate":
            assert after[0].node == seal.node
            assert after[0].offset == seal.offset + len(seal.data.rstrip(FILLER))
            cut += 1
            del after[0]
        assert (after[0].kind, after[0].node) == ("sync", seal.node)
    assert cut > 3


@pytest.mark.parametrize("filler", [FILLER, FILLER * 512])
def test_r16_filler_behind_a_seal_is_nothing_in_the_newest_segment_and_damage_before_it(
    tmp_path, filler
):
    path = make_segments(tmp_path / "s1", 2)
    for number in (2, 1):
        data = segment_path(path, number).read_bytes()
        segment_path(path, number).write_bytes(data + filler)
        if number == 2:
            assert open_session(path, mode="read").damage == ()
            assert open_session(path, mode="read").recovery.torn is None
        else:
            with unchanged(path), pytest.raises(CorruptionError, match="behind the seal"):
                open_inline(path)
        segment_path(path, number).write_bytes(data)


def test_r16_cut_in_a_sealed_or_older_segment_is_damage(tmp_path):
    path = make_segments(tmp_path / "s1", 2)
    for number in (1, 2):
        data = segment_path(path, number).read_bytes()
        segment_path(path, number).write_bytes(data[:-10])
        if number == 1:
            with unchanged(path), pytest.raises(CorruptionError):
                open_inline(path)
        segment_path(path, number).write_bytes(data)


def test_r17_damage_refuses_the_writer_and_names_file_offset_and_seq(tmp_path):
    path = make_segments(tmp_path / "s1", 3)
    drop_line(segment_path(path, 2), 1)
    with unchanged(path), pytest.raises(CorruptionError) as caught:
        open_inline(path)
    error = caught.value
    assert (error.path, error.seq) == (str(segment_path(path, 2)), 3)
    assert error.offset == len(lines_of(segment_path(path, 2))[0]) + 1
    assert 'durasess repair"' in str(error)


def test_r18_lines_end_at_line_feeds_only(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("t", "a\u2028b\u2029c\u0085d\x1ce\x0bf\x0cg\rh")
    data = segment_path(tmp_path / "s1").read_bytes()
    assert len(data.decode().splitlines()) == data.count(b"\n") == 3


@with_and_without_filler
def test_r19_reader_stops_at_the_last_whole_batch(tmp_path, preallocate):
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    write_on(segment_path(path), b"".join(lines_and_ends(unacknowledged(path, 4, 5))[:1]))
    reader = open_session(path, mode="read")
    assert (reader.state, reader.damage) == ([1, 2, 3], ())


def lines_and_ends(data):
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def test_r20_every_cut_and_flip_of_a_snapshot_is_found(disk):
    make_snapshots(SIM_PATH, 1, files=disk)
    data = disk.tree()[f"{SIM_PATH}/snapshot.json.zst"]
    for size in range(len(data)):
        with pytest.raises(Exception) as caught:
            snapshot.parse(data[:size], "s1")
        assert type(caught.value).__name__ == "LineError"
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        with pytest.raises(Exception) as caught:
            snapshot.parse(changed, "s1")
        assert type(caught.value).__name__ == "LineError", at


# Processes


def test_r21_lock_is_taken_on_the_file_that_others_will_lock(disk, monkeypatch):
    open_sim(disk).close()
    real = SimFiles.lock
    swaps = [1, 1]

    def swapped(files, fd, *, shared=False, wait=False):
        if swaps:
            swaps.pop()
            files.unlink(f"{SIM_PATH}/owner")
            files.close(files.create(f"{SIM_PATH}/owner"))
        return real(files, fd, shared=shared, wait=wait)

    monkeypatch.setattr(SimFiles, "lock", swapped)
    fd = lock.acquire_owner(disk, SIM_PATH)
    assert disk.fstat(fd).inode == disk.stat(f"{SIM_PATH}/owner").inode


def test_r21_lock_files_are_never_unlinked(disk):
    busy(disk)
    assert [op for op in disk.log if op.kind == "unlink" and op.name in ("owner", "lock")] == []


def test_r21_forked_child_is_dead_and_the_parent_keeps_the_lock(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                engine.append("t", 1)
            except SessionClosedError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        with pytest.raises(SessionLockedError):
            open_session(tmp_path / "s1")


def test_r21_descriptors_do_not_go_to_programs_that_are_started(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        engine.append("t", 1)
        assert open_descriptors(os.path.realpath(tmp_path))
        for name in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{name}")
            except FileNotFoundError:
                continue
            if target.startswith(os.path.realpath(tmp_path)):
                assert not os.get_inheritable(int(name))


def test_r22_files_never_get_the_descriptors_of_standard_streams(tmp_path):
    code = (
        "import os, sys\n"
        "from tests.support.sessions import *\n"
        "path = sys.argv[1]\n"
        "os.close(0)\n"
        "e = open_inline(path); e.append('t', 1); e.snapshot()\n"
        "fds = [n for n in (0, 1, 2) if os.path.exists(f'/proc/self/fd/{n}')\n"
        "       and os.readlink(f'/proc/self/fd/{n}').startswith(path)]\n"
        "e.close(); print(fds)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, os.path.realpath(tmp_path / "s1")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_r22_two_names_of_a_directory_are_one_session(tmp_path):
    make_session(tmp_path / "s1")
    (tmp_path / "link").symlink_to(tmp_path / "s1")
    with open_session(tmp_path / "link"), pytest.raises(SessionLockedError):
        open_session(tmp_path / "s1")


def test_r23_header_says_who_made_the_segment(tmp_path):
    for n in range(3):
        with open_inline(tmp_path / "s1", snapshot_every=10**9, compress=False) as engine:
            engine.append("t", n)
    headers = [
        codec.control(lines_of(segment_path(tmp_path / "s1", number))[0]) for number in (1, 2, 3)
    ]
    assert [header["epoch"] for header in headers] == [1, 2, 3]
    assert {header["pid"] for header in headers} == {os.getpid()}
    assert headers[0]["boot_id"] == files.boot_id()


def test_r23_lines_of_a_fenced_writer_do_not_follow_its_successors_chain(tmp_path):
    path = make_unclean(tmp_path / "s1")
    late = unacknowledged(path, "late")
    with open_inline(path) as engine:
        engine.append("t", 4)
        append_bytes(segment_path(path), late)
    lose_snapshots(path)
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path)


def lose_snapshots(path):
    """So that recovery needs the whole log."""
    for name in ("snapshot.json.zst", "snapshot.prev.json.zst"):
        if os.path.exists(f"{path}/{name}"):
            os.unlink(f"{path}/{name}")
