"""The simulated disk itself: what the live view shows, what survives a power cut, what fails."""

import errno

import pytest

from durasess.engine.files import RealFiles
from durasess.engine.publishing import write_all, write_tmp
from tests.support.crash_states import (
    SECTOR,
    Settings,
    crash_states,
    cuts,
    entry_key,
    tree_key,
)
from tests.support.sim_files import Killed, Op, SimFiles

WEAKEST = Settings()


def disk(**files):
    return SimFiles.from_tree({"/d": None, **{f"/d/{name}": data for name, data in files.items()}})


def states(files, settings=WEAKEST, **more):
    return list(crash_states(files.base, files.log, settings, **more))


def trees(files, settings=WEAKEST):
    return [state.tree for state in states(files, settings)]


def contents(files, path, settings=WEAKEST):
    """What may be found at a path; None stands for "no such file"."""
    return {tree.get(path) for tree in trees(files, settings)}


def put(files, path, data, *, sync=False):
    fd = files.create(path)
    write_all(files, fd, data)
    if sync:
        files.sync(fd)
    files.close(fd)


# The live view


def run_everywhere(tmp_path, steps):
    """The same calls on the real disk and on the simulated one; returns both results."""
    real = RealFiles(sleep=lambda _: None)
    sim = SimFiles.from_tree({str(tmp_path): None})
    return [steps(files, str(tmp_path)) for files in (real, sim)]


def outcome(call, *arguments, **named):
    try:
        return call(*arguments, **named)
    except OSError as error:
        return type(error).__name__, error.errno


def test_reads_writes_and_names_are_those_of_the_real_disk(tmp_path):
    def steps(files, root):
        found = []
        fd = files.create(f"{root}/a")
        found.append(files.write_at(fd, b"hello", 3))
        found.append(files.read_at(fd, 100, 0))
        found.append(files.read_at(fd, 2, 4))
        found.append(files.read_at(fd, 2, 99))
        files.truncate(fd, 4)
        files.truncate(fd, 6)
        files.sync(fd)
        found.append(files.read_at(fd, 100, 0))
        found.append(files.fstat(fd).size)
        files.replace(f"{root}/a", f"{root}/b")
        found.append(files.stat(f"{root}/b").inode == files.fstat(fd).inode)
        files.close(fd)
        files.mkdir(f"{root}/sub")
        files.sync_dir(root)
        found.append(sorted(files.listdir(root)))
        found.append(files.stat(f"{root}/sub").directory)
        files.unlink(f"{root}/b")
        files.rmdir(f"{root}/sub")
        found.append(files.listdir(root))
        return found

    real, sim = run_everywhere(tmp_path, steps)
    assert real == sim


def test_sizes_and_names_of_open_files_are_those_of_the_real_disk(tmp_path):
    def steps(files, root):
        a, b = f"{root}/a", f"{root}/b"
        fd = files.create(a)
        found = [files.size(fd), files.leads_to(a, fd), files.leads_to(b, fd)]
        files.write_at(fd, b"abc", 4)
        found.append(files.size(fd))
        files.truncate(fd, 2)
        found.append(files.size(fd))
        files.replace(a, b)
        found += [files.leads_to(a, fd), files.leads_to(b, fd)]
        files.close(files.create(a))
        found += [files.leads_to(a, fd), files.leads_to(b, fd)]
        files.replace(a, b)
        found += [files.leads_to(a, fd), files.leads_to(b, fd), files.size(fd)]
        found.append(outcome(files.leads_to, f"{b}/x", fd))
        files.close(fd)
        found.append(outcome(files.size, fd))
        return found

    real, sim = run_everywhere(tmp_path, steps)
    assert real == sim


