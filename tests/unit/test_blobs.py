"""Blobs: stored once, proven when read, kept while anything names them, gone when nothing does."""

import errno
import hashlib
import json
import multiprocessing
import threading

import pytest

from durasess import (
    CorruptionError,
    DurasessError,
    EventRejectedError,
    SessionClosedError,
    SessionFailedError,
    StorageError,
)
from durasess.cli import layout
from durasess.cli.main import main
from durasess.engine import blobs
from durasess.engine.files import RealFiles
from durasess.engine.prune import prune
from durasess.engine.verify import verify
from tests.conformance import reference_reader
from tests.support.sessions import (
    cut_tail,
    flip_bit,
    open_inline,
    open_session,
    open_sim,
    segment_path,
    sim_disk,
    unchanged,
)

VALUE = b"value" * 1000


def hash_of(data):
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def reference_to(data):
    return {"$blob": {"hash": hash_of(data), "size": len(data), "kind": "bytes"}}


def blob_path(path, data=VALUE):
    return path / "blobs" / hash_of(data)


def names_in(path):
    return sorted(one.name for one in (path / "blobs").iterdir())


def newest(state, event):
    """A reducer that remembers only the newest event."""
    return event.data


def opened(path, **options):
    options.setdefault("initial", dict)
    return open_inline(path, apply=newest, **options)


def append_large(engine, data=VALUE):
    engine.put_blob(data)
    engine.append("t", reference_to(data))


def make_pruned_soon(path, **options):
    """A blob that only event 1 names, which both snapshots cover; closed."""
    with opened(path, **options) as engine:
        append_large(engine)
        for n in (2, 3):
            engine.append("t", n)
            engine.snapshot()


# Putting and reading


def test_blob_comes_back_under_its_hash(tmp_path):
    with opened(tmp_path / "s1") as engine:
        assert engine.put_blob(VALUE) == hash_of(VALUE)
        assert engine.put_blob(b"") == hash_of(b"")
        assert engine.put_blob(bytearray(b"ab")) == hash_of(b"ab")
        assert engine.read_blob(hash_of(VALUE)) == VALUE
    assert blob_path(tmp_path / "s1").read_bytes() == VALUE
    assert blob_path(tmp_path / "s1").stat().st_mode & 0o777 == 0o600


def test_blob_that_is_there_is_not_written_again():
    files = sim_disk()
    for _ in range(2):
        with open_sim(files) as engine:
            engine.put_blob(VALUE)
            engine.put_blob(VALUE)
    writes = [op for op in files.log if op.kind == "write" and op.data == VALUE]
    assert len(writes) == 1


def test_blob_that_was_deleted_is_written_again(tmp_path):
    with opened(tmp_path / "s1") as engine:
        engine.put_blob(VALUE)
        blob_path(tmp_path / "s1").unlink()
        engine.put_blob(VALUE)
        assert engine.read_blob(hash_of(VALUE)) == VALUE


@pytest.mark.parametrize("damaged", [b"", VALUE[:-1] + b"?", VALUE + b"!"])
def test_damaged_blob_is_replaced_and_its_bytes_are_kept(tmp_path, damaged):
    path = tmp_path / "s1"
    with opened(path) as engine:
        engine.put_blob(VALUE)
    blob_path(path).write_bytes(damaged)
    with opened(path) as engine:
        engine.put_blob(VALUE)
        assert engine.read_blob(hash_of(VALUE)) == VALUE
        assert "had other bytes and was replaced" in engine.notices[-1]
    assert [one.read_bytes() for one in (path / "quarantine").iterdir()] == [damaged]


def test_missing_blob_is_damage_with_its_path(tmp_path):
    nothing = pytest.raises(CorruptionError, match="expected a blob, found nothing")
    with opened(tmp_path / "s1") as engine, nothing as caught:
        engine.read_blob(hash_of(VALUE))
    assert caught.value.path == str(blob_path(tmp_path / "s1"))


def test_blob_with_other_bytes_is_damage_with_expected_and_found(tmp_path):
    with opened(tmp_path / "s1") as engine:
        engine.put_blob(VALUE)
        flip_bit(blob_path(tmp_path / "s1"), 700)
        with pytest.raises(CorruptionError, match=f"hash {hash_of(VALUE)}, found 5000 bytes"):
            engine.read_blob(hash_of(VALUE))


@pytest.mark.parametrize("hash", ["../owner", "0" * 63, "A" * 64, "", "0" * 64 + "\n", None])
def test_what_is_no_hash_is_refused(tmp_path, hash):
    refused = pytest.raises(ValueError, match="64 lower-case hex digits")
    with opened(tmp_path / "s1") as engine, refused:
        engine.read_blob(hash)


