"""A real file system on a loop device, and its power cut.

The shutdown ioctl without a flush of the log makes the kernel give up a mounted file system as a
power cut would: what was not made durable by then is gone after the next mount. The image lies in
memory where there is room for it, since only the file system above it is tried.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.capabilities import unavailable

MEGABYTE = 1024 * 1024
GOING_DOWN = 0x8004587D
"""_IOR('X', 125, u32): ext4 and XFS know the same number."""

WITHOUT_LOG = struct.pack("I", 2)
PATIENCE_S = 20.0


class Kind(NamedTuple):
    """A file system: how it is made (the first of these that works), its size, and the mount
    options that are tried."""

    name: str
    make: tuple[tuple[str, ...], ...]
    megabytes: int
    options: tuple[str, ...]


EXT4 = Kind(
    "ext4",
    (("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"),),
    48,
    ("", "data=journal", "nodelalloc", "commit=1"),
)
_MAKE_XFS = ("mkfs.xfs", "-q", "-f", "-K")
# A small log is recovered in a third of the time; programs that forbid it make a usual one.
XFS = Kind("xfs", ((*_MAKE_XFS, "--unsupported", "-l", "size=8m"), _MAKE_XFS), 304, ("", "wsync"))
KINDS = {kind.name: kind for kind in (EXT4, XFS)}

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str, options: str = "", flags: int = 0) -> None:
    """The system call; raises OSError."""
    done = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()
    )
    if done:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def unmount(target: str) -> None:
    """The system call, again while somebody who is dying still has a file there."""
    deadline = time.monotonic() + PATIENCE_S
    while _libc.umount2(target.encode(), 0):
        code = ctypes.get_errno()
        if code != errno.EBUSY or time.monotonic() > deadline:
            raise OSError(code, os.strerror(code), target)
        time.sleep(0.001)


def sync_all(fd: int) -> None:
    """syncfs: everything that is dirty on this file system."""
    if _libc.syncfs(fd):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class LoopDisk:
    """`root` is where it is mounted. `image` may be a file that lies elsewhere already."""

    def __init__(self, kind: Kind, directory: Path, *, image: Path | None = None) -> None:
        self.kind = kind
        self.root = directory / "mounted"
        self.root.mkdir(exist_ok=True)
        self.image = image if image is not None else directory / "image"
        self.device = ""
        self.is_mounted = False

    def attach(self) -> None:
        """The image as a block device."""
        done = subprocess.run(
            ["losetup", "--find", "--show", str(self.image)], capture_output=True, text=True
        )
        if done.returncode:
            raise OSError(errno.ENODEV, done.stderr.strip(), str(self.image))
        self.device = done.stdout.strip()

    def make(self) -> None:
        """A new file system in the image, which is made first if it is missing."""
        if not self.image.exists():
            with self.image.open("wb") as image:
                image.truncate(self.kind.megabytes * MEGABYTE)
        for command in self.kind.make:
            done = subprocess.run([*command, str(self.image)], capture_output=True, text=True)
            if done.returncode == 0:
                return
        raise OSError(errno.EIO, done.stderr.strip()[:300], str(self.image))

    def mount(self, options: str = "") -> None:
        """Mount it; the kernel recovers it if it was cut."""
        mount(self.device, str(self.root), self.kind.name, options)
        self.is_mounted = True

    def cut(self) -> None:
        """The power goes. Whoever has files open there gets EIO from now on."""
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, GOING_DOWN, WITHOUT_LOG)
        finally:
            os.close(fd)

    def unmount(self) -> None:
        """Let it go."""
        unmount(str(self.root))
        self.is_mounted = False

    def detach(self) -> None:
        """Give the block device back."""
        subprocess.run(["losetup", "--detach", self.device], check=True, capture_output=True)
        self.device = ""

    def close(self) -> None:
        """Undo whatever of it is there."""
        with contextlib.suppress(OSError):
            if self.is_mounted:
                self.unmount()
        if self.device:
            self.detach()


def memory_or(directory: Path) -> Path:
    """A directory in memory for images, else the one given."""
    shared = Path("/dev/shm")
    roomy = shared.is_dir() and shutil.disk_usage(shared).free > 1024 * MEGABYTE
    return Path(tempfile.mkdtemp(prefix="durasess-", dir=shared if roomy else directory))


@contextlib.contextmanager
def loop_disk(kind: Kind, directory: Path) -> Iterator[LoopDisk]:
    """A fresh file system on a loop device, not mounted yet; taken away afterwards."""
    place = memory_or(directory)
    disk = LoopDisk(kind, place)
    try:
        disk.make()
        disk.attach()
        yield disk
    finally:
        disk.close()
        shutil.rmtree(place, ignore_errors=True)


def need_loop(kind: Kind) -> None:
    """Skip where this machine has no root, no loop devices or not this file system."""
    if os.geteuid() != 0:
        unavailable(f"a loop-mounted {kind.name} needs root")
    for tool in (kind.make[0][0], "losetup"):
        if shutil.which(tool) is None:
            unavailable(f"{tool} is not installed")
    with tempfile.TemporaryDirectory() as directory:
        try:
            with loop_disk(kind, Path(directory)) as disk:
                disk.mount()
                disk.cut()
        except OSError as error:
            unavailable(f"{kind.name} on a loop device with a shutdown: {error}")