def test_errors_are_those_of_the_real_disk(tmp_path):
    def steps(files, root):
        files.mkdir(f"{root}/full")
        for name in ("file", "other", "full/x"):
            files.close(files.create(f"{root}/{name}"))
        reader = files.open(f"{root}/file")
        found = [
            outcome(files.open, f"{root}/none"),
            outcome(files.open, f"{root}/full", write=True),
            outcome(files.open, f"{root}/full"),
            outcome(files.open, f"{root}/file/x"),
            outcome(files.create, f"{root}/file"),
            outcome(files.create, f"{root}/none/x"),
            outcome(files.mkdir, f"{root}/full"),
            outcome(files.rmdir, f"{root}/full"),
            outcome(files.rmdir, f"{root}/file"),
            outcome(files.unlink, f"{root}/none"),
            outcome(files.unlink, f"{root}/full"),
            outcome(files.stat, f"{root}/none"),
            outcome(files.listdir, f"{root}/none"),
            outcome(files.listdir, f"{root}/file"),
            outcome(files.sync_dir, f"{root}/none"),
            outcome(files.replace, f"{root}/none", f"{root}/x"),
            outcome(files.replace, f"{root}/file", f"{root}/full"),
            outcome(files.replace, f"{root}/full", f"{root}/file"),
            outcome(files.write_at, reader, b"x", 0),
            outcome(files.truncate, reader, 0),
        ]
        files.close(reader)
        found.append(outcome(files.close, reader))
        return found

    real, sim = run_everywhere(tmp_path, steps)
    assert real == sim


def test_an_open_file_outlives_its_name():
    files = disk(a=b"old", b=b"new")
    fd = files.open("/d/a")
    files.replace("/d/b", "/d/a")
    assert files.read_at(fd, 9, 0) == b"old"
    files.unlink("/d/a")
    assert files.read_at(fd, 9, 0) == b"old"
    assert files.tree() == {"/d": None}


def test_a_renamed_directory_takes_its_files_along():
    files = disk()
    files.mkdir("/d/tmp")
    put(files, "/d/tmp/x", b"1")
    files.replace("/d/tmp", "/d/done")
    assert files.tree() == {"/d": None, "/d/done": None, "/d/done/x": b"1"}
    with pytest.raises(FileNotFoundError):
        files.listdir("/d/tmp")


def test_from_tree_gives_the_tree_back_and_shares_nothing():
    tree = {"/d": None, "/d/e": None, "/d/e/x": b"1", "/d/y": b"2"}
    files = SimFiles.from_tree(tree)
    assert files.tree() == tree
    fd = files.open("/d/y", write=True)
    files.write_at(fd, b"3", 0)
    assert tree["/d/y"] == b"2"
    assert SimFiles.from_tree(tree).tree() == tree


def test_locks_belong_to_the_open_file():
    files = disk(lock=b"")
    first, second, third = (files.open("/d/lock", write=True) for _ in range(3))
    assert files.lock(first)
    assert files.lock(first)
    assert not files.lock(second)
    assert not files.lock(second, shared=True)
    files.close(third)
    assert not files.lock(second)
    files.close(first)
    assert files.lock(second, shared=True)
    fourth = files.open("/d/lock")
    assert files.lock(fourth, shared=True)
    assert not files.lock(second)
    files.unlock(fourth)
    assert files.lock(second)
    files.die()
    assert files.lock(files.open("/d/lock"))


# What survives


def test_nothing_is_pending_on_a_disk_from_a_tree():
    files = disk(a=b"1")
    assert trees(files) == [{"/d": None, "/d/a": b"1"}]


def test_a_synced_write_survives_and_an_unsynced_one_may_be_gone_torn_or_zero():
    files = disk(a=b"")
    fd = files.open("/d/a", write=True)
    files.write_at(fd, b"one.", 0)
    files.sync(fd)
    files.write_at(fd, b"ABCDEF", 4)
    found = contents(files, "/d/a", Settings(every_byte=True))
    short = {b"one." + b"ABCDEF"[:cut] for cut in range(7)}
    zeros = {b"one." + b"ABCDEF"[:cut].ljust(6, b"\0") for cut in range(7)}
    before_sync = {b"", b"o", b"on", b"one", b"one.", b"\0\0\0\0", b"o\0\0\0", b"on\0\0", b"one\0"}
    assert found == short | zeros | before_sync


def test_after_the_sync_nothing_of_it_is_lost():
    files = disk(a=b"")
    fd = files.open("/d/a", write=True)
    files.write_at(fd, b"one.", 0)
    files.sync(fd)
    start = len(files.log)
    assert [state.tree["/d/a"] for state in states(files, start=start)] == [b"one."]


