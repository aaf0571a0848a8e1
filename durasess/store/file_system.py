"""Which file system a path is on: some of them forget, and some cannot lock. What follows from that
for a store is in placement.py."""

from __future__ import annotations

import os
import re

import msgspec

from durasess.engine.files import RealFiles

_MOUNTS = "/proc/self/mountinfo"
_MOUNTS_MAX = 16 * 1024 * 1024
"""Bytes of it that are read."""

_OCTAL = re.compile(r"\\([0-7]{3})")

IN_MEMORY = frozenset(["tmpfs", "ramfs"])
OVERLAYS = frozenset(["overlay", "overlayfs", "aufs", "fuse.fuse-overlayfs"])
NETWORK = frozenset(
    [
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre"),
        *("beegfs", "gpfs", "fuse.sshfs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs"),
        *("fuse.rclone", "fuse.gcsfuse"),
    ]
)
"""Names as the kernel gives them."""

_REMARKS = {
    **dict.fromkeys(IN_MEMORY, "in memory: gone when the machine restarts"),
    **dict.fromkeys(
        OVERLAYS, "a container's own layer: gone with the container unless it is a volume"
    ),
    **dict.fromkeys(NETWORK, "a network file system: locks and syncs are as good as its server"),
}


class FileSystem(msgspec.Struct, frozen=True):
    """`kind` as the kernel names it, empty when it cannot be told; `remark` is what to know."""

    kind: str
    mount: str
    remark: str = ""


class Mount(msgspec.Struct, frozen=True):
    """Where a file system begins and with which options, `rw` or `lowerdir=…`, it is mounted."""

    kind: str = ""
    path: str = ""
    options: frozenset[str] = frozenset()


def file_system_of(path: str, mounts: str | None = None) -> FileSystem:
    """What `path` is on, as `mount_of` finds it."""
    found = mount_of(path, mounts)
    return FileSystem(found.kind, found.path, _REMARKS.get(found.kind, ""))


def mount_of(path: str, mounts: str | None = None) -> Mount:
    """Of the mount points above an absolute path the deepest, the last one mounted there.

    `mounts` is the text of mountinfo, by default this system's. An empty one where that says
    nothing, as on systems that have none.
    """
    best = Mount()
    for line in (_mounts() if mounts is None else mounts).splitlines():
        mount = _parsed(line)
        if mount and _is_below(path, mount.path) and len(mount.path) >= len(best.path):
            best = mount
    return best


def _mounts() -> str:
    disk = RealFiles()
    try:
        fd = disk.open(_MOUNTS)
        try:
            return os.fsdecode(disk.read_at(fd, _MOUNTS_MAX, 0))
        finally:
            disk.close(fd)
    except OSError:
        return ""


def _parsed(line: str) -> Mount | None:
    where, found, what = line.partition(" - ")
    places, kinds = where.split(" "), what.split(" ")
    if not found or len(places) < 6:
        return None
    options = [*places[5].split(","), *(kinds[2].split(",") if len(kinds) > 2 else ())]
    return Mount(kinds[0], _unescaped(places[4]), frozenset(options))


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def _is_below(path: str, mount: str) -> bool:
    return mount == os.sep or path == mount or path.startswith(mount.rstrip(os.sep) + os.sep)
