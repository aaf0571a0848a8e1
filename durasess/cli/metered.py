"""The system's disk with a counter of the bytes that are read: what a progress bar goes by."""

from __future__ import annotations

from durasess.cli.output import Step
from durasess.engine import blobs, files, paths

_LARGE = frozenset(["segment", "snapshot", "previous"])


class MeteredFiles(files.RealFiles):
    """A disk that tells `step` of every byte read."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self._step = step

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        """As the disk does."""
        data = super().read_at(fd, size, offset)
        self._step(len(data))
        return data


def bytes_to_read(*directories: str) -> int:
    """What verifying these sessions reads, about: their segments, snapshots and blobs."""
    disk = files.RealFiles()
    total = 0
    for directory in directories:
        try:
            names = disk.listdir(directory)
        except OSError:
            continue
        for name in names:
            if paths.parse(name).kind in _LARGE:
                total += size_of(disk, paths.join(directory, name))
        total += sum(blobs.stored(disk, directory).values())
    return total


def size_of(disk: files.Files, path: str) -> int:
    """A file's length in bytes; 0 when it cannot be told, since it may have gone by now."""
    try:
        return disk.stat(path).size
    except OSError:
        return 0