def test_any_subset_of_unsynced_writes_may_be_there():
    files = disk(a=b"")
    fd = files.open("/d/a", write=True)
    for index, letter in enumerate((b"A", b"B", b"C")):
        files.write_at(fd, letter, index)
    holes = {b"", b"A", b"AB", b"ABC", b"\0B", b"\0\0C", b"A\0C", b"\0BC"}
    zero_filled = {b"\0", b"A\0", b"\0\0", b"AB\0", b"\0\0\0", b"A\0\0", b"\0B\0"}
    assert contents(files, "/d/a") == holes | zero_filled


def test_an_unsynced_truncate_may_come_back():
    files = disk(a=b"keep+gone")
    fd = files.open("/d/a", write=True)
    files.truncate(fd, 4)
    files.write_at(fd, b"!", 4)
    assert contents(files, "/d/a") >= {b"keep", b"keep!", b"keep+gone", b"keep!gone"}
    files.sync(fd)
    last = [state.tree["/d/a"] for state in states(files, start=len(files.log))]
    assert last == [b"keep!"]


def test_sectors_of_one_write_may_be_missing():
    files = disk(a=b"")
    fd = files.open("/d/a", write=True)
    files.write_at(fd, b"x" * SECTOR + b"y" * SECTOR + b"z" * 10, 0)
    found = contents(files, "/d/a")
    assert bytes(SECTOR) + b"y" * SECTOR + b"z" * 10 in found
    assert b"x" * SECTOR + bytes(SECTOR) + b"z" * 10 in found
    assert b"x" * SECTOR in found
    assert bytes(2 * SECTOR + 10) in found


def test_a_hole_keeps_what_was_there_before():
    files = disk(a=b"o" * (2 * SECTOR))
    fd = files.open("/d/a", write=True)
    files.write_at(fd, b"n" * (2 * SECTOR), 0)
    assert b"o" * SECTOR + b"n" * SECTOR in contents(files, "/d/a")
    assert not any(b"\0" in data for data in contents(files, "/d/a"))


def test_the_name_of_a_new_file_needs_a_sync_of_its_directory():
    files = disk()
    put(files, "/d/a", b"1", sync=True)
    assert contents(files, "/d/a") == {None, b"", b"1", b"\0"}
    files.sync_dir("/d")
    assert [s.tree.get("/d/a") for s in states(files, start=len(files.log))] == [b"1"]


def test_a_rename_is_atomic_and_may_be_undone():
    files = disk(a=b"old")
    write_tmp(files, "/d/a.tmp", b"new")
    start = len(files.log)
    files.replace("/d/a.tmp", "/d/a")
    found = {
        (state.tree.get("/d/a"), state.tree.get("/d/a.tmp")) for state in states(files, start=start)
    }
    assert found == {(b"old", None), (b"old", b"new"), (b"new", None)}


def test_a_rename_of_unsynced_content_may_leave_an_empty_file():
    files = disk(a=b"old")
    put(files, "/d/a.tmp", b"new")
    files.replace("/d/a.tmp", "/d/a")
    files.sync_dir("/d")
    assert b"" in contents(files, "/d/a")


def test_unlinks_persist_in_any_order():
    files = disk(a=b"1", b=b"2", c=b"3")
    for name in "abc":
        files.unlink(f"/d/{name}")
    found = {"".join(sorted(path[3:] for path in tree if path != "/d")) for tree in trees(files)}
    assert found == {"", "a", "b", "c", "ab", "ac", "bc", "abc"}


def test_two_renames_persist_in_any_order():
    files = disk(new=b"2", old=b"1", tmp=b"3")
    files.replace("/d/new", "/d/old")
    files.replace("/d/tmp", "/d/new")
    found = {(tree.get("/d/new"), tree.get("/d/old")) for tree in trees(files)}
    assert found == {(b"2", b"1"), (None, b"2"), (b"3", b"1"), (b"3", b"2")}


