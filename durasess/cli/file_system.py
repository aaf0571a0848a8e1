"""Which file system a path is on, for reports: some of them forget, and some cannot lock."""

from __future__ import annotations

import os
import re

import msgspec

_MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(r"\\([0-7]{3})")

_REMARKS = {
    "tmpfs": "in memory: gone when the machine restarts",
    "ramfs": "in memory: gone when the machine restarts",
    "overlay": "a container's own layer: gone with the container unless it is a volume",
    **dict.fromkeys(
        ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs"),
        "a network file system: locks and syncs are as good as its server",
    ),
}


class FileSystem(msgspec.Struct, frozen=True):
    """`kind` as the kernel names it, empty when it cannot be told; `remark` is what to know."""

    kind: str
    mount: str
    remark: str = ""


def file_system_of(path: str, mounts: str | None = None) -> FileSystem:
    """What `path` is on: of the mount points above it the deepest, the last one mounted there.

    `mounts` is the text of mountinfo, by default this system's.
    """
    if mounts is None:
        try:
            with open(_MOUNTS, "rb") as source:
                mounts = os.fsdecode(source.read())
        except OSError:
            return FileSystem("", "")
    best = FileSystem("", "")
    for line in mounts.splitlines():
        fields, found, rest = line.partition(" - ")
        if not found or len(fields.split(" ")) < 5:
            continue
        mount = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields.split(" ")[4])
        kind = rest.split(" ")[0]
        if _is_below(path, mount) and len(mount) >= len(best.mount):
            best = FileSystem(kind, mount, _REMARKS.get(kind, ""))
    return best


def _is_below(path: str, mount: str) -> bool:
    return mount == os.sep or path == mount or path.startswith(mount.rstrip(os.sep) + os.sep)
