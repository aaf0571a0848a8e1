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


def problem(disk: Files, directory: str, *, active: int = 0) -> str | None:
    """What is wrong with the newest snapshot's or the newest segment's beginning, None when nothing
    is. `active` is a segment that is there at least, 0 when that is not known. OSError when the
    system cannot read one."""
    return _snapshot(disk, directory) or _segment(disk, directory, active)


def _snapshot(disk: Files, directory: str) -> str | None:
    path = paths.join(directory, paths.SNAPSHOT)
    head = _head(disk, path)
    if head is None or head.startswith(_ZSTD):
        return None
    return f'{path} does not begin like a snapshot. Run "durasess verify {directory}"'


def _segment(disk: Files, directory: str, active: int) -> str | None:
    path, head = "", None
    # A list asks this of thousands, so their directories are not read.
    while 0 < active < paths.MAX_SEGMENT:
        following = paths.join(directory, paths.segment(active))
        found = _head(disk, following)
        if found is None:
            break
        path, head, active = following, found, active + 1
    if head is None:
        path = _newest_segment(disk, directory)
        head = _head(disk, path) if path else None
    expected = _ZSTD if path.endswith(paths.ZST) else b'{"'
    # One of 0 bytes is what a crash may leave; the next open says so.
    if not head or head.removeprefix(_BOM).startswith(expected):
        return None
    return f'{path} does not begin like a segment. Run "durasess verify {directory}"'


def _newest_segment(disk: Files, directory: str) -> str:
    names = disk.listdir(directory)
    number = max((paths.parse(name).number for name in names), default=0)
    if number == 0:
        return ""
    name = paths.segment(number)
    if name not in names:
        name = paths.segment(number, compressed=True)
    return paths.join(directory, name)


def _head(disk: Files, path: str) -> bytes | None:
    try:
        return disk.first_bytes(path, _BYTES)
    except FileNotFoundError:
        return None