def test_what_is_in_a_directory_without_a_durable_name_is_gone():
    files = disk()
    files.mkdir("/d/sub")
    put(files, "/d/sub/a", b"1", sync=True)
    files.sync_dir("/d/sub")
    found = [state.tree for state in states(files, start=len(files.log))]
    assert {"/d": None} in found
    assert {"/d": None, "/d/sub": None, "/d/sub/a": b"1"} in found
    assert len(found) == 2


def test_a_rename_between_directories_needs_both_synced():
    files = SimFiles.from_tree({"/d": None, "/d/a": b"1", "/e": None})
    files.replace("/d/a", "/e/a")
    files.sync_dir("/e")
    assert {"/d/a", "/e/a"} == {path for tree in trees(files) for path in tree if len(path) > 2}
    files.sync_dir("/d")
    assert [s.tree for s in states(files, start=len(files.log))] == [
        {"/d": None, "/e": None, "/e/a": b"1"}
    ]


def test_the_ordered_profile_keeps_prefixes_only():
    files = disk(a=b"")
    fd = files.open("/d/a", write=True)
    files.write_at(fd, b"A", 0)
    files.write_at(fd, b"B", 1)
    assert b"\0B" not in contents(files, "/d/a", Settings(profile="ordered"))
    files = disk(a=b"", b=b"")
    files.unlink("/d/a")
    files.unlink("/d/b")
    names = [sorted(tree) for tree in trees(files, Settings(profile="ordered"))]
    assert names == [["/d", "/d/a", "/d/b"], ["/d", "/d/b"], ["/d"]]


def test_the_kill_profile_keeps_everything_issued():
    files = disk(a=b"")
    fd = files.open("/d/a", write=True)
    files.write_at(fd, b"AB", 0)
    files.write_at(fd, b"CD", 2)
    files.unlink("/d/a")
    found = contents(files, "/d/a", Settings(profile="kill"))
    assert found == {b"", b"A", b"AB", b"ABC", b"ABCD", None}


def test_a_file_overwritten_in_place_has_few_contents():
    files = disk(a=b"00")
    fd = files.open("/d/a", write=True)
    for index in range(1, 7):
        files.write_at(fd, b"%d%d" % (index, index), 0)
    issued = {state.tree["/d/a"] for state in states(files, start=len(files.log))}
    assert issued == {b"00", b"55", b"65", b"66"}


def test_many_pending_writes_stay_bounded():
    files = disk(a=b"")
    fd = files.open("/d/a", write=True)
    for index in range(40):
        files.write_at(fd, b"%02d" % index, 2 * index)
    assert 800 < len(contents(files, "/d/a")) < 8000


def test_many_pending_names_stay_bounded():
    files = disk(**{f"f{index:02d}": b"" for index in range(30)})
    for index in range(30):
        files.unlink(f"/d/f{index:02d}")
    found = trees(files)
    assert 900 < len(found) < 2000
    assert {"/d": None} in found


def test_each_state_comes_once_with_the_mark_before_it():
    files = disk(a=b"")
    fd = files.open("/d/a", write=True)
    files.mark("issued")
    files.write_at(fd, b"A", 0)
    files.sync(fd)
    files.mark("done")
    found = [(state.mark, state.tree["/d/a"]) for state in states(files)]
    assert found == [("issued", b""), ("issued", b"\0"), ("issued", b"A"), ("done", b"A")]
    seen = set()
    assert len(states(files, seen=seen)) == 4
    assert states(files, seen=seen) == []
    same = states(files, identity=lambda mark: None)
    assert len(same) == 3


def test_keys_name_trees():
    files = disk(a=b"", b=b"x")
    fd = files.open("/d/a", write=True)
    files.write_at(fd, b"ABC", 0)
    found = states(files)
    assert all(state.key == tree_key(state.tree) for state in found)
    assert len({state.key for state in found}) == len(found)
    assert entry_key("/a", b"") != entry_key("/a", None)


def test_lines_are_cut_with_and_without_their_line_feed():
    op = Op("write", data=b"aaaa\nbbbb\n")
    assert cuts(op, every_byte=False) == [1, 4, 5, 9]
    assert cuts(op, every_byte=True) == list(range(1, 10))
    assert SECTOR - 5 in cuts(Op("write", offset=5, data=bytes(900)), every_byte=False)


