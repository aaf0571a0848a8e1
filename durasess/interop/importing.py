"""Imports foreign session files into a store: once, and later only what is new.

The foreign file is read and never touched. Which formats there are is in formats.py, what an
importer is in importer.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from durasess.engine.files import RealFiles
from durasess.engine.scratch import Scratch
from durasess.errors import DurasessError, EventRejectedError, StorageError
from durasess.interop import apart
from durasess.interop.decoding import Decoding
from durasess.interop.foreign_file import ForeignFile, Progress, prefix, raw_lines
from durasess.interop.formats import IMPORTERS
from durasess.interop.importer import Identity, Importer, session_id_for
from durasess.interop.reading import Terms, record
from durasess.interop.recording import Position, position_of
from durasess.interop.tally import ImportReport
from durasess.session.core import Core
from durasess.store.store import Store

FIRST_LINES = 50
"""Lines that are looked at to recognize and identify a session."""


class NotRecognizedError(EventRejectedError):
    """No importer knows the file, or the one that was named does not."""


def import_file(
    store: Store,
    path: str,
    importer: Importer | None = None,
    *,
    on_progress: Progress | None = None,
) -> ImportReport:
    """Import one foreign session file, or what was appended to it since it was imported last.

    The session's id is made of the foreign one, so importing again adds nothing twice. A file whose
    beginning is not what was imported is a conflict: it is reported and nothing is written. Without
    an `importer` the file's first lines decide. `on_progress(bytes)` is told what was read.

    Raises NotRecognizedError, StorageError when the file cannot be opened or the store be written,
    SessionLockedError when the session is open elsewhere, and what else opening it raises. What was
    written before stays; importing again goes on there.
    """
    file = ForeignFile(RealFiles(), path, on_progress)
    try:
        first = _first_items(file)
        chosen = importer or _recognized(path, first)
        if not chosen.recognizes(first):
            raise NotRecognizedError(
                f"{path}: the first lines are not those of a {chosen.name} session. Check the file "
                "and the format. Nothing was imported."
            )
        try:
            identity = chosen.identify(file.path, first)
        except ValueError as error:
            raise NotRecognizedError(f"{path}: {error}. Nothing was imported.") from None
        return _import(store, file, chosen, identity)
    finally:
        file.close()


Found = tuple[str, Importer | None]
"""A file, and its importer; None where its first lines decide."""


def find_all(importers: Iterable[Importer], environment: Mapping[str, str]) -> Iterator[Found]:
    """Every session that these importers find where the other tools keep them; `environment` are
    the variables that name these directories."""
    for importer in importers:
        for path in importer.find(None, environment):
            yield path, importer


def import_all(
    store: Store, found: Iterable[Found], *, on_progress: Progress | None = None
) -> Iterator[ImportReport]:
    """Import these files. Yields one report for each as it is done; what fails is reported in it,
    and the next one follows."""
    for path, importer in found:
        try:
            yield import_file(store, path, importer, on_progress=on_progress)
        except DurasessError as error:
            name = importer.name if importer is not None else ""
            yield ImportReport(path=path, format=name, problem=str(error))


def _first_items(file: ForeignFile) -> list[Any]:
    items: list[Any] = []
    decode = Decoding(None)
    try:
        for number, (raw, _) in enumerate(raw_lines(file), 1):
            line = decode(number, raw)
            if line.item is not None:
                items.append(line.item)
            if number >= FIRST_LINES:
                break
    except StorageError:
        # What is before it is imported, and the report says the rest.
        if not items:
            raise
    return items


def _recognized(path: str, first: list[Any]) -> Importer:
    for importer in IMPORTERS.values():
        if importer.recognizes(first):
            return importer
    raise NotRecognizedError(
        f"{path}: the first lines are those of no format that is known: {', '.join(IMPORTERS)}. "
        "Name the format if it is one of them. Nothing was imported."
    )


def _import(
    store: Store, file: ForeignFile, importer: Importer, identity: Identity
) -> ImportReport:
    report = ImportReport(
        path=file.path,
        format=importer.name,
        session_id=session_id_for(importer.name, identity.foreign_id),
        foreign_id=identity.foreign_id,
    )
    core, options = store.open_for_import(report.session_id)
    scratch = Scratch(RealFiles(), core.engine.path)
    try:
        before = position_of(core)
        there = prefix(file, before.bytes) if before is not None else ("", False)
        report.conflict = _conflict(core, before, there)
        if before is None or not report.conflict:
            report.uncertain = _uncertain(core)
        if report.conflict or (before is not None and _is_unchanged(before, there, report)):
            return report
        terms = Terms(
            identity=identity,
            source=file.path,
            parent=session_id_for(importer.name, identity.parent) if identity.parent else "",
            custom_version=options.custom.version,
            blob_bytes=options.blob_bytes,
            reducers=list(core.custom.reducers),
        )
        is_apart = before is None and apart.is_worth_it(file, importer, options.mask)
        if not is_apart or not apart.record(
            core.engine, file, importer, terms, options.mask, report
        ):
            record(
                core.engine, file, importer, terms, Decoding(options.mask), scratch, report, before
            )
        core.engine.flush()
        report.uncertain = _uncertain(core)
        return report
    finally:
        scratch.close()
        core.engine.close()


def _conflict(core: Core, before: Position | None, there: tuple[str, bool]) -> str:
    """Why the file cannot be merged into the session; nothing when it can. `there` is what the file
    begins with now, as far as it was imported."""
    session_id = core.engine.session_id
    if before is None:
        if not core.engine.last_seq:
            return ""
        return (
            f"there is a session {session_id} that was not imported. Import into another store, or "
            "delete it"
        )
    digest, is_all = there
    if digest != before.digest:
        return (
            f"the first {before.bytes} bytes are not those that were imported into {session_id} "
            f"from {before.source}. Nothing was merged: import into another store, or delete the "
            "session and import again"
        )
    if core.engine.last_seq != before.seq and not (before.is_complete and is_all):
        return (
            f"the session {session_id} was continued since seq {before.seq}, and the file has "
            "grown too. Nothing was merged: import into another store to have both"
        )
    return ""


def _is_unchanged(before: Position, there: tuple[str, bool], report: ImportReport) -> bool:
    if not (before.is_complete and there[1]):
        return False
    report.skipped, report.bytes = before.lines, before.bytes
    return True


def _uncertain(core: Core) -> int:
    return sum(call.status == "uncertain" for call in core.state.tool_states.values())
