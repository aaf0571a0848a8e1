"""The first bytes of the files that opening a session begins with: do they look like such files?

A quick look for lists and `doctor`, which reads some bytes of two files; `verify` reads them all.
"""

from __future__ import annotations

from durasess.engine import paths
from durasess.engine.files import Files

_BYTES = 64
"""Of a file that are looked at."""

_ZSTD = b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"


def problem(disk: Files, directory: str) -> str | None:
    """What is wrong with the newest snapshot's or the newest segment's beginning, None when nothing
    is. OSError when the system cannot read one."""
    return _snapshot(disk, directory) or _segment(disk, directory)


def _snapshot(disk: Files, directory: str) -> str | None:
    path = paths.join(directory, paths.SNAPSHOT)
    head = _head(disk, path)
    if head is None or head.startswith(_ZSTD):
        return None
    return f'{path} does not begin like a snapshot. Run "durasess verify {directory}"'


def _segment(disk: Files, directory: str) -> str | None:
    names = [(paths.parse(name), name) for name in disk.listdir(directory)]
    segments = [(found.number, name) for found, name in names if found.kind == "segment"]
    if not segments:
        return None
    number = max(segments)[0]
    name = paths.segment(number)
    compressed = name not in {one for _, one in segments}
    if compressed:
        name = paths.segment(number, compressed=True)
    path = paths.join(directory, name)
    head = _head(disk, path)
    expected = _ZSTD if compressed else b'{"'
    # One of 0 bytes is what a crash may leave; the next open says so.
    if not head or head.removeprefix(_BOM).startswith(expected):
        return None
    return f'{path} does not begin like a segment. Run "durasess verify {directory}"'


def _head(disk: Files, path: str) -> bytes | None:
    try:
        fd = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        return disk.read_at(fd, _BYTES, 0)
    finally:
        disk.close(fd)
