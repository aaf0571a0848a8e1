"""The parts of a writer, made from what recovery found: log, ledger, snapshots."""

from __future__ import annotations

from collections.abc import Callable

from durasess.engine import files
from durasess.engine.commit import Scheduler
from durasess.engine.fold import Fold
from durasess.engine.ledger import Ledger
from durasess.engine.log import Log
from durasess.engine.recovery import Recovered
from durasess.engine.snapshotter import Snapshotter
from durasess.engine.types import Holder, Settings


def assemble(
    disk: files.Files,
    found: Recovered,
    fold: Fold,
    settings: Settings,
    scheduler: Scheduler,
    holder: Holder,
    *,
    anchor_fd: int,
    now: Callable[[], str],
    note: Callable[[str], None],
    check: Callable[[], None],
) -> tuple[Log, Ledger, Snapshotter]:
    """A log that goes on where recovery ended, with the epoch after the last one."""
    log = Log(
        disk,
        found.claims.directory,
        found.claims.session_id,
        place=found.place,
        next_number=found.next_segment,
        epoch=found.epoch + 1,
        schema_version=fold.schema_version,
        preallocate=settings.preallocate,
        pid=holder.pid,
        boot_id=holder.boot_id,
    )
    ledger = Ledger(
        disk,
        found,
        log,
        anchor_fd=anchor_fd,
        schema_version=fold.schema_version,
        summary=settings.summary,
        now=now,
        note=note,
    )
    snapshots = Snapshotter(
        disk,
        found,
        log,
        ledger,
        scheduler,
        schema_version=fold.schema_version,
        state_type=fold.state_type,
        every=settings.snapshot_every,
        now=now,
        note=note,
        check=check,
    )
    return log, ledger, snapshots