# Faults


def test_the_nth_call_fails_once_or_for_ever():
    files = disk(a=b"")
    files.fail("stat", nth=2, code=errno.EACCES)
    files.stat("/d/a")
    with pytest.raises(PermissionError):
        files.stat("/d/a")
    files.stat("/d/a")
    files.fail("*", nth=3, code=errno.EIO, sticky=True)
    files.stat("/d/a")
    files.listdir("/d")
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            files.stat("/d/a")


def test_a_failed_call_has_no_effect():
    files = disk(a=b"1")
    for kind, call in (
        ("unlink", lambda: files.unlink("/d/a")),
        ("replace", lambda: files.replace("/d/a", "/d/b")),
        ("create", lambda: files.create("/d/c")),
        ("mkdir", lambda: files.mkdir("/d/c")),
    ):
        files.fail(kind)
        with pytest.raises(OSError, match="Input/output"):
            call()
    assert files.tree() == {"/d": None, "/d/a": b"1"}
    assert files.log == []


def test_a_short_write_takes_a_part_and_the_next_fails():
    files = disk(a=b"")
    fd = files.open("/d/a", write=True)
    files.short_write(-1)
    with pytest.raises(OSError, match="No space"):
        write_all(files, fd, b"line\n")
    assert files.tree()["/d/a"] == b"line"
    write_all(files, fd, b"\n", 4)
    assert files.tree()["/d/a"] == b"line\n"


def test_a_full_disk_takes_what_fits():
    files = disk(a=b"12345")
    files.quota = 8
    fd = files.open("/d/a", write=True)
    assert files.write_at(fd, b"54321", 0) == 5
    assert files.write_at(fd, b"abcdef", 5) == 3
    with pytest.raises(OSError, match="No space"):
        files.write_at(fd, b"d", 8)
    files.truncate(fd, 0)
    assert files.write_at(fd, b"d", 0) == 1


def test_a_kill_in_a_write_leaves_its_beginning():
    files = disk(a=b"")
    fd = files.open("/d/a", write=True)
    files.kill_write(2)
    with pytest.raises(Killed):
        files.write_at(fd, b"abc", 0)
    files.die()
    assert files.tree()["/d/a"] == b"ab"
    with pytest.raises(OSError, match="Bad file"):
        files.fstat(fd)


def failed_sync(pages):
    files = disk(a=b"")
    fd = files.open("/d/a", write=True)
    files.write_at(fd, b"lost", 0)
    files.fail_sync(pages=pages)
    with pytest.raises(OSError, match="Input/output"):
        files.sync(fd)
    return files, fd


def test_after_a_failed_sync_the_pages_may_look_written_and_never_are():
    files, fd = failed_sync("keep")
    assert files.tree()["/d/a"] == b"lost"
    files.sync(fd)
    files.write_at(fd, b"more", 4)
    files.sync(fd)
    last = {state.tree["/d/a"] for state in states(files, start=len(files.log))}
    assert {b"lostmore", b"\0\0\0\0more"} <= last


def test_after_a_failed_sync_the_pages_may_be_dropped():
    files, fd = failed_sync("drop")
    assert files.tree()["/d/a"] == bytes(4)
    files.write_at(fd, b"more", 4)
    files.sync(fd)
    last = {state.tree["/d/a"] for state in states(files, start=len(files.log))}
    assert last == {b"\0\0\0\0more"}


def test_restart_makes_the_live_view_durable():
    files = disk()
    put(files, "/d/a", b"1")
    files.restart()
    assert trees(files) == [{"/d": None, "/d/a": b"1"}]
    assert not files.descriptors


def test_calls_are_traced_to_their_site():
    files = SimFiles(trace=lambda kind, path: f"{kind} {path}")
    files.mkdir("/d")
    put(files, "/d/a.tmp", b"1")
    fd = files.open("/d/a.tmp", write=True)
    files.replace("/d/a.tmp", "/d/a")
    files.sync(fd)
    assert files.log[-1].site == "sync /d/a"