def test_what_is_no_bytes_is_refused(tmp_path):
    with opened(tmp_path / "s1") as engine:
        for data in ("text", 5, None):
            with pytest.raises(EventRejectedError, match="a blob is made of bytes"):
                engine.put_blob(data)
    assert not (tmp_path / "s1" / "blobs").exists()


def test_reader_reads_blobs_and_puts_none(tmp_path):
    with opened(tmp_path / "s1") as engine:
        engine.put_blob(VALUE)
    reader = opened(tmp_path / "s1", mode="read")
    with unchanged(tmp_path / "s1"), pytest.raises(StorageError, match='open with mode="read"'):
        reader.put_blob(b"other")
    assert reader.read_blob(hash_of(VALUE)) == VALUE


def test_closed_handle_puts_none(tmp_path):
    engine = opened(tmp_path / "s1")
    engine.close()
    with pytest.raises(SessionClosedError):
        engine.put_blob(VALUE)


def test_failed_handle_puts_none():
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    files.fail_sync()
    with pytest.raises(DurasessError):
        engine.append("t", 2)
    with pytest.raises(SessionFailedError):
        engine.put_blob(VALUE)
    assert not [name for name in files.tree() if "/blobs" in name]
    engine.abandon()


@pytest.mark.parametrize("kind", ["mkdir", "create", "write_at", "sync", "replace", "sync_dir"])
def test_refusal_of_the_system_leaves_no_half_and_the_handle_lives(kind):
    files = sim_disk()
    engine = open_sim(files)
    files.fail(kind, code=errno.ENOSPC)
    with pytest.raises(StorageError, match="put it again when the cause is gone") as caught:
        engine.put_blob(VALUE)
    assert caught.value.errno == errno.ENOSPC
    left = [data for name, data in files.tree().items() if "/blobs/" in name]
    assert left == ([VALUE] if kind == "sync_dir" else [])
    append_large(engine)
    assert engine.read_blob(hash_of(VALUE)) == VALUE
    engine.close()


def test_short_write_of_a_full_disk_leaves_nothing():
    files = sim_disk()
    engine = open_sim(files)
    files.short_write(100)
    with pytest.raises(StorageError):
        engine.put_blob(VALUE)
    assert not [name for name in files.tree() if "/blobs/" in name]
    engine.abandon()


def test_after_a_failed_sync_a_blob_is_written_anew():
    """What the failed sync left visible may not be on the disk, and no second sync would tell."""
    files = sim_disk()
    engine = open_sim(files)
    files.fail("sync_dir", where="blobs")
    with pytest.raises(StorageError):
        engine.put_blob(VALUE)
    since = len(files.log)
    engine.put_blob(VALUE)
    assert VALUE in [op.data for op in files.log[since:] if op.kind == "write"]
    engine.abandon()


# At the same time


def test_many_threads_put_the_same_blobs(tmp_path):
    with open_session(tmp_path / "s1") as engine:
        failures = []

        def work():
            try:
                for n in range(10):
                    append_large(engine, b"%d" % n * 2000)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
    assert names_in(tmp_path / "s1") == sorted(hash_of(b"%d" % n * 2000) for n in range(10))


def put_from_a_process(path):
    with open_session(path, mode="shared") as engine:
        for n in range(10):
            append_large(engine, b"%d" % n * 2000)


def test_processes_that_share_the_session_put_the_same_blobs(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=put_from_a_process, args=(str(tmp_path / "s1"),)) for _ in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert names_in(tmp_path / "s1") == sorted(hash_of(b"%d" % n * 2000) for n in range(10))
    assert verify(str(tmp_path / "s1"), files=RealFiles()).last_seq == 30


# Pruning


def test_blob_goes_with_the_last_event_that_named_it(tmp_path):
    make_pruned_soon(tmp_path / "s1")
    with opened(tmp_path / "s1") as engine:
        pruned = engine.prune()
        assert (pruned.blobs, pruned.blob_bytes) == ([hash_of(VALUE)], len(VALUE))
        assert (engine.state, engine.first_seq) == (3, 3)
    assert names_in(tmp_path / "s1") == []


