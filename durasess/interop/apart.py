"""A large file is read, masked and mapped by a process of its own, while this one writes. What is
written is the same to the byte.

That process has the open file and hands over what is to be written, batch by batch, through a pipe
that holds little, so that neither runs ahead of the other. It ends when this one does, however that
ends, since nobody takes what it has. What it does is in apart_reader.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import msgspec

from durasess.engine import codec
from durasess.engine.admission import Prepared
from durasess.engine.engine import Engine
from durasess.engine.types import Draft
from durasess.errors import StorageError
from durasess.interop.foreign_file import ForeignFile
from durasess.interop.formats import IMPORTERS
from durasess.interop.importer import Importer
from durasess.interop.reading import Terms
from durasess.interop.tally import ImportReport
from durasess.session.core import Mask
from durasess.session.masking import mask_secrets

LARGE = 20 * 1024 * 1024
"""Bytes of a file for which another process is started: that takes a fifth of a second."""

HELLO, BLOB, BATCH, REPORT, REFUSED = b"hbpre"
"""The first byte of each message says what it is."""

_COUNTED = frozenset(ImportReport.__struct_fields__) - {
    *("path", "format", "session_id", "foreign_id", "uncertain", "conflict")
}
"""What a report says of the file's lines."""

_READER = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from durasess.interop.apart_reader import main; main(int(sys.argv[2]))"
)


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What the other process is to read: an open file of `size` bytes, `path` and `directory`
    (where it may set things aside) in the hex of their bytes."""

    format: str
    fd: int
    size: int
    path: str
    directory: str
    is_masked: bool
    terms: Terms


class Row(msgspec.Struct, frozen=True, array_like=True):
    """An event that is ready to be written. Its data without what is kept beside it is `length`
    bytes of the body, with a brace behind them."""

    type: str
    run_id: str | None
    call_id: str | None
    event_id: str | None
    body: bytes
    length: int


class Rows(msgspec.Struct, frozen=True, array_like=True):
    """A batch, and how many more bytes of the file were read for it."""

    read: int
    rows: list[Row]


class Refusal(msgspec.Struct, frozen=True):
    """Why the other process ended before the file did."""

    message: str
    path: str | None = None
    errno: int | None = None


def is_worth_it(file: ForeignFile, importer: Importer, mask: Mask | None) -> bool:
    """Whether the file is large, there is a second processor, and another process would know the
    importer and the mask."""
    return (
        file.size >= LARGE
        and IMPORTERS.get(importer.name) is importer
        and (mask is None or mask is mask_secrets)
        and _is_python()
        and sys.platform != "win32"
        and _processors() > 1
    )


def _is_python() -> bool:
    """Whether what runs this is a Python by itself, and no program that Python was built into."""
    name = os.path.basename(sys.executable or "").lower()
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def record(
    engine: Engine,
    file: ForeignFile,
    importer: Importer,
    terms: Terms,
    mask: Mask | None,
    report: ImportReport,
) -> bool:
    """Write what the file says into a new session, and report it; False, and nothing is written,
    when no process could be started. Raises what writing raises, and StorageError when the other
    process ended."""
    from multiprocessing.connection import Connection

    taking, giving = os.pipe()
    with Connection(taking, writable=False) as incoming:
        try:
            process = _started(giving, file)
        except OSError:
            return False
        finally:
            os.close(giving)
        try:
            if not _is_there(process, incoming, file, importer, terms, mask, engine.path):
                return False
            with codec.bulk():
                _write(engine, incoming, file, report)
            return True
        finally:
            process.kill()
            process.wait()


def _started(giving: int, file: ForeignFile) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C is for this process, which ends the other."""
    path = [one for one in sys.path if isinstance(one, str)]
    return subprocess.Popen(
        [sys.executable, "-c", _READER, json.dumps(path), str(giving)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(giving, file.fd),
        start_new_session=True,
    )


def _is_there(
    process: subprocess.Popen[bytes],
    incoming: Any,
    file: ForeignFile,
    importer: Importer,
    terms: Terms,
    mask: Mask | None,
    directory: str,
) -> bool:
    """Give it its orders; whether it has them."""
    orders = Orders(
        format=importer.name,
        fd=file.fd,
        size=file.size,
        path=os.fsencode(file.path).hex(),
        directory=os.fsencode(directory).hex(),
        is_masked=mask is not None,
        terms=terms,
    )
    try:
        assert process.stdin is not None
        with process.stdin as stdin:
            stdin.write(codec.encode(orders))
        return bool(incoming.recv_bytes()[0] == HELLO)
    except (OSError, EOFError):
        return False


def _write(engine: Engine, incoming: Any, file: ForeignFile, report: ImportReport) -> None:
    decode = msgspec.msgpack.Decoder(Rows).decode
    while True:
        message = _received(incoming, file)
        kind, content = message[0], memoryview(message)[1:]
        if kind == BATCH:
            batch = decode(content)
            file.progressed(batch.read)
            engine.append_prepared([_prepared(row) for row in batch.rows])
        elif kind == BLOB:
            engine.put_blob(bytes(content))
        elif kind == REPORT:
            done = codec.typed(bytes(content), ImportReport)
            for name in _COUNTED:
                setattr(report, name, getattr(done, name))
            return
        else:
            refusal = codec.typed(bytes(content), Refusal)
            raise StorageError(refusal.message, path=refusal.path, errno=refusal.errno)


def _received(incoming: Any, file: ForeignFile) -> bytes:
    try:
        message: bytes = incoming.recv_bytes()
    except (EOFError, OSError):
        raise StorageError(
            f"{file.path}: the process that read it is gone. What is before that is imported; "
            "import again, that goes on there.",
            path=file.path,
        ) from None
    return message


def _prepared(row: Row) -> Prepared:
    body = row.body
    # A quote in a name has a backslash before it, so this is where the data begins.
    start = body.index(b',"data":') + 8
    data = codec.decode(body[start : start + row.length - 1] + b"}")
    return Prepared(Draft(row.type, data, row.run_id, row.call_id, row.event_id), body)
