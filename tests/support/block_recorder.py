"""A file system with one file, for a loop device: it writes down every write and every flush.

    python -m tests.support.block_recorder MOUNTPOINT IMAGE TRACE

serves `MOUNTPOINT/image` with the content of the file IMAGE (which stays as it is) and
`MOUNTPOINT/mark` until it is unmounted. What is written to `mark` is put between the writes, in the
order of all requests; two marks are commands: `fail` makes the writes to the image fail with EIO
from then on, `heal` ends that.

It speaks the kernel's FUSE protocol on /dev/fuse itself: a handful of requests are all it takes.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.support.loop_disk import mount, unmount

ROOT, IMAGE, MARK = 1, 2, 3
NAMES = {b"image": IMAGE, b"mark": MARK}
WRITE, FLUSH, MARKED = b"w", b"f", b"m"

_IN = struct.Struct("<IIQQIIIHH")
_OUT = struct.Struct("<IiQ")
_ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
_READ = struct.Struct("<QQIIQII")

_TRACED = struct.Struct("<cQI")

_LOOKUP, _FORGET, _GETATTR, _SETATTR, _OPEN, _READ_AT, _WRITE_AT = 1, 2, 3, 4, 14, 15, 16
_STATFS, _RELEASE, _FSYNC, _FLUSHED, _INIT, _OPENDIR, _RELEASEDIR = 17, 18, 20, 25, 26, 27, 29
_INTERRUPT, _BATCH_FORGET = 36, 42
_SILENT = frozenset([_FORGET, _INTERRUPT, _BATCH_FORGET])
_MAX_WRITE = 1 << 20
_BIG_WRITES = 1 << 5
_MAX_PAGES = 1 << 22
_DIRECT_IO = 1
_PATIENCE_S = 20.0


class Traced(NamedTuple):
    """One entry of a trace: WRITE with its bytes, FLUSH, or MARKED with what was said."""

    kind: bytes
    offset: int = 0
    data: bytes = b""


def read_trace(path: Path) -> Iterator[Traced]:
    """All entries in their order."""
    content = path.read_bytes()
    at = 0
    while at < len(content):
        kind, offset, size = _TRACED.unpack_from(content, at)
        at += _TRACED.size
        yield Traced(kind, offset, content[at : at + size])
        at += size


class Server:
    """Answers the kernel until the file system is unmounted."""

    def __init__(self, fd: int, image: bytearray, trace: int) -> None:
        self._fd = fd
        self._image = image
        self._trace = trace
        self._fails = False

    def serve(self) -> None:
        """Every request in turn."""
        while True:
            try:
                request = os.read(self._fd, _MAX_WRITE + 8192)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno in (errno.ENOENT, errno.EINTR):
                    continue
                raise
            _, opcode, unique, node, *_ = _IN.unpack_from(request)
            if opcode in _SILENT:
                continue
            try:
                body, code = self._answer(opcode, node, memoryview(request)[_IN.size :]), 0
            except OSError as error:
                body, code = b"", -(error.errno or errno.EIO)
            os.write(self._fd, _OUT.pack(_OUT.size + len(body), code, unique) + body)

    def _answer(self, opcode: int, node: int, body: memoryview) -> bytes:
        if opcode == _INIT:
            _, minor, readahead, offered = struct.unpack_from("<IIII", body)
            flags = offered & (_BIG_WRITES | _MAX_PAGES)
            limits = (16, 12, _MAX_WRITE, 1, _MAX_WRITE // 4096, 0, 0)
            return struct.pack("<IIIIHHIIHHI28x", 7, min(minor, 31), readahead, flags, *limits)
        if opcode == _LOOKUP:
            found = NAMES.get(bytes(body).rstrip(b"\0"))
            if found is None:
                raise OSError(errno.ENOENT, "there is no such file")
            return struct.pack("<QQQQII", found, 0, 3600, 3600, 0, 0) + self._attributes(found)
        if opcode in (_GETATTR, _SETATTR):
            return struct.pack("<QII", 3600, 0, 0) + self._attributes(node)
        if opcode in (_OPEN, _OPENDIR):
            return struct.pack("<QIi", 0, _DIRECT_IO if node == MARK else 0, 0)
        if opcode == _READ_AT:
            _, offset, size, *_ = _READ.unpack_from(body)
            return bytes(self._image[offset : offset + size]) if node == IMAGE else b""
        if opcode == _WRITE_AT:
            _, offset, size, *_ = _READ.unpack_from(body)
            self._write(node, offset, bytes(body[_READ.size : _READ.size + size]))
            return struct.pack("<II", size, 0)
        if opcode == _FSYNC:
            self._say(FLUSH)
            return b""
        if opcode == _STATFS:
            return struct.pack("<QQQQQIIII24x", 1 << 20, 1 << 20, 1 << 20, 9, 9, 4096, 255, 4096, 0)
        if opcode in (_RELEASE, _RELEASEDIR, _FLUSHED):
            return b""
        raise OSError(errno.ENOSYS, "nobody needs this here")

    def _write(self, node: int, offset: int, data: bytes) -> None:
        if node == MARK:
            self._fails = (self._fails or data == b"fail") and data != b"heal"
            self._say(MARKED, 0, data)
            return
        if self._fails:
            raise OSError(errno.EIO, "the disk is told to fail")
        self._image[offset : offset + len(data)] = data
        self._say(WRITE, offset, data)

    def _say(self, kind: bytes, offset: int = 0, data: bytes = b"") -> None:
        os.write(self._trace, _TRACED.pack(kind, offset, len(data)) + data)

    def _attributes(self, node: int) -> bytes:
        kind = stat.S_IFDIR | 0o700 if node == ROOT else stat.S_IFREG | 0o600
        size = len(self._image) if node == IMAGE else 0
        return _ATTRIBUTES.pack(node, size, size // 512, *[0] * 6, kind, 1, 0, 0, 0, 4096, 0)


def main(mountpoint: str, image: str, trace: str) -> None:
    """Mount and serve."""
    content = bytearray(Path(image).read_bytes())
    fd = os.open("/dev/fuse", os.O_RDWR)
    log = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0"
    mount("recorder", mountpoint, "fuse", options)
    Server(fd, content, log).serve()


class Recorder:
    """The server in a process of its own, so that nobody who waits for the disk waits for himself.

    `image` is the recorded file, `mark` says something between the writes.
    """

    def __init__(self, directory: Path, image: Path) -> None:
        self._mounted = directory / "recorder"
        self._mounted.mkdir(exist_ok=True)
        self._trace = directory / "trace"
        self._base = image
        self._mark = -1
        self._server: subprocess.Popen[bytes] | None = None
        self.image = self._mounted / "image"

    def __enter__(self) -> Recorder:
        here = Path(__file__).resolve().parents[2]
        command = [sys.executable, "-m", "tests.support.block_recorder"]
        arguments = [str(self._mounted), str(self._base), str(self._trace)]
        self._server = subprocess.Popen([*command, *arguments], cwd=here, stderr=subprocess.PIPE)
        deadline = time.monotonic() + _PATIENCE_S
        while not self._mounted.is_mount():
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise OSError(errno.EIO, (self._server.stderr.read() or b"").decode()[-500:])
            time.sleep(0.005)
        self._mark = os.open(self._mounted / "mark", os.O_WRONLY)
        return self

    def mark(self, said: bytes) -> None:
        """When this returns, it stands behind every write that was answered before."""
        os.pwrite(self._mark, said, 0)

    def trace(self) -> list[Traced]:
        """What was written down so far."""
        return list(read_trace(self._trace))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._mark >= 0:
            os.close(self._mark)
        server = self._server
        assert server is not None and server.stderr is not None
        try:
            if self._mounted.is_mount():
                unmount(str(self._mounted))
            server.wait(_PATIENCE_S)
        except (OSError, subprocess.TimeoutExpired):
            # Killed, it lets go of whoever waits for it.
            server.kill()
            server.wait()
            raise
        finally:
            server.stderr.close()


if __name__ == "__main__":
    main(*sys.argv[1:4])
