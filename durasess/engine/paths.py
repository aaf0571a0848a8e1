"""Every file name of a session: one function makes each, one function parses all.

meta.json                     identity, baseline, floor, summary
snapshot.json.zst             newest snapshot; snapshot.prev.json.zst is the one before
events_0001.jsonl[.zst]       segments, counted from 1, at least four digits
owner, lock                   lock files, never unlinked
quarantine/                   bytes that recovery or repair set aside
workers/                      one locked file for each live writer that shares the session
blobs/<hash>                  large values, named by what they hash to
<name>.tmp                    a file being published
snapshot.json.zst.<id>.tmp    a snapshot being published by a worker
blobs/<hash>.<id>.tmp         a blob being published
events.jsonl.zst.tmp          a segment being compressed, whichever it is
import.tmp                    what an import sets aside; it has no name while it is used
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

META = "meta.json"
SNAPSHOT = "snapshot.json.zst"
SNAPSHOT_PREVIOUS = "snapshot.prev.json.zst"
OWNER = "owner"
LOCK = "lock"
QUARANTINE = "quarantine"
WORKERS = "workers"
BLOBS = "blobs"
SCRATCH = "import.tmp"
TMP = ".tmp"
COMPRESSING = "events.jsonl.zst.tmp"
ZST = ".zst"

MAX_SEGMENT = 10**15
"""Segment numbers stay below this, so a hostile name cannot start an endless search."""

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_SEGMENT = re.compile(r"events_([0-9]{4,15})\.jsonl(\.zst)?", re.ASCII)
_BLOB = re.compile(r"[0-9a-f]{64}", re.ASCII)
_BLOB_TMP = re.compile(r"([0-9a-f]{64})\.[A-Za-z0-9_-]{1,64}" + re.escape(TMP), re.ASCII)
_DEVICES = frozenset(
    ["CON", "PRN", "AUX", "NUL", *(f"{name}{n}" for name in ("COM", "LPT") for n in range(1, 10))]
)


class FileName(NamedTuple):
    """A parsed name: `kind` is one of meta, snapshot, previous, segment, owner, lock, quarantine,
    workers, blobs, tmp or foreign; `number` is the segment's, else 0."""

    kind: str
    number: int = 0
    compressed: bool = False


_FIXED = {
    META: "meta",
    SNAPSHOT: "snapshot",
    SNAPSHOT_PREVIOUS: "previous",
    OWNER: "owner",
    LOCK: "lock",
    QUARANTINE: "quarantine",
    WORKERS: "workers",
    BLOBS: "blobs",
    COMPRESSING: "tmp",
    SCRATCH: "tmp",
}


def segment(number: int, *, compressed: bool = False) -> str:
    """The name of segment `number` (1, 2, 3 …): at least four digits, more when needed."""
    if not 1 <= number < MAX_SEGMENT:
        raise ValueError(f"segment number {number} is outside 1 to {MAX_SEGMENT - 1}")
    return f"events_{number:04d}.jsonl" + (ZST if compressed else "")


def parse(name: str) -> FileName:
    """What a name in a session directory means. Names are compared as written; no name raises."""
    kind = _FIXED.get(name)
    if kind is not None:
        return FileName(kind)
    match = _SEGMENT.fullmatch(name)
    if match is not None:
        number = int(match[1])
        compressed = match[2] is not None
        # events_00007.jsonl is not what segment(7) makes, so it is somebody else's.
        if 1 <= number < MAX_SEGMENT and segment(number, compressed=compressed) == name:
            return FileName("segment", number, compressed)
    if name.endswith(TMP) and _may_be_published(name[: -len(TMP)]):
        return FileName("tmp")
    return FileName("foreign")


def worker(directory: str, worker_id: str) -> str:
    """The file of a writer that shares the session."""
    return join(join(directory, WORKERS), worker_id)


def blob(directory: str, hash: str) -> str:
    """The file of a blob."""
    return join(join(directory, BLOBS), hash)


def blob_tmp(directory: str, hash: str, token: str) -> str:
    """Where a blob is written before it is published; `token` makes the name this put's own."""
    return f"{blob(directory, hash)}.{token}{TMP}"


def is_blob(name: str) -> bool:
    """Whether a name in the folder of blobs is a blob's."""
    return isinstance(name, str) and _BLOB.fullmatch(name) is not None


def blob_of_tmp(name: str) -> str | None:
    """The hash of the blob that was being published under this name, None for another name."""
    match = _BLOB_TMP.fullmatch(name)
    return None if match is None else match[1]


def snapshot_tmp(worker_id: str | None) -> str:
    """Where a snapshot is written before it is published; writers that share a session, who may do
    so at the same time, each have a name of their own."""
    return f"{SNAPSHOT}.{worker_id}{TMP}" if worker_id else SNAPSHOT + TMP


def _may_be_published(name: str) -> bool:
    if parse(name).kind in {"meta", "snapshot", "segment"}:
        return True
    return re.fullmatch(re.escape(SNAPSHOT) + r"\.[A-Za-z0-9_-]{1,64}", name, re.ASCII) is not None


def session_id_problem(session_id: str) -> str | None:
    """Why this is no session id, or None: an allow-list that is safe as a directory name
    on every system (FORMAT.md §1)."""
    if not isinstance(session_id, str) or _SESSION_ID.fullmatch(session_id) is None:
        return (
            "a session id is 1 to 128 characters of A-Z a-z 0-9 . _ -, the first a letter or digit"
        )
    if session_id.endswith("."):
        return "a session id does not end with a dot"
    if session_id.split(".", 1)[0].upper() in _DEVICES:
        return "a session id is not the name of a Windows device"
    return None


def join(directory: str, name: str) -> str:
    """A name inside a directory."""
    return f"{directory}/{name}" if os.sep == "/" else os.path.join(directory, name)


def parent(directory: str) -> str:
    """The directory that holds this one."""
    return os.path.dirname(directory) or os.sep


def base(path: str) -> str:
    """The last part of a path: for a session directory, its session id."""
    return os.path.basename(path)


def building(directory: str, token: str) -> str:
    """The dot name under which a new session directory is built before it is renamed."""
    return join(parent(directory), f".{base(directory)}.{token}.new")


def quarantined(name: str, offset: int, digest: str) -> str:
    """The name in quarantine for bytes cut from `name` at byte `offset`. The same bytes get the
    same name, so a recovery that is interrupted and repeated keeps one copy."""
    return f"{name}.{offset}.{digest[:16]}"