@pytest.mark.parametrize(
    "data",
    [
        reference_to(VALUE),
        {"$blob": {"hash": "0" * 64, "size": 1, "kind": "json", "names": [hash_of(VALUE)]}},
        f"\f{hash_of(VALUE)}0",
        {hash_of(VALUE): 1},
    ],
)
@pytest.mark.parametrize("place", ["event", "state"])
def test_blob_stays_while_anything_mentions_it(tmp_path, data, place):
    make_pruned_soon(tmp_path / "s1")
    with opened(tmp_path / "s1") as engine:
        engine.append("t", data)
        if place == "state":
            engine.snapshot()
            engine.append("t", 5)
            engine.snapshot()
        engine.abandon()
    with opened(tmp_path / "s1") as engine:
        assert engine.prune().blobs == []
    assert names_in(tmp_path / "s1") == [hash_of(VALUE)]
    # One of these data names a blob that was never there.
    blob_path(tmp_path / "s1").unlink()
    segment_path(tmp_path / "s1", 1).unlink(missing_ok=True)


def test_blob_of_this_handle_stays_until_another_one(tmp_path):
    with opened(tmp_path / "s1") as engine:
        engine.put_blob(VALUE)
        assert engine.prune().blobs == []
    with opened(tmp_path / "s1") as engine:
        assert engine.prune().blobs == [hash_of(VALUE)]


def test_blob_that_is_put_while_prune_runs_stays():
    files = sim_disk()
    with open_sim(files) as engine:
        engine.put_blob(VALUE)
    engine = open_sim(files)
    files.meanwhile("sync_dir", lambda: engine._blobs.put(VALUE), where="s1")
    assert engine.prune().blobs == []
    assert engine.read_blob(hash_of(VALUE)) == VALUE
    engine.close()


def test_blob_stays_that_an_event_names_which_lacks_only_its_line_feed(tmp_path):
    path = tmp_path / "s1"
    make_pruned_soon(path, preallocate=0)
    with opened(path, preallocate=0) as engine:
        engine.append("t", reference_to(VALUE))
        engine.abandon()
    cut_tail(max(path.glob("events_*")), 1)
    (path / "lock").write_bytes(b"")
    prune(RealFiles(), str(path), apply=True, blobs=opened(path, mode="read")._blobs)
    with opened(path) as engine:
        assert engine.read_blob(engine.state["$blob"]["hash"]) == VALUE


def test_nothing_goes_while_another_writer_shares_the_session(tmp_path):
    make_pruned_soon(tmp_path / "s1", mode="shared")
    with opened(tmp_path / "s1", mode="shared") as engine:
        with opened(tmp_path / "s1", mode="shared"):
            pruned = engine.prune()
            assert (pruned.blobs, pruned.blobs_left) == ([], "another writer shares the session")
            assert names_in(tmp_path / "s1") == [hash_of(VALUE)]
        assert engine.prune().blobs == [hash_of(VALUE)]


def test_nothing_goes_while_the_log_is_damaged(tmp_path):
    """A flipped digit would hide a name."""
    path = tmp_path / "s1"
    with opened(path) as engine:
        append_large(engine)
        engine.rotate()
        engine.append("t", 2)
    at = segment_path(path).read_bytes().index(hash_of(VALUE).encode())
    flip_bit(segment_path(path), at)
    pruned = prune(RealFiles(), str(path), apply=True, blobs=opened(path, mode="read")._blobs)
    assert pruned.blobs == []
    assert "checksum" in pruned.blobs_left
    assert names_in(path) == [hash_of(VALUE)]


def test_leftovers_of_publishes_go_and_foreign_names_stay(tmp_path):
    make_pruned_soon(tmp_path / "s1")
    folder = tmp_path / "s1" / "blobs"
    for name in ("0" * 64 + ".1-2-3.tmp", "notes.txt", "0" * 63):
        (folder / name).write_bytes(b"x")
    with opened(tmp_path / "s1") as engine:
        engine.prune()
    assert names_in(tmp_path / "s1") == ["0" * 63, "notes.txt"]


