"""One foreign file → events, from its first line or from where it was read to before.

What an import says of the file in its reports and its positions is made here. Which process does
this, and which writes, is in importing.py and apart.py.
"""

from __future__ import annotations

import msgspec

from durasess.engine import codec
from durasess.engine.scratch import Scratch
from durasess.interop.decoding import Decoding
from durasess.interop.foreign_file import ForeignFile
from durasess.interop.importer import Identity, Importer
from durasess.interop.recording import Log, Position, Recording
from durasess.interop.source import Source
from durasess.interop.tally import ImportReport, Tally


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is imported: who it is, the path of its file, the id of the session that it
    works for, and of the store: the version of the program's own events, the size in bytes beyond
    which a value is stored out of line, the types that the program's own reducers read."""

    identity: Identity
    source: str
    parent: str
    custom_version: int
    blob_bytes: int
    reducers: list[str]


def record(
    log: Log,
    file: ForeignFile,
    importer: Importer,
    terms: Terms,
    decoding: Decoding,
    scratch: Scratch,
    report: ImportReport,
    before: Position | None = None,
) -> None:
    """Write what the file says, behind `before`, and report it."""
    recording = Recording(
        log,
        importer.name,
        blob_bytes=terms.blob_bytes,
        reducers=terms.reducers,
        tally=Tally(report),
        decoding=decoding,
        scratch=scratch,
    )
    if before is None:
        recording.begin(terms.identity, custom_version=terms.custom_version, parent=terms.parent)
    ends = frozenset(before.ends if before is not None else ())
    source = Source(file, decoding, ends, scratch)
    with codec.bulk():
        _read(source, importer, recording, terms.source, before, report)


def _read(
    source: Source,
    importer: Importer,
    recording: Recording,
    path: str,
    before: Position | None,
    report: ImportReport,
) -> None:
    known = before.mapped if before is not None else 0
    ends = set(before.ends if before is not None else ())
    count = 0

    def position(*, is_complete: bool) -> Position:
        return Position(
            format=importer.name,
            source=path,
            mapped=count,
            lines=source.number,
            bytes=source.bytes,
            digest=source.digest(),
            ends=sorted(ends),
            is_complete=is_complete,
        )

    for mapped in importer.read(source):
        count += 1
        if source.is_at_end:
            ends.add(source.number)
        if count <= known:
            report.skipped += 0 if mapped.again else 1
            continue
        recording.take(mapped)
        if recording.is_full:
            # Also at the end of the file: what was held back until there is still coming.
            recording.write(position(is_complete=False))
    is_complete = not source.problem
    is_news = before is None or before.bytes != source.bytes or before.is_complete < is_complete
    if is_news or not recording.is_empty:
        recording.write(position(is_complete=is_complete))
    report.bytes, report.torn, report.blank = source.bytes, source.torn, source.blank
    report.problem = source.problem
