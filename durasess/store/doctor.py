"""Looking a store over: where it lies, who may read it, who has what open, what was left behind.

Changes nothing, and reads a few bytes of each session; whether all of it is sound, `verify` says.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Literal

import msgspec

from durasess.engine import lock, paths, workers
from durasess.engine.files import Files
from durasess.errors import DurasessError
from durasess.store import (
    deleting,
    file_system,
    heads,
    index,
    keeping,
    lookup,
    placement,
    rows,
)
from durasess.store.rows import Row

MOST = 100
"""Findings of one kind that are told one by one."""

Kind = Literal["place", "permissions", "damage", "leftover", "foreign", "lock", "parents", "index"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something to know: `what` is so, `next` is what to do about it. Only damage is `is_bad`."""

    kind: Kind
    path: str
    what: str
    next: str
    is_bad: bool = False


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is open for writing now; `holder` is what the last one wrote about itself."""

    session_id: str
    mode: str
    holder: str


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """A store as it is. `left_out` counts findings by kind beyond those told. `index` is "missing"
    (it is made when it is needed), "sound" or "unusable"."""

    path: str
    exists: bool
    file_system: file_system.FileSystem
    sessions: int
    unreadable: int
    held: tuple[Held, ...]
    index: str
    findings: tuple[Finding, ...]
    left_out: dict[str, int] = msgspec.field(default_factory=dict)


def examine(disk: Files, root: str) -> Examined:
    """Everything about a store that can be seen quickly. StorageError when it cannot be read."""
    found = _Findings()
    found.add_all(_place(root))
    exists = os.path.isdir(root)
    every = list(rows.rows(disk, root)) if exists else []
    held: list[Held] = []
    state = "missing"
    if exists:
        found.add_all(_permissions(root, None))
        found.add_all(_names(disk, root, {row.session_id for row in every}))
        for row in every:
            found.add_all(_session(disk, row, held))
        found.add_all(_circles(every))
        state, more = _index(root)
        found.add_all(more)
    return Examined(
        path=root,
        exists=exists,
        file_system=file_system.file_system_of(os.path.realpath(root)),
        sessions=len(every),
        unreadable=found.damaged,
        held=tuple(held),
        index=state,
        findings=tuple(found.told),
        left_out=found.left_out,
    )


class _Findings:
    def __init__(self) -> None:
        self.told: list[Finding] = []
        self.left_out: dict[str, int] = {}
        self.damaged = 0
        self._counts: dict[str, int] = {}

    def add_all(self, findings: Iterator[Finding] | list[Finding]) -> None:
        """Keep the first of each kind, count the others."""
        for one in findings:
            self.damaged += one.is_bad
            self._counts[one.kind] = self._counts.get(one.kind, 0) + 1
            if self._counts[one.kind] <= MOST:
                self.told.append(one)
            else:
                self.left_out[one.kind] = self.left_out.get(one.kind, 0) + 1


def _place(root: str) -> Iterator[Finding]:
    for warning in placement.warnings_for(root):
        what, _, step = warning.rpartition(". ")
        yield Finding(kind="place", path=root, what=f"{what}.", next=step)
    found = file_system.file_system_of(os.path.realpath(root))
    if found.kind in file_system.NETWORK:
        yield Finding(
            kind="place",
            path=root,
            what=f"it is on {found.kind} at {found.mount}: {found.remark}.",
            next="Let one host at a time use it, or choose a local disk.",
        )


def _permissions(path: str, inside: list[str] | None) -> Iterator[Finding]:
    """A directory, and files in it, that others may read. Windows has no such bits."""
    if os.name != "posix":
        return
    places = [path, *(paths.join(path, name) for name in inside or [])]
    for place in places:
        try:
            found = os.lstat(place)
        except OSError:
            # Gone meanwhile.
            continue
        if not stat.S_ISLNK(found.st_mode) and found.st_mode & 0o077:
            mode = f"{stat.S_IMODE(found.st_mode):04o}"
            wanted = "0700" if stat.S_ISDIR(found.st_mode) else "0600"
            yield Finding(
                kind="permissions",
                path=place,
                what=f"others on this machine may open it: mode {mode}, expected {wanted}.",
                next=f"chmod {wanted} it.",
            )


def _names(disk: Files, root: str, sessions: set[str]) -> Iterator[Finding]:
    doomed, unfinished = set(deleting.leftovers(disk, root)), set(deleting.building(disk, root))
    for name in sorted(disk.listdir(root)):
        path = paths.join(root, name)
        if name in doomed:
            what = "a session that was deleted is not quite gone."
            step = 'The next deletion in this store removes it, or "durasess doctor --clean".'
            yield Finding(kind="leftover", path=path, what=what, next=step)
        elif name in unfinished:
            what = "a session was being made here, by a process that may be gone."
            step = '"durasess doctor --clean" removes it when nothing changed there for an hour.'
            yield Finding(kind="leftover", path=path, what=what, next=step)
        elif name == keeping.QUARANTINE:
            count = len(disk.listdir(path))
            what = f"{count} copies of sessions that contradict themselves are kept."
            yield Finding(kind="leftover", path=path, what=what, next="Look, then remove them.")
        elif name not in sessions and not name.startswith(index.NAME):
            what = "it is no session and none of the store's own files."
            yield Finding(kind="foreign", path=path, what=what, next="Nothing: it is left alone.")


def _session(disk: Files, row: Row, held: list[Held]) -> Iterator[Finding]:
    try:
        yield from _looked_into(disk, row, held)
    except (OSError, DurasessError) as error:
        yield _damage(row, f"it cannot be looked at: {error}.")


def _looked_into(disk: Files, row: Row, held: list[Held]) -> Iterator[Finding]:
    problem = row.problem or heads.problem(disk, row.path)
    if problem:
        yield _damage(row, f"{problem}.")
    names = sorted(disk.listdir(row.path))
    yield from _permissions(row.path, names)
    for name in names:
        kind = paths.parse(name).kind
        path = paths.join(row.path, name)
        if kind == "tmp":
            what = "it is left over from a publish that was cut short; nothing reads it."
            step = "Nothing: the next open for writing removes it."
            yield Finding(kind="leftover", path=path, what=what, next=step)
        elif kind == "foreign":
            what = "it is none of a session's files."
            yield Finding(kind="foreign", path=path, what=what, next="Nothing: it is left alone.")
    yield from _locks(disk, row, held)


def _locks(disk: Files, row: Row, held: list[Held]) -> Iterator[Finding]:
    """Only what the kernel holds counts; a lock file that is there says nothing."""
    mode = workers.held_as(disk, row.path)
    if mode is not None:
        holder = lock.read_holder(disk, row.path)
        held.append(Held(session_id=row.session_id, mode=mode, holder=str(holder or "")))
    for seen in workers.look(disk, row.path):
        if not seen.alive:
            yield Finding(
                kind="lock",
                path=paths.worker(row.path, seen.worker_id),
                what="a writer that shared the session is gone; its file is there, its lock free.",
                next="Nothing: the next writer removes it.",
            )


def _damage(row: Row, what: str) -> Finding:
    step = f'Run "durasess verify {row.path}", then "durasess repair" if it says so.'
    return Finding(kind="damage", path=row.path, what=what, next=step, is_bad=True)


def _circles(every: list[Row]) -> Iterator[Finding]:
    """Each circle of parents once."""
    parents = {row.session_id: row.parent for row in every if not row.problem}
    known: set[str] = set()
    for row in every:
        if row.session_id in known:
            continue
        found = lookup.lineage(row.session_id, lambda one: "" if one in known else parents.get(one))
        known.update(found.ids)
        if found.problem.endswith("circle"):
            yield Finding(
                kind="parents",
                path=row.path,
                what=f"{found.problem}.",
                next="Nothing depends on it; a copied or edited session is the likely cause.",
            )


def _index(root: str) -> tuple[str, list[Finding]]:
    path = index.path_of(root)
    if not os.path.exists(path):
        return "missing", []
    problem = index.problem(root)
    if problem is None:
        return "sound", []
    step = 'Run "durasess doctor --rebuild-index"; until then searches read every session.'
    return "unusable", [Finding(kind="index", path=path, what=f"{problem}.", next=step)]
