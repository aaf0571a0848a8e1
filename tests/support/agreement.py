"""The library and the second reader, which shares no code with it, must read a directory alike."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from durasess import DurasessError, Engine, FormatVersionError, SessionNotFoundError
from durasess.engine.files import RealFiles
from durasess.engine.paths import parse
from durasess.engine.verify import Verified, verify
from tests.conformance import reference_reader

MAX_BYTES = 4 * 1024 * 1024
"""The second reader takes no shortcuts; larger sessions are compared in tests of their own."""


def session_directories(root: Path) -> list[Path]:
    """Directories below `root` that hold something of a session."""
    found = []
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if name != "quarantine"]
        kinds = {parse(name).kind for name in files}
        if kinds & {"meta", "snapshot", "previous", "segment"}:
            found.append(Path(directory))
    return found


def size_of(directory: Path) -> int:
    """Bytes of the files directly in a directory."""
    return sum(entry.stat().st_size for entry in os.scandir(directory) if entry.is_file())


def assert_readers_agree(directory: Path) -> None:
    """Same verdict; when it is sound, the same events, torn tail and end of the log."""
    try:
        ours = verify(str(directory), files=RealFiles())
    except (SessionNotFoundError, FormatVersionError) as error:
        _assert_refused_too(directory, error)
        return
    theirs = reference_reader.read_session(directory)
    assert bool(ours.damage) == bool(theirs.damage), (
        f"{directory}: durasess says {ours.damage}, the second reader {theirs.damage}"
    )
    if ours.damage or ours.schema_version > 1:
        return
    _assert_same(directory, ours, theirs)


def _assert_refused_too(directory: Path, error: DurasessError) -> None:
    try:
        theirs = reference_reader.read_session(directory)
    except (reference_reader.UnsupportedFormat, ValueError, OSError):
        return
    assert theirs.damage or not theirs.events, f"{directory}: only durasess refuses: {error}"


def _assert_same(directory: Path, ours: Verified, theirs: reference_reader.Reading) -> None:
    torn = None if ours.torn is None else (ours.torn.offset, ours.torn.size)
    assert torn == theirs.torn, f"{directory}: torn {torn} and {theirs.torn}"
    assert theirs.recovery is not None
    with Engine.open(directory, mode="read") as engine:
        assert engine.last_seq == theirs.recovery.last_seq
        first = theirs.events[0]["seq"] if theirs.events else engine.last_seq + 1
        events = list(engine.events(after=first - 1))
    mine = [(e.seq, e.ts, e.type, e.data, e.crc) for e in events]
    assert mine == [_fields(one) for one in theirs.events], f"{directory}: events differ"


def _fields(event: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(event[name] for name in ("seq", "ts", "type", "data", "crc"))