def test_command_says_what_would_go_and_then_deletes_it(tmp_path, capsys):
    path = tmp_path / "s1"
    make_pruned_soon(path)
    with unchanged(path):
        assert main(["prune", str(path), "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["blobs"], planned["blob_bytes"]) == ([hash_of(VALUE)], len(VALUE))
    assert main(["prune", str(path), "--apply"]) == 0
    assert "1 blob" in capsys.readouterr().out
    assert names_in(path) == []


# Checking


def damage_of(path):
    """What verify finds, after the second reader found as much."""
    found = verify(str(path), files=RealFiles()).damage
    theirs = reference_reader.read_session(path).damage
    assert bool(found) == bool(theirs), (found, theirs)
    return found


def test_verify_reports_a_blob_with_other_bytes(tmp_path):
    path = tmp_path / "s1"
    with opened(path) as engine:
        append_large(engine)
    assert damage_of(path) == []
    flip_bit(blob_path(path), 0)
    (damage,) = damage_of(path)
    assert (damage.path, damage.rule, damage.first_seq) == (str(blob_path(path)), "blob", 1)
    assert f"expected bytes with the hash {hash_of(VALUE)}" in damage.reason


@pytest.mark.parametrize("in_state", [False, True])
def test_verify_reports_a_missing_blob_that_is_named(tmp_path, in_state):
    path = tmp_path / "s1"
    with opened(path, snapshot_every=10**6) as engine:
        append_large(engine)
        if in_state:
            engine.snapshot()
            engine.append("t", reference_to(VALUE))
            engine.snapshot()
            engine.prune()
    blob_path(path).unlink()
    (damage,) = damage_of(path)
    assert (damage.path, damage.rule) == (str(blob_path(path)), "blob")
    assert damage.reason == "expected a blob, found nothing"


def test_missing_blob_inside_of_another_is_reported(tmp_path):
    path = tmp_path / "s1"
    with opened(path) as engine:
        outer = {"hash": engine.put_blob(VALUE), "size": len(VALUE), "kind": "json"}
        engine.append("t", [{"$blob": {**outer, "names": [hash_of(b"inner")]}}])
    (damage,) = damage_of(path)
    assert damage.path == str(blob_path(path, b"inner"))


@pytest.mark.parametrize(
    "data",
    [
        {"$blob": {"literal": {"hash": "0" * 64, "size": 1, "kind": "text"}}},
        {**reference_to(VALUE), "more": 1},
        {"more": 1, **reference_to(VALUE)},
        {"$blob": {"size": 1, "hash": "0" * 64}},
        json.dumps(reference_to(VALUE), separators=(",", ":")),
        hash_of(VALUE),
    ],
)
def test_what_is_no_reference_needs_no_blob(tmp_path, data):
    with opened(tmp_path / "s1") as engine:
        engine.append("t", data)
    assert damage_of(tmp_path / "s1") == []


def test_blob_that_nothing_names_is_no_damage(tmp_path):
    with opened(tmp_path / "s1") as engine:
        engine.put_blob(VALUE)
    assert damage_of(tmp_path / "s1") == []


def test_layout_calls_blobs_blobs(tmp_path):
    path = tmp_path / "s1"
    make_pruned_soon(path)
    (path / "blobs" / ("0" * 64 + ".1-2-3.tmp")).write_bytes(b"")
    (path / "blobs" / "notes.txt").write_bytes(b"")
    (folder,) = (one for one in layout.entries(RealFiles(), str(path)) if one.kind == "blobs")
    kinds = {one.name: one.kind for one in folder.inside}
    assert kinds[hash_of(VALUE)] == "blob"
    assert sorted(kinds.values()) == ["blob", "foreign", "tmp"]


# What another process does in the same moment, and a disk that does not read


def test_blob_that_the_disk_does_not_read_is_an_error_of_the_system_not_damage():
    files = sim_disk()
    with open_sim(files) as engine:
        name = engine.put_blob(VALUE)
        files.fail("read_at", code=errno.EIO, where=name)
        with pytest.raises(StorageError, match="cannot be read") as raised:
            engine.read_blob(name)
        assert raised.value.errno == errno.EIO
        assert engine.read_blob(name) == VALUE


def test_blob_that_is_pruned_while_it_is_listed_is_simply_not_there():
    files = sim_disk()
    with open_sim(files) as engine:
        name = engine.put_blob(VALUE)
        files.fail("stat", code=errno.ENOENT, where=name)
        assert blobs.stored(files, engine.path) == {}
        assert blobs.stored(files, engine.path) == {name: len(VALUE)}


def test_blob_that_nothing_names_and_is_pruned_while_it_is_verified_is_no_damage():
    files = sim_disk()
    with open_sim(files) as engine:
        name = engine.put_blob(VALUE)
        engine.append("n", 1)
        files.fail("open", code=errno.ENOENT, where=name)
        assert verify(engine.path, files=files).damage == []


def test_blob_that_another_prune_took_first_is_removed_all_the_same():
    files = sim_disk()
    engine = open_sim(files)
    name = engine.put_blob(VALUE)
    engine.close()
    with open_sim(files) as engine:
        files.meanwhile("unlink", lambda: files.unlink(f"{engine.path}/blobs/{name}"), where=name)
        engine.prune()
        assert blobs.stored(files, engine.path) == {}
