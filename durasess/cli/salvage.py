"""Reading each file of a session by itself: for `--events`, and where the whole cannot be read.

A session whose meta.json a newer durasess wrote, whose directory got a name that is no session id,
or one of whose files the system refuses to read, still has segments that people want to see.
"""

from __future__ import annotations

from collections.abc import Iterator

from durasess.engine import codec, files, meta, paths, segment, snapshot
from durasess.engine.records import Place, Record
from durasess.engine.scan import Scan
from durasess.engine.types import Damage, Event, LineError
from durasess.engine.verify import SnapshotInfo, Verified
from durasess.errors import DurasessError

UNREADABLE = "unreadable"
"""The rule of a file that the system or its compression keeps shut."""

_START = Place(0, codec.CHAIN_START)


class Reading:
    """Goes through all segments that are there, gaps or not; the findings add up in `found`."""

    def __init__(self, disk: files.Files, directory: str, session_id: str) -> None:
        self._disk = disk
        self._directory = directory
        self._session_id = session_id
        self.found = Verified(path=directory, session_id=session_id)

    def records(self, numbers: list[int]) -> Iterator[tuple[Scan, Record]]:
        """The records of these segments in order, those behind damage too."""
        place = _START if numbers[:1] == [1] else None
        before = 0
        for number in numbers:
            if before and number > before + 1:
                self.found.notices.append(f"no segment between {before} and {number} is there")
            follows = place if number in (1, before + 1) and not self.found.damage else None
            scan = None
            try:
                source = segment.open_source(self._disk, self._directory, number)
            except (OSError, LineError) as error:
                self._note(number, str(error))
                continue
            try:
                is_last = number == numbers[-1]
                scan = Scan(
                    self._disk,
                    source,
                    session_id=self._session_id,
                    is_last=is_last,
                    follows=follows,
                )
                for batch in scan.batches():
                    for record in batch:
                        yield scan, record
                yield from ((scan, record) for record in scan.kept)
            except (OSError, DurasessError) as error:
                self._note(number, str(error))
            finally:
                segment.close_source(self._disk, source)
            place, before = scan.place if scan else None, number
            self._add(scan)

    def _add(self, scan: Scan | None) -> None:
        if scan is not None:
            self.found.damage += scan.damage
            self.found.segments.append(scan.info())
            self.found.torn = scan.torn

    def _note(self, number: int, reason: str) -> None:
        path = paths.join(self._directory, paths.segment(number))
        self.found.damage.append(Damage(path=path, rule=UNREADABLE, reason=reason))


def verified(disk: files.Files, directory: str) -> Verified:
    """The same report as verify's from whatever can be read; its damage is what got in the way."""
    numbers = segment_numbers(disk, directory)
    reading = Reading(disk, directory, session_id_of(disk, directory))
    for _ in reading.records(numbers):
        pass
    found = reading.found
    for name in (paths.SNAPSHOT, paths.SNAPSHOT_PREVIOUS):
        found.snapshots += _snapshot(disk, directory, name, found.session_id)
    for one in found.snapshots:
        if one.reason is not None:
            path = paths.join(directory, one.name)
            found.damage.append(Damage(path=path, rule="snapshot", reason=one.reason))
    snapshot_seq = max((one.seq for one in found.snapshots if one.reason is None), default=0)
    found.first_seq = found.segments[0].first_seq if found.segments else snapshot_seq + 1
    found.last_seq = max([info.last_seq for info in found.segments] + [snapshot_seq])
    return found


def segment_numbers(disk: files.Files, directory: str) -> list[int]:
    """The numbers of the segments that are there, in order."""
    names = (paths.parse(name) for name in disk.listdir(directory))
    return sorted({name.number for name in names if name.kind == "segment"})


def count_segments(disk: files.Files, directory: str) -> int:
    """How many there are; 0 where nobody made the session."""
    try:
        return len(segment_numbers(disk, directory))
    except FileNotFoundError:
        return 0


def renamed(disk: files.Files, directory: str) -> Verified:
    """A session whose directory is not named as its files say, mostly a copy that somebody made to
    look at: read under the id that the files agree on."""
    found = verified(disk, directory)
    reason = (
        f"its files are those of session {found.session_id!r}, which must be the directory's name. "
        "They were read under that id; rename the directory back"
    )
    found.damage.insert(0, Damage(path=directory, rule="session", reason=reason))
    return found


def session_id_of(disk: files.Files, directory: str) -> str:
    """Who meta.json and the first readable segment say they are; the directory's name when one of
    them says that, or when none can be read."""
    said = [*_id_in_meta(disk, directory), *_id_in_segments(disk, directory)]
    name = paths.base(directory)
    return name if name in said or not said else said[0]


def _id_in_meta(disk: files.Files, directory: str) -> list[str]:
    try:
        return [meta.read(disk, directory).session_id]
    except (OSError, LineError, DurasessError):
        return []


def _id_in_segments(disk: files.Files, directory: str) -> list[str]:
    for number in segment_numbers(disk, directory):
        try:
            source = segment.open_source(disk, directory, number)
        except (OSError, LineError):
            continue
        try:
            line = next(segment.lines(disk, source), None)
            if line is not None:
                return [segment.parse_header(line.text, source.path).session_id]
        except (OSError, LineError, DurasessError):
            continue
        finally:
            segment.close_source(disk, source)
    return []


def event_of(record: Record) -> tuple[Event | None, str]:
    """The event of a record, or None and why its line cannot be read."""
    try:
        return codec.event(record.line, proven=record.proven), ""
    except LineError as error:
        return None, error.reason


def stored_state(
    disk: files.Files, directory: str, name: str, session_id: str
) -> tuple[int, bytes]:
    """The schema version and the JSON of the state in a snapshot file. OSError or LineError."""
    trailer, document = snapshot.read(disk, directory, name, session_id)
    return trailer.schema_version, bytes(document.state)


def _snapshot(disk: files.Files, directory: str, name: str, session_id: str) -> list[SnapshotInfo]:
    size = 0
    try:
        size = disk.stat(paths.join(directory, name)).size
        trailer, document = snapshot.read(disk, directory, name, session_id)
    except FileNotFoundError:
        return []
    except (OSError, LineError) as error:
        return [SnapshotInfo(name=name, seq=0, bytes=size, state_bytes=0, reason=str(error))]
    state_bytes = len(bytes(document.state))
    return [SnapshotInfo(name=name, seq=trailer.seq, bytes=size, state_bytes=state_bytes)]
