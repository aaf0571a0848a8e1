"""The process that reads a foreign file for another one, which writes (apart.py)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection

import msgspec

from durasess.engine import codec
from durasess.engine.admission import Prepared
from durasess.engine.blobs import HASH_BYTES
from durasess.engine.drafting import Drafting, Encoded
from durasess.engine.files import RealFiles
from durasess.engine.scratch import Scratch
from durasess.engine.types import Event
from durasess.errors import DurasessError
from durasess.interop.apart import BATCH, BLOB, HELLO, REFUSED, REPORT, Orders, Refusal
from durasess.interop.decoding import Decoding
from durasess.interop.foreign_file import ForeignFile
from durasess.interop.formats import IMPORTERS
from durasess.interop.reading import record
from durasess.interop.tally import ImportReport
from durasess.session.masking import mask_secrets


class Outlet:
    """A log that is written by the other process, into a new session."""

    last_seq = 0

    def __init__(self, outgoing: Connection) -> None:
        self._outgoing = outgoing
        self._drafting = Drafting()
        self._encode_into = msgspec.msgpack.Encoder().encode_into
        # One for all batches: a new one of this size costs more than what is put into it.
        self._batch = bytearray((BATCH,))
        self._lengths: list[int] = []
        self._read = 0

    def events(self) -> Iterator[Event]:
        """None are there."""
        return iter(())

    def prepared(self, one: Encoded) -> Prepared:
        """As the engine makes it ready."""
        ready = self._drafting.encoded(one)
        self._lengths.append(len(one.data))
        return ready

    def append_prepared(self, events: list[Prepared]) -> None:
        """Hand a batch over."""
        rows = []
        for one, length in zip(events, self._lengths, strict=True):
            draft = one.draft
            # As a Row is encoded.
            named = (draft.type, draft.run_id, draft.call_id, draft.event_id)
            rows.append((*named, one.body, length))
        self._lengths.clear()
        self._encode_into((self._read, rows), self._batch, 1)
        self._outgoing.send_bytes(self._batch)
        self._read = 0

    def put_blob(self, data: bytes) -> str:
        """Hand a value over that is stored out of line, before the event that names it."""
        self.send(BLOB, data)
        return codec.digest(data, size=HASH_BYTES)

    def progressed(self, size: int) -> None:
        """So many more bytes of the file were read."""
        self._read += size

    def send(self, kind: int, content: bytes) -> None:
        """A message. OSError when nobody is there to take it."""
        self._outgoing.send_bytes(bytes((kind,)) + content)


def main(giving: int) -> None:
    """Read what the orders on the standard input name; write to descriptor `giving`."""
    with Connection(giving, readable=False) as outgoing:
        outlet = Outlet(outgoing)
        orders = codec.typed(sys.stdin.buffer.read(), Orders)
        outlet.send(HELLO, b"")
        answer(outlet, orders)


def answer(outlet: Outlet, orders: Orders) -> None:
    """Read it, and say at the end what came of it: nobody sees what this process would print."""
    path = os.fsdecode(bytes.fromhex(orders.path))
    try:
        content = codec.encode(_read(outlet, orders))
    except DurasessError as error:
        refusal = Refusal(str(error), path, getattr(error, "errno", None))
    except Exception as error:
        refusal = Refusal(
            f"{path}: the process that read it was stopped by {error!r}. What is before that is "
            "imported; import again, that goes on there.",
            path,
        )
    else:
        outlet.send(REPORT, content)
        return
    outlet.send(REFUSED, codec.encode(refusal))


def _read(outlet: Outlet, orders: Orders) -> ImportReport:
    path, directory = (os.fsdecode(bytes.fromhex(one)) for one in (orders.path, orders.directory))
    disk = RealFiles()
    file = ForeignFile.opened(disk, orders.fd, path, orders.size, outlet.progressed)
    importer = IMPORTERS[orders.format]
    report = ImportReport(path=path, format=orders.format)
    scratch = Scratch(disk, directory)
    try:
        decoding = Decoding(mask_secrets if orders.is_masked else None)
        record(outlet, file, importer, orders.terms, decoding, scratch, report)
    finally:
        scratch.close()
    return report
