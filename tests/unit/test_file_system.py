"""Which file system a path is on, from the text of mountinfo."""

from __future__ import annotations

import sys

import pytest

from durasess.store.file_system import FileSystem, file_system_of

MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /tmp rw - tmpfs tmpfs rw
31 22 0:27 / /srv/with\040space rw - nfs4 server:/x rw
32 30 0:28 / /tmp/deep rw - overlay overlay rw,volatile
33 22 0:29 / /again rw - xfs /dev/vdb rw
34 33 0:30 / /again rw - btrfs /dev/vdc rw
not a line
"""


@pytest.mark.parametrize(
    ("path", "kind", "mount"),
    [
        ("/home/me", "ext4", "/"),
        ("/tmp", "tmpfs", "/tmp"),
        ("/tmp/deep/a", "overlay", "/tmp/deep"),
        ("/tmpfoo", "ext4", "/"),
        ("/srv/with space/a", "nfs4", "/srv/with space"),
        ("/again/a", "btrfs", "/again"),
    ],
)
def test_deepest_mount_that_was_mounted_last_counts(path: str, kind: str, mount: str) -> None:
    found = file_system_of(path, MOUNTS)
    assert (found.kind, found.mount) == (kind, mount)


def test_file_systems_that_forget_or_cannot_lock_say_so() -> None:
    assert "restarts" in file_system_of("/tmp", MOUNTS).remark
    assert "container" in file_system_of("/tmp/deep", MOUNTS).remark
    assert "network" in file_system_of("/srv/with space", MOUNTS).remark
    assert file_system_of("/home", MOUNTS).remark == ""


def test_without_mountinfo_nothing_is_claimed() -> None:
    assert file_system_of("/", "") == FileSystem("", "")


@pytest.mark.skipif(sys.platform != "linux", reason="mountinfo is Linux's")
def test_this_machine_has_one() -> None:
    assert file_system_of("/").kind
