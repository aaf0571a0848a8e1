"""Where a store lies: what forgets is warned of, what cannot lock is refused unless told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from durasess.errors import StorageError
from durasess.store.file_system import NETWORK
from durasess.store.placement import refuse_network, root_of, warnings_for

MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /memory rw - tmpfs tmpfs rw
31 22 0:27 / /ram rw - ramfs none rw
32 22 0:28 / /layer rw,relatime - overlay overlay rw,lowerdir=/a:/b,upperdir=/volatile/c
33 22 0:29 / /fast rw - overlay overlay rw,lowerdir=/a,volatile
34 22 0:30 / /faster rw - overlay overlay rw,fsync=ordered,volatile=1
35 22 0:31 / /layer/volume rw - xfs /dev/vdb rw
"""


def on(kind: str) -> str:
    return f"22 1 254:0 / / rw - ext4 /dev/vda rw\n40 22 0:40 / /far rw - {kind} server:/x rw"


@pytest.fixture(autouse=True)
def no_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("path", ["/nowhere/here", "/layer/volume/a", "/tmpfoo", "/memory2"])
def test_disk_that_lasts_is_not_warned_of(path: str) -> None:
    assert warnings_for(path, mounts=MOUNTS) == []


@pytest.mark.parametrize("path", ["/memory", "/memory/not/there/yet", "/ram/a"])
def test_file_system_in_memory_is_warned_of(path: str) -> None:
    [warning] = warnings_for(path, mounts=MOUNTS)
    assert warning.startswith(path) and "restarts" in warning and "volume" not in warning


@pytest.mark.parametrize("path", ["/tmp/x", "/tmp", "/var/tmp/x"])
def test_place_for_temporary_files_is_warned_of(path: str) -> None:
    [warning] = warnings_for(path, mounts=MOUNTS)
    assert "temporary" in warning


def test_temporary_directory_of_the_environment_is_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", "/scratch/")
    [warning] = warnings_for("/scratch/a", mounts=MOUNTS)
    assert "temporary" in warning
    assert warnings_for("/scratchy", mounts=MOUNTS) == []


def test_temporary_directory_that_is_no_absolute_path_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", "a")
    monkeypatch.chdir("/")
    assert warnings_for("/a", mounts=MOUNTS) == []


def test_containers_own_layer_is_warned_of() -> None:
    [warning] = warnings_for("/layer/a", mounts=MOUNTS)
    assert "container" in warning and "mounted volatile" not in warning


@pytest.mark.parametrize("path", ["/fast/a", "/faster/a"])
def test_volatile_layer_is_said_to_lose_synced_events(path: str) -> None:
    [warning] = warnings_for(path, mounts=MOUNTS)
    assert "container" in warning and "mounted volatile" in warning


def test_links_are_followed_to_where_the_sessions_will_lie(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/memory")
    [warning] = warnings_for(tmp_path / "link" / "new", mounts=MOUNTS)
    assert warning.startswith("/memory/new")


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"])
def test_network_file_system_is_refused_with_its_name_and_what_to_do(kind: str) -> None:
    with pytest.raises(StorageError) as caught:
        refuse_network("/far/not/there", mounts=on(kind))
    assert caught.value.path == "/far/not/there"
    text = str(caught.value)
    assert f"found {kind} at /far" in text and "local disk" in text and f"allow {kind!r}" in text


@pytest.mark.parametrize("kind", ["glusterfs", "lustre", "beegfs", "afs"])
def test_network_file_system_is_taken_when_told(kind: str) -> None:
    refuse_network("/far/a", allow=[kind], mounts=on(kind))
    refuse_network("/far/a", allow=NETWORK, mounts=on(kind))
    with pytest.raises(StorageError):
        refuse_network("/far/a", allow=["nfs"], mounts=on(kind))


def test_local_file_system_is_taken() -> None:
    refuse_network("/far", mounts=on("ext4"))
    refuse_network("/farther", mounts=on("nfs"))


def test_without_mountinfo_nothing_is_refused_or_claimed() -> None:
    refuse_network("/far", mounts="")
    assert warnings_for("/far", mounts="") == []


def test_path_that_is_none_is_left_to_whoever_opens_it() -> None:
    assert warnings_for("/a\0b", mounts=MOUNTS) == []


def test_this_machine_is_looked_at_without_a_text_of_mounts(tmp_path: Path) -> None:
    assert isinstance(warnings_for(tmp_path), list)
    assert all(os.fspath(tmp_path) in warning for warning in warnings_for(tmp_path))


def test_path_in_bytes_is_the_directory_of_that_name(tmp_path: Path) -> None:
    assert root_of(os.fsencode(tmp_path)) == str(tmp_path)  # type: ignore[arg-type]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="another directory there")
def test_data_directory_that_is_no_absolute_path_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DURASESS_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    assert root_of(None) == str(tmp_path / ".local/share/durasess/sessions")


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="another directory there")
def test_empty_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sessions would stand in /.local, which nobody looks into."""
    for name in ("DURASESS_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "")
    import pwd

    home = pwd.getpwuid(os.getuid()).pw_dir
    assert root_of(None) == os.path.join(home, ".local/share/durasess/sessions")


@pytest.mark.parametrize("path", ["a\0b", b"a\0b"])
def test_path_with_a_nul_is_no_store(path: str | bytes) -> None:
    with pytest.raises(ValueError, match="NUL"):
        root_of(path)  # type: ignore[arg-type]


def test_relative_path_in_a_directory_that_is_gone_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(StorageError, match="cannot be looked up"):
        root_of("sessions")
    assert root_of("/sessions") == "/sessions"
