"""What `durasess inspect` shows, as one report: the engine's findings and all that lies around.

Changes nothing, keeps no lock, goes on past damage, leaves nothing out that could help. The
findings are those of `verify`; where it cannot read a session, each file is read by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from durasess.cli import layout, salvage, stores
from durasess.cli.blocks import Tone
from durasess.cli.layout import Entry
from durasess.cli.metered import MeteredFiles, size_of
from durasess.cli.output import DAMAGE, SOUND, UNREADABLE, Step
from durasess.engine import files, meta, paths, verify
from durasess.engine.types import FORMAT, Damage, LineError, SegmentInfo, TornTail
from durasess.engine.verify import SnapshotInfo, Verified
from durasess.errors import DurasessError, FormatVersionError, SessionNotFoundError
from durasess.store import file_system, holders
from durasess.store.holders import LockLook

STATUS = {"sound": SOUND, "torn tail": SOUND, "damage": DAMAGE, "unreadable": UNREADABLE}
TONE: dict[str, Tone] = {
    "sound": "good",
    "torn tail": "warn",
    "damage": "bad",
    "unreadable": "bad",
}
"""What a health means for the exit status, and how it looks."""


class SegmentLook(msgspec.Struct, frozen=True, kw_only=True):
    """One segment file; `bytes` as it is on disk, `states` in words."""

    name: str
    number: int
    bytes: int
    events: int
    first_seq: int
    last_seq: int
    states: list[str]


class Inspected(msgspec.Struct, kw_only=True):
    """A session directory as it is. `health` is sound, torn tail, damage or unreadable; `problem`
    says why it is unreadable; `format` is None when it is newer than this code. `files` is all that
    is in the directory, `foreign` the names in it that are not durasess's."""

    path: str
    session_id: str
    format: int | None
    schema_version: int
    created: str | None
    updated: str | None
    health: str
    problem: str | None
    lock: LockLook
    file_system: file_system.FileSystem
    first_seq: int
    last_seq: int
    snapshot_seq: int
    after_snapshot: int
    torn: TornTail | None
    damage: list[Damage]
    notices: list[str]
    snapshots: list[SnapshotInfo]
    segments: list[SegmentLook]
    files: list[Entry]
    foreign: list[str]


def examine(directory: str, step: Step) -> Inspected:
    """Everything about a session directory; `step` is told how many bytes were read.
    SessionNotFoundError when there is none."""
    disk: files.Files = MeteredFiles(step)
    problem = None
    newer = False
    try:
        found = verify.verify(directory, files=disk)
        if salvage.session_id_of(disk, directory) != found.session_id:
            found = salvage.renamed(disk, directory)
    except DurasessError as error:
        if isinstance(error, SessionNotFoundError) and not stores.is_session(directory):
            raise
        problem = str(error)
        newer = isinstance(error, FormatVersionError)
        found = salvage.verified(disk, directory)
    return described(disk, found, problem=problem, newer=newer)


def described(
    disk: files.Files, found: Verified, *, problem: str | None = None, newer: bool = False
) -> Inspected:
    """All that lies around what was found. `problem` says why it is not what `verify` found;
    `newer`, that another version wrote it."""
    directory = found.path
    claimed = _meta(disk, directory)
    newest = max((one.seq for one in found.snapshots if one.reason is None), default=0)
    names = disk.listdir(directory)
    listed = layout.entries(disk, directory)
    return Inspected(
        path=directory,
        session_id=found.session_id,
        format=None if newer else FORMAT,
        schema_version=found.schema_version,
        created=claimed.created if claimed else None,
        updated=claimed.updated if claimed else None,
        health=health_of(found, problem),
        problem=problem,
        lock=holders.look(disk, directory, found.session_id),
        file_system=file_system.file_system_of(directory),
        first_seq=found.first_seq,
        last_seq=found.last_seq,
        snapshot_seq=newest,
        after_snapshot=max(0, found.last_seq - newest),
        torn=found.torn,
        damage=found.damage,
        notices=found.notices,
        snapshots=found.snapshots,
        segments=_segments(disk, directory, found, newest, names),
        files=listed,
        foreign=[one.name for one in listed if one.kind == "foreign"],
    )


def health_of(found: Verified, problem: str | None = None) -> str:
    """One word for a session, the worst that is true."""
    if problem is not None:
        return "unreadable"
    if found.damage:
        return "damage"
    return "torn tail" if found.torn is not None else "sound"


def _meta(disk: files.Files, directory: str) -> meta.Meta | None:
    try:
        return meta.read(disk, directory)
    except (OSError, LineError, DurasessError):
        return None


def _segments(
    disk: files.Files, directory: str, found: Verified, newest: int, names: list[str]
) -> list[SegmentLook]:
    """What was read, and the files that nothing needs to read."""
    infos = {info.number: info for info in found.segments}
    last = max(infos, default=0)
    looks = []
    for number, compressed in sorted(_numbers(names)):
        info = infos.get(number)
        name = paths.segment(number, compressed=compressed)
        size = size_of(disk, paths.join(directory, name))
        if info is None or info.compressed != compressed:
            states = ["not read: " + ("below a gap" if info is None else "the plain one counts")]
            if info is None and any(_concerns(one, directory, number) for one in found.damage):
                states = ["damaged"]
            looks.append(_unread(name, number, size, states))
            continue
        states = list(_states(info, found, newest, is_last=number == last))
        looks.append(
            SegmentLook(
                name=name,
                number=number,
                bytes=size,
                events=info.events,
                first_seq=info.first_seq,
                last_seq=info.last_seq,
                states=states,
            )
        )
    return looks


def _unread(name: str, number: int, size: int, states: list[str]) -> SegmentLook:
    return SegmentLook(
        name=name, number=number, bytes=size, events=0, first_seq=0, last_seq=0, states=states
    )


def _states(info: SegmentInfo, found: Verified, newest: int, *, is_last: bool) -> Iterator[str]:
    if info.sealed:
        yield "sealed"
    else:
        yield "active" if is_last else "not sealed"
    if info.compressed:
        yield f"compressed from {info.bytes:,} bytes"
    if found.torn is not None and found.torn.path == info.path:
        yield f"torn at byte {found.torn.offset:,}"
    for one in found.damage:
        if one.path == info.path:
            yield "damaged" if one.offset is None else f"damaged at byte {one.offset:,}"
    if info.events and info.last_seq <= newest:
        yield "covered by the snapshot"


def _concerns(damage: Damage, directory: str, number: int) -> bool:
    return damage.path == paths.join(directory, paths.segment(number))


def _numbers(names: list[str]) -> set[tuple[int, bool]]:
    parsed = [paths.parse(name) for name in names]
    return {(name.number, name.compressed) for name in parsed if name.kind == "segment"}
