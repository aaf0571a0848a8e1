"""What a writer says about the log in meta.json.

It claims only what is synced already, so an older one that a crash brings back is as true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from durasess.engine import codec, files, meta, paths, values
from durasess.engine.log import Log
from durasess.engine.records import Place
from durasess.engine.recovery import Recovered
from durasess.engine.types import LineError
from durasess.errors import StorageError


class Ledger:
    """Keeps the last published meta."""

    def __init__(
        self,
        disk: files.Files,
        found: Recovered,
        log: Log,
        *,
        shared: bool,
        schema_version: int,
        summary: Callable[[Any], Any] | None,
        now: Callable[[], str],
        note: Callable[[str], None],
    ) -> None:
        self._disk = disk
        self._directory = found.claims.directory
        self._session_id = found.claims.session_id
        self._log = log
        self._shared = shared
        self._schema_version = schema_version
        self._make_summary = summary
        self._now = now
        self._note = note
        self._is_on_disk = found.claims.meta is not None
        self._meta = found.claims.meta or self._rebuilt(found)
        self._newest_snapshot = self._meta.baseline

    def _rebuilt(self, found: Recovered) -> meta.Meta:
        now = self._now()
        baseline = meta.Baseline()
        if found.claims.newest_is_good():
            newest = found.claims.snapshots[0].trailer
            baseline = meta.Baseline(newest.seq, newest.segment, newest.frame)
        return meta.Meta(session_id=self._session_id, created=now, updated=now, baseline=baseline)

    def knows_newest_segment(self) -> bool:
        """Whether meta on disk claims the newest segment; an append waits for that."""
        return self._is_on_disk and self._meta.active >= self._log.number

    def refresh(self) -> None:
        """Take over what another writer published. One that cannot be read is replaced by the next
        that this writer publishes."""
        if not self._shared:
            return
        try:
            found = meta.read(self._disk, self._directory)
        except (OSError, LineError):
            self._is_on_disk = False
            return
        if found.session_id == self._session_id:
            self._meta = found
            self._is_on_disk = found.baseline.seq >= self._newest_snapshot.seq

    @property
    def baseline(self) -> meta.Baseline:
        """Of the newest snapshot that is known here."""
        return max(self._newest_snapshot, self._meta.baseline, key=lambda one: one.seq)

    def publish_baseline(self) -> None:
        """Where writers share a session, they must know of a snapshot before they replace it."""
        if not self._shared:
            return
        self.refresh()
        claimed = msgspec.structs.replace(self._meta, baseline=self.baseline, updated=self._now())
        meta.publish(self._disk, self._directory, claimed)
        self._meta = claimed
        self._is_on_disk = True

    def has_newer_snapshot(self, seq: int) -> bool:
        """Whether another writer published a snapshot that is not older than `seq`."""
        self.refresh()
        return self._shared and self.baseline.seq >= seq

    def set_baseline(self, baseline: meta.Baseline) -> None:
        """What the next published meta says of the newest snapshot."""
        self._newest_snapshot = baseline
        self._is_on_disk = False

    def publish(self, state: Any, place: Place) -> None:
        """Replace meta.json by what is true now; StorageError when the system refuses."""
        self.refresh()
        claimed = self._current(state, place)
        path = paths.join(self._directory, paths.META)
        try:
            meta.publish(self._disk, self._directory, claimed)
        except OSError as error:
            raise StorageError(
                f"{path} could not be replaced: {error}. The old one stays; seq {place.seq} is the "
                "last durable event. Make room and try again.",
                path=path,
                seq=place.seq,
                errno=error.errno,
            ) from error
        self._meta = claimed
        self._newest_snapshot = claimed.baseline
        self._is_on_disk = True

    def publish_if_changed(self, state: Any, place: Place) -> None:
        """So that opening and closing without an append leaves meta.json as it is."""
        same = msgspec.structs.replace(self._current(state, place), updated=self._meta.updated)
        if not self._is_on_disk or same != self._meta:
            self.publish(state, place)

    def _current(self, state: Any, place: Place) -> meta.Meta:
        number, floor = self._log.floor()
        return msgspec.structs.replace(
            self._meta,
            schema_version=self._schema_version,
            updated=self._now(),
            epoch=max(self._meta.epoch, self._log.epoch if self._log.wrote else 0),
            active=self._log.number,
            baseline=self.baseline,
            floor=meta.Floor(number, floor.seq, codec.hexed(floor.chain)),
            summary=self._summary(state, place),
        )

    def _summary(self, state: Any, place: Place) -> meta.Summary | None:
        if self._make_summary is None:
            return self._meta.summary
        try:
            made = meta.Summary(place.seq, values.plain(self._make_summary(state)))
            meta.encoded(msgspec.structs.replace(self._meta, summary=made))
        except Exception as error:
            self._note(f"the program's summary cannot be used, the old one stays: {error!r}")
            return self._meta.summary
        return made
