"""A workspace: what leads out is refused, what was not seen is not overwritten, nothing is left."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from durasess.engine.files import FileStat, RealFiles
from durasess.errors import (
    EventRejectedError,
    FileChangedError,
    PatchMismatchError,
    StorageError,
    WorkspaceNotFoundError,
)
from durasess.session import workspace_paths
from durasess.session.workspace import FileContent, Workspace, same_place
from tests.support.sessions import umask


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside.txt").write_text("secret")
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def ws(root: Path) -> Workspace:
    return Workspace(str(root))


def seen(ws: Workspace, relative: str, content: str | bytes) -> FileContent:
    """A file that somebody made and the session has read."""
    data = content if isinstance(content, bytes) else content.encode()
    Path(ws.path(relative)).write_bytes(data)
    return ws.read(relative)


def tree(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
    }


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


class Faulty(RealFiles):
    """A disk on which one call fails, or on which something happens just before it."""

    def __init__(self, call: str, effect: Callable[[], None]) -> None:
        super().__init__()
        real = getattr(self, call)

        def instead(*args: object, **options: object) -> object:
            if self.armed:
                effect()
            return real(*args, **options)

        self.armed = True
        setattr(self, call, instead)


def refuse(code: int = errno.EIO) -> Callable[[], None]:
    def effect() -> None:
        raise OSError(code, os.strerror(code))

    return effect


# Paths


def test_path_inside_is_absolute_and_needs_no_file(ws: Workspace, root: Path) -> None:
    assert ws.path("src/new.py") == str(root / "src/new.py")


def test_path_does_not_depend_on_the_working_directory(
    ws: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setattr(os, "getcwd", refuse())
    ws.write("a.txt", "a")
    assert (root / "a.txt").read_text() == "a"


def test_dot_is_the_root(ws: Workspace, root: Path) -> None:
    assert ws.path(".") == str(root)


def test_absolute_path_inside_is_taken(ws: Workspace, root: Path) -> None:
    assert ws.path(str(root / "a.txt")) == str(root / "a.txt")


def test_dots_that_stay_inside_are_taken(ws: Workspace, root: Path) -> None:
    assert ws.path("src/../a.txt") == str(root / "a.txt")


def test_name_that_begins_with_two_dots_is_inside(ws: Workspace, root: Path) -> None:
    assert ws.path("..a") == str(root / "..a")


@pytest.mark.parametrize(
    "relative",
    [
        "..",
        "../outside.txt",
        "src/../../outside.txt",
        "../project/a.txt",
        "/etc/passwd",
        "//etc/passwd",
        "a\0b",
        "",
        "\ud800",
        "C:\\Windows\\win.ini",
        "c:/Windows/win.ini",
        "C:win.ini",
        "\\\\server\\share\\a",
        "\\Windows",
        "..\\outside.txt",
        "src\\..\\..\\outside.txt",
        "\\\\?\\C:\\a",
        "\\\\.\\PhysicalDrive0",
        "//./pipe/a",
        "//?/C:/a",
        None,
        b"a.txt",
    ],
)
def test_path_that_leads_out_or_is_none_is_refused(ws: Workspace, relative: object) -> None:
    for use in (ws.path, ws.read, ws.delete, lambda path: ws.write(path, "x")):
        with pytest.raises(EventRejectedError, match="Nothing was read or written"):
            use(relative)  # type: ignore[arg-type]


@pytest.mark.parametrize("relative", ["\\\\?\\C:\\a", "\\\\.\\COM1", "//./pipe/a", "//?/C:/a"])
def test_device_of_windows_is_told_as_such(ws: Workspace, relative: str) -> None:
    with pytest.raises(EventRejectedError, match="names a Windows device"):
        ws.path(relative)


def test_absolute_path_beside_a_root_with_the_same_beginning_is_refused(
    ws: Workspace, root: Path
) -> None:
    with pytest.raises(EventRejectedError, match="leads out of the workspace"):
        ws.path(f"{root}2/a.txt")


@pytest.mark.parametrize("link_to", ["../outside.txt", ".."])
def test_link_that_leads_out_is_refused(ws: Workspace, root: Path, link_to: str) -> None:
    (root / "link").symlink_to(link_to)
    relative = "link" if link_to.endswith("txt") else "link/outside.txt"
    for use in (ws.read, ws.delete, lambda path: ws.write(path, "x")):
        with pytest.raises(EventRejectedError, match="leads out of the workspace"):
            use(relative)
    assert (root.parent / "outside.txt").read_text() == "secret" and (root / "link").is_symlink()


def test_link_to_the_directory_above_is_refused(ws: Workspace, root: Path) -> None:
    (root / "link").symlink_to("..")
    with pytest.raises(EventRejectedError, match="leads out"):
        ws.path("link")


def test_dangling_link_that_leads_out_is_refused(ws: Workspace, root: Path) -> None:
    (root / "link").symlink_to("../new.txt")
    with pytest.raises(EventRejectedError, match="leads out"):
        ws.write("link", "x")
    assert not (root.parent / "new.txt").exists()


def test_dots_behind_a_link_go_up_from_where_it_leads(ws: Workspace, root: Path) -> None:
    (root / "link").symlink_to("/usr/lib")
    with pytest.raises(EventRejectedError, match="leads out"):
        ws.path("link/../a.txt")


def test_links_in_a_circle_are_an_error_of_the_system(ws: Workspace, root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(StorageError) as caught:
        ws.read("a")
    assert caught.value.errno == errno.ELOOP


def test_symlinked_root_works_by_either_name(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    ws = Workspace(str(link))
    ws.write("a.txt", "a")
    assert ws.path("a.txt") == str(link / "a.txt")
    assert ws.read(str(root / "a.txt")).version == ws.read(str(link / "a.txt")).version


def test_root_with_two_slashes_is_the_same_root(root: Path) -> None:
    ws = Workspace(f"/{root}")
    ws.write(str(root / "a.txt"), "a")
    assert tree(root) == {"a.txt": b"a"}


@pytest.mark.parametrize(
    ("relative", "problem"),
    [
        ("C:a", "drive"),
        ("C:", "drive"),
        ("\\a", "drive"),
        ("sub\\NUL", "device"),
        ("con.txt", "device"),
        ("a.txt:stream", "colon"),
        ("..\\a", "above"),
        ("C:\\proj\\a", None),
        ("sub\\a.txt", None),
        ("console", None),
    ],
)
def test_form_of_a_path_is_judged_by_the_rules_of_windows_there(
    relative: str, problem: str | None
) -> None:
    found = workspace_paths._windows_problem(relative)
    assert (problem in found) if problem and found else found is problem


# Reading


def test_read_gives_content_and_version(ws: Workspace, root: Path) -> None:
    data = "ä\r\n".encode()
    version = hashlib.blake2b(data, digest_size=16).hexdigest()
    content = seen(ws, "a.txt", data)
    assert content == FileContent(str(root / "a.txt"), "ä\r\n", data, version)


def test_read_goes_on_to_the_end_where_the_system_tells_no_length(root: Path) -> None:
    class Unmeasured(RealFiles):
        def fstat(self, fd: int) -> FileStat:
            return super().fstat(fd)._replace(size=0)

    ws = Workspace(str(root), files=Unmeasured())
    assert seen(ws, "a.txt", "x" * 3_000_000).text == "x" * 3_000_000


def test_text_that_is_no_utf8_is_written_back_exactly(ws: Workspace, root: Path) -> None:
    data = bytes(range(256))
    ws.write("a.bin", seen(ws, "a.bin", data).text)
    assert (root / "a.bin").read_bytes() == data


def test_read_of_nothing_is_a_storage_error_with_its_number(ws: Workspace) -> None:
    with pytest.raises(StorageError, match="was not found") as caught:
        ws.read("a.txt")
    assert caught.value.errno == errno.ENOENT


def test_path_through_a_file_is_a_storage_error(ws: Workspace) -> None:
    seen(ws, "a.txt", "a")
    with pytest.raises(StorageError) as caught:
        ws.write("a.txt/b.txt", "b")
    assert caught.value.errno == errno.ENOTDIR


@pytest.mark.parametrize("kind", ["directory", "pipe", "socket"])
def test_what_is_no_regular_file_is_refused_and_never_waited_for(
    ws: Workspace, root: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A socket's path is short.
    monkeypatch.chdir(root)
    if kind == "directory":
        os.mkdir("x")
    elif kind == "pipe":
        os.mkfifo("x")
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("x")
    for use in (ws.read, ws.delete, lambda path: ws.write(path, "x")):
        with pytest.raises(EventRejectedError, match=f"found a {kind}"):
            use("x")


def test_path_that_ends_like_a_directory_is_no_file(ws: Workspace, root: Path) -> None:
    with pytest.raises(EventRejectedError, match="ends like a directory"):
        ws.write("src/", "x")
    assert tree(root) == {}


# Writing


def test_new_file_is_written_with_the_directories_above_it(ws: Workspace, root: Path) -> None:
    version = ws.write("a/b/c.txt", "c")
    assert tree(root) == {"a": None, "a/b": None, "a/b/c.txt": b"c"}
    assert version == ws.read("a/b/c.txt").version


def test_file_that_was_not_read_is_not_overwritten(ws: Workspace, root: Path) -> None:
    (root / "a.txt").write_text("theirs")
    with pytest.raises(FileChangedError, match="Read it first"):
        ws.write("a.txt", "ours")
    assert tree(root) == {"a.txt": b"theirs"}


def test_file_that_was_read_is_overwritten_and_again_without_reading(
    ws: Workspace, root: Path
) -> None:
    seen(ws, "a.txt", "1")
    ws.write("a.txt", "2")
    ws.write("a.txt", b"3")
    assert tree(root) == {"a.txt": b"3"}


def test_file_that_changed_since_is_not_overwritten_and_both_versions_are_named(
    ws: Workspace, root: Path
) -> None:
    mine = seen(ws, "a.txt", "1").version
    theirs = Workspace(str(root))
    other = seen(theirs, "a.txt", "2").version
    with pytest.raises(FileChangedError, match=f"expected version {mine}, found version {other}"):
        ws.write("a.txt", "3")
    assert tree(root) == {"a.txt": b"2"}


def test_expected_version_stands_for_having_read(ws: Workspace, root: Path) -> None:
    version = seen(Workspace(str(root)), "a.txt", "1").version
    ws.write("a.txt", "2", expected_version=version)
    assert tree(root) == {"a.txt": b"2"}


def test_expected_version_counts_more_than_what_was_read(ws: Workspace, root: Path) -> None:
    seen(ws, "a.txt", "1")
    with pytest.raises(FileChangedError):
        ws.write("a.txt", "2", expected_version="0" * 32)
    assert tree(root) == {"a.txt": b"1"}


def test_file_that_was_read_and_is_gone_is_not_made_again_until_that_was_seen(
    ws: Workspace, root: Path
) -> None:
    seen(ws, "a.txt", "1")
    (root / "a.txt").unlink()
    with pytest.raises(FileChangedError, match="found no file"):
        ws.write("a.txt", "2")
    with pytest.raises(StorageError):
        ws.read("a.txt")
    ws.write("a.txt", "2")
    assert tree(root) == {"a.txt": b"2"}


def test_file_read_under_one_name_may_be_written_under_another(ws: Workspace, root: Path) -> None:
    (root / "link").symlink_to("a.txt")
    seen(ws, "a.txt", "1")
    ws.write(str(root / "x/../link"), "2")
    assert (root / "link").is_symlink() and (root / "a.txt").read_text() == "2"


def test_link_to_a_file_that_is_not_there_makes_that_file(ws: Workspace, root: Path) -> None:
    (root / "link").symlink_to("sub/new.txt")
    ws.write("link", "1")
    assert (root / "link").is_symlink() and (root / "sub/new.txt").read_text() == "1"


def test_text_with_half_a_surrogate_pair_is_refused(ws: Workspace, root: Path) -> None:
    with pytest.raises(EventRejectedError, match="character 1"):
        ws.write("a.txt", "a\ud83d")
    assert tree(root) == {}


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o640])
def test_mode_stays_when_a_file_is_replaced(ws: Workspace, root: Path, mode: int) -> None:
    seen(ws, "a.txt", "1")
    (root / "a.txt").chmod(mode)
    ws.write("a.txt", "2")
    assert mode_of(root / "a.txt") == mode


def test_set_user_id_goes_when_a_file_is_replaced(ws: Workspace, root: Path) -> None:
    seen(ws, "a.txt", "1")
    (root / "a.txt").chmod(0o4755)
    ws.write("a.txt", "2")
    assert mode_of(root / "a.txt") == 0o755


@pytest.mark.parametrize(
    ("mask", "file", "directory"), [(0o022, 0o644, 0o755), (0o007, 0o660, 0o770)]
)
def test_new_file_and_directory_have_the_mode_that_the_umask_leaves(
    ws: Workspace, root: Path, mask: int, file: int, directory: int
) -> None:
    with umask(mask):
        ws.write("sub/a.txt", "1")
    assert (mode_of(root / "sub/a.txt"), mode_of(root / "sub")) == (file, directory)


def test_umask_is_found_where_the_kernel_does_not_tell_and_stays(root: Path) -> None:
    class Untold(RealFiles):
        def open(self, path: str, *, write: bool = False) -> int:
            return super().open(path.replace("/proc", "/none"), write=write)

    with umask(0o027):
        Workspace(str(root), files=Untold()).write("a.txt", "1")
        assert os.umask(0o027) == 0o027
    assert mode_of(root / "a.txt") == 0o640


def test_new_directory_hands_on_an_inherited_group(ws: Workspace, root: Path) -> None:
    root.chmod(0o2775)
    ws.write("sub/a.txt", "1")
    assert mode_of(root / "sub") & 0o2000


def test_file_that_could_not_be_written_in_place_is_not_replaced(root: Path) -> None:
    class ReadOnly(RealFiles):
        def open(self, path: str, *, write: bool = False) -> int:
            if write:
                raise PermissionError(errno.EACCES, "not yours", path)
            return super().open(path)

    ws = Workspace(str(root), files=ReadOnly())
    seen(ws, "a.txt", "1")
    with pytest.raises(StorageError):
        ws.write("a.txt", "2")
    assert tree(root) == {"a.txt": b"1"}


@pytest.mark.parametrize(
    "call", ["create", "chmod", "write_at", "sync", "replace", "mkdir", "sync_dir"]
)
@pytest.mark.parametrize("effect", [refuse(errno.ENOSPC), refuse(errno.EIO)])
def test_error_of_any_step_leaves_what_was_there_and_no_temporary_file(
    root: Path, call: str, effect: Callable[[], None]
) -> None:
    """The directory of a new file is synced before the file is made."""
    files = Faulty(call, effect)
    with pytest.raises(StorageError):
        Workspace(str(root), files=files).write("new/sub/a.txt", "2")
    assert tree(root) == {}


@pytest.mark.parametrize("call", ["chmod", "write_at", "sync", "replace"])
def test_interrupt_at_any_step_leaves_what_was_there_and_no_temporary_file(
    root: Path, call: str
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    ws = Workspace(str(root), files=Faulty(call, interrupt))
    seen(ws, "a.txt", "1")
    with pytest.raises(KeyboardInterrupt):
        ws.write("a.txt", "2")
    assert tree(root) == {"a.txt": b"1"}


def test_directory_that_cannot_be_synced_is_told_and_the_new_version_is_known(root: Path) -> None:
    files = Faulty("sync_dir", refuse())
    ws = Workspace(str(root), files=files)
    seen(ws, "a.txt", "1")
    with pytest.raises(StorageError, match="was written, but"):
        ws.write("a.txt", "2")
    files.armed = False
    ws.write("a.txt", "3")
    assert tree(root) == {"a.txt": b"3"}


def test_write_is_synced_before_it_has_its_name_and_the_name_after(root: Path) -> None:
    steps: list[str] = []

    class Told(RealFiles):
        def sync(self, fd: int) -> None:
            steps.append("sync")

        def replace(self, source: str, target: str) -> None:
            steps.append("replace")
            super().replace(source, target)

        def sync_dir(self, path: str) -> None:
            steps.append("sync_dir")

    Workspace(str(root), files=Told()).write("a.txt", "1")
    assert steps == ["sync", "replace", "sync_dir"]


def test_change_between_the_temporary_file_and_the_rename_is_noticed(root: Path) -> None:
    """As late as it can be: by the time of the sync the new content is complete."""

    def write_theirs() -> None:
        (root / "a.txt").write_text("theirs")

    files = Faulty("sync", write_theirs)
    ws = Workspace(str(root), files=files)
    seen(ws, "a.txt", "1")
    with pytest.raises(FileChangedError):
        ws.write("a.txt", "2")
    assert tree(root) == {"a.txt": b"theirs"}


def test_long_name_can_be_written(ws: Workspace, root: Path) -> None:
    ws.write("a" * 255, "1")
    assert tree(root) == {"a" * 255: b"1"}


def test_directory_that_another_write_makes_meanwhile_is_used_and_stays(root: Path) -> None:
    files = Faulty("mkdir", lambda: (root / "sub").mkdir(exist_ok=True))
    Workspace(str(root), files=files).write("sub/a.txt", "1")
    assert tree(root) == {"sub": None, "sub/a.txt": b"1"}


def test_write_that_another_thread_begins_before_the_rename_waits_and_is_refused(
    root: Path,
) -> None:
    with ThreadPoolExecutor(1) as pool:
        tasks: list[Future[str | None]] = []

        def begin_second() -> None:
            files.armed = False
            tasks.append(pool.submit(second.apply))
            wait(tasks, timeout=0.2)

        files = Faulty("replace", begin_second)
        ws = Workspace(str(root), files=files)
        first, second = ws.writing("a.txt", "1"), ws.writing("a.txt", "2")
        first.apply()
        assert isinstance(tasks[0].exception(), FileChangedError)
    assert tree(root) == {"a.txt": b"1"}


# Patching


def test_patch_replaces_the_one_match(ws: Workspace, root: Path) -> None:
    seen(ws, "a.py", "x = 1\r\ny = 2\r\n")
    ws.patch("a.py", "= 2", "= 3")
    assert tree(root) == {"a.py": b"x = 1\r\ny = 3\r\n"}


@pytest.mark.parametrize(
    ("old", "told"),
    [
        ("zero", "0 times;"),
        ("one", "2 times, beginning in lines 1, 3;"),
        ("e\n", "3 times, beginning in lines 1, 3, 4;"),
        ("", "empty"),
    ],
)
def test_patch_without_exactly_one_match_says_how_many_and_where(
    ws: Workspace, root: Path, old: str, told: str
) -> None:
    seen(ws, "a.txt", "one\ntwo\none\nthree\n")
    with pytest.raises(PatchMismatchError, match=told):
        ws.patch("a.txt", old, "x")
    assert tree(root) == {"a.txt": b"one\ntwo\none\nthree\n"}


def test_patch_with_other_line_ends_is_told_why(ws: Workspace) -> None:
    seen(ws, "a.txt", "one\r\ntwo\r\n")
    with pytest.raises(PatchMismatchError, match="CR LF"):
        ws.patch("a.txt", "one\ntwo", "x")


def test_patch_names_ten_lines_of_many_matches(ws: Workspace) -> None:
    seen(ws, "a.txt", "x\n" * 12)
    with pytest.raises(PatchMismatchError, match=r"12 times.* 9, 10 and more;"):
        ws.patch("a.txt", "x", "y")


def test_patch_of_a_file_that_was_not_read_is_refused(ws: Workspace, root: Path) -> None:
    (root / "a.txt").write_text("one")
    with pytest.raises(FileChangedError, match="Read it first"):
        ws.patch("a.txt", "one", "two")


@pytest.mark.parametrize("use", [Workspace.deleting, lambda ws, path: ws.patching(path, "a", "b")])
def test_patch_and_delete_of_nothing_is_a_storage_error(
    ws: Workspace, use: Callable[[Workspace, str], object]
) -> None:
    with pytest.raises(StorageError, match="was not found"):
        use(ws, "a.txt")


# Deleting


def test_file_that_was_read_is_deleted_and_may_be_made_again(ws: Workspace, root: Path) -> None:
    seen(ws, "a.txt", "1")
    ws.delete("a.txt")
    assert tree(root) == {}
    ws.write("a.txt", "2")


def test_file_that_was_not_read_is_not_deleted(ws: Workspace, root: Path) -> None:
    (root / "a.txt").write_text("theirs")
    with pytest.raises(FileChangedError, match="Read it first"):
        ws.delete("a.txt")
    assert tree(root) == {"a.txt": b"theirs"}


def test_delete_of_a_link_removes_the_link_alone(ws: Workspace, root: Path) -> None:
    (root / "link").symlink_to("a.txt")
    seen(ws, "a.txt", "1")
    planned = ws.deleting("link")
    planned.apply()
    assert tree(root) == {"a.txt": b"1"} and planned.record()["path"] == "link"
    ws.write("a.txt", "2")


# Planned writes


def test_planned_write_changes_nothing_and_records_both_versions(ws: Workspace, root: Path) -> None:
    before = seen(ws, "a.txt", "1").version
    planned = ws.writing("./a.txt", "2")
    assert tree(root) == {"a.txt": b"1"}
    after = planned.apply()
    assert planned.record() == {"path": "a.txt", "before": before, "after": after}


def test_planned_write_of_a_new_file_makes_no_directory(ws: Workspace, root: Path) -> None:
    planned = ws.writing("sub/a.txt", "1")
    assert tree(root) == {} and planned.before is None


@pytest.mark.parametrize("plan", ["writing", "patching", "deleting"])
def test_planned_change_of_a_file_that_changed_since_is_refused(
    ws: Workspace, root: Path, plan: str
) -> None:
    seen(ws, "a.txt", "1")
    planned = getattr(ws, plan)("a.txt", *{"writing": ["2"], "patching": ["1", "2"]}.get(plan, []))
    (root / "a.txt").write_text("theirs")
    with pytest.raises(FileChangedError):
        planned.apply()
    assert tree(root) == {"a.txt": b"theirs"}


def test_planned_write_of_a_new_file_that_is_there_by_now_is_refused(
    ws: Workspace, root: Path
) -> None:
    planned = ws.writing("a.txt", "1")
    (root / "a.txt").write_text("theirs")
    with pytest.raises(FileChangedError, match="expected no file"):
        planned.apply()


def test_planned_write_is_not_led_away_by_a_link_that_was_put_in_its_way(
    ws: Workspace, root: Path
) -> None:
    planned = ws.writing("sub/a.txt", "1")
    (root / "other").mkdir()
    (root / "sub").symlink_to("other")
    with pytest.raises(FileChangedError, match="links changed"):
        planned.apply()
    assert not list((root / "other").iterdir())


# Settling


def records(ws: Workspace) -> list[dict]:
    """One of each: a file replaced, one made, one deleted; planned and not applied."""
    seen(ws, "a.txt", "1")
    seen(ws, "c.txt", "1")
    plans = [ws.writing("a.txt", "2"), ws.writing("b.txt", "2"), ws.deleting("c.txt")]
    return [plan.record() for plan in plans]


def test_writes_that_were_not_made_settle_as_not_applied(ws: Workspace) -> None:
    assert ws.settle(records(ws)) == "not_applied"


def test_writes_that_were_made_settle_as_applied(ws: Workspace) -> None:
    writes = records(ws)
    ws.write("a.txt", "2"), ws.write("b.txt", "2"), ws.delete("c.txt")
    assert ws.settle(writes) == "applied"


def test_writes_of_which_some_were_made_do_not_settle(ws: Workspace) -> None:
    writes = records(ws)
    ws.write("a.txt", "2")
    assert ws.settle(writes) is None


def test_write_to_a_file_with_other_content_by_now_does_not_settle(
    ws: Workspace, root: Path
) -> None:
    writes = records(ws)[:1]
    (root / "a.txt").write_text("theirs")
    assert ws.settle(writes) is None


def test_write_of_the_same_content_settles_as_applied(ws: Workspace) -> None:
    seen(ws, "a.txt", "1")
    assert ws.settle([ws.writing("a.txt", "1").record()]) == "applied"


@pytest.mark.parametrize(("text", "verdict"), [("1", "not_applied"), ("2", None), ("3", "applied")])
def test_two_writes_to_one_file_settle_by_their_ends(
    ws: Workspace, root: Path, text: str, verdict: str | None
) -> None:
    seen(ws, "a.txt", "1")
    first = ws.writing("a.txt", "2")
    first.apply()
    writes = [first.record(), ws.writing("a.txt", "3").record()]
    (root / "a.txt").write_text(text)
    assert ws.settle(writes) == verdict


@pytest.mark.parametrize(
    "writes",
    [
        None,
        {},
        [],
        [None],
        [{}],
        [{"path": "gone.txt", "before": None}],
        [{"path": 1, "before": None, "after": None}],
        [{"path": "gone.txt", "before": 1, "after": None}],
        [{"path": "../outside.txt", "before": None, "after": None}],
        [{"path": "a\0b", "before": None, "after": None}],
        [{"path": "pipe", "before": None, "after": None}],
        [{"path": "x" * 300, "before": None, "after": None}],
        [{"path": "gone.txt", "before": None, "after": None}, {"path": "gone.txt"}],
        [
            {"path": "gone.txt", "before": "1", "after": None},
            {"path": "gone.txt", "before": "2", "after": None},
        ],
    ],
)
def test_records_that_are_none_do_not_settle_and_raise_nothing(
    ws: Workspace, root: Path, writes: object
) -> None:
    os.mkfifo(root / "pipe")
    assert ws.settle(writes) is None  # type: ignore[arg-type]


def test_nothing_settles_without_a_root(root: Path) -> None:
    ws = Workspace(str(root / "gone"))
    assert ws.settle([{"path": "a.txt", "before": "1", "after": None}]) is None


# Roots


@pytest.mark.parametrize("found", ["", "relative", "C:\\project", "\0", "/none/at/all", "\ud800"])
def test_root_that_is_no_directory_makes_an_object_whose_paths_raise(found: str) -> None:
    ws = Workspace(found)
    assert ws.root == found and not ws.exists
    with pytest.raises(WorkspaceNotFoundError, match="rebind") as caught:
        ws.path("a.txt")
    assert pickle.loads(pickle.dumps(caught.value)).path == found


def test_relative_root_is_none_even_if_it_is_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    with pytest.raises(WorkspaceNotFoundError, match="not an absolute path"):
        Workspace(root.name).path("a.txt")


def test_root_that_is_a_file_is_no_workspace(root: Path) -> None:
    (root / "a").write_text("")
    with pytest.raises(WorkspaceNotFoundError, match="is no directory"):
        Workspace(str(root / "a")).read("b")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("/none/a", "/none/b/../a/"),
        ("C:\\Project\\a", "c:/project/A/"),
        ("\\\\Server\\share\\a", "//server/share/a"),
        ("\\\\Server\\share\\a", "\\\\server/share/a"),
        ("/none\0", "/none\0/"),
    ],
)
def test_places_that_are_not_there_are_the_same_by_normalised_text(a: str, b: str) -> None:
    assert same_place(a, b) and same_place(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("/none/a", "/none/A"),
        ("/none/a", "C:\\none\\a"),
        ("C:\\a", "D:\\a"),
        ("C:a", "C:a"),
        ("", ""),
        ("a", "a"),
        ("/none\0", "/none"),
    ],
)
def test_places_are_not_the_same(a: str, b: str) -> None:
    assert not same_place(a, b) and not same_place(b, a)


def test_names_that_the_system_says_are_one_directory_are_the_same_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os.path, "samefile", lambda a, b: True)
    assert same_place("/none/a", "/none/A")


def test_names_that_differ_in_case_are_one_place_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_paths.sys, "platform", "darwin")
    assert same_place("/none/Caf\u00e9", "/none/cafe\u0301")
