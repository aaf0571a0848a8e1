"""The parts of a writer, made from what recovery found: state, log, ledger, snapshots, turns."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from durasess.engine import codec, files
from durasess.engine.fold import Fold
from durasess.engine.ledger import Ledger
from durasess.engine.live import Live
from durasess.engine.log import Log
from durasess.engine.receipt import Receipt
from durasess.engine.records import Place
from durasess.engine.recovery import Recovered, recover, refuse
from durasess.engine.scheduler import Scheduler
from durasess.engine.shared_log import SharedLog
from durasess.engine.snapshotter import Snapshotter
from durasess.engine.together import Together
from durasess.engine.turns import Alone, Turns
from durasess.engine.types import Holder, Settings
from durasess.engine.workers import Worker


class Tenure(msgspec.Struct, frozen=True):
    """What a writer holds while it lives: the descriptors of `owner` and `lock`, and its worker's
    file when it shares the session."""

    owner_fd: int
    lock_fd: int
    worker: Worker | None = None


def assemble(
    disk: files.Files,
    found: Recovered,
    fold: Fold,
    settings: Settings,
    scheduler: Scheduler,
    holder: Holder,
    tenure: Tenure,
    *,
    now: Callable[[], str],
    note: Callable[[str], None],
    check: Callable[[], None],
) -> tuple[Live, Log, Ledger, Snapshotter, Turns]:
    """A log that goes on where recovery ended, with the epoch after the last one."""
    log = (SharedLog if tenure.worker else Log)(
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
        shared=tenure.worker is not None,
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
        compress=settings.compress,
        now=now,
        note=note,
        check=check,
        worker_id=tenure.worker.worker_id if tenure.worker else None,
    )
    live = Live(found, fold, snapshots.grew)
    turns = _turns(disk, found, fold, live, log, ledger, snapshots, tenure, note)
    snapshots.is_alone = turns.is_last
    return live, log, ledger, snapshots, turns


def _turns(
    disk: files.Files,
    found: Recovered,
    fold: Fold,
    live: Live,
    log: Log,
    ledger: Ledger,
    snapshots: Snapshotter,
    tenure: Tenure,
    note: Callable[[str], None],
) -> Turns:
    directory, session_id = found.claims.directory, found.claims.session_id
    if tenure.worker is None or not isinstance(log, SharedLog):
        return Alone(disk, session_id, log, tenure.lock_fd, tenure.owner_fd, note)

    def recover_from(place: Place) -> Recovered:
        known = Receipt(session_id, place.seq, codec.hexed(place.chain)) if place.seq else None
        again = recover(disk, directory, fold, at_least=known, writer=True)
        refuse(again)
        return again

    def restart(again: Recovered) -> None:
        live.restart(again)
        snapshots.start_again(again)

    if found.unsealed is not None and found.unsealed.seal is None and not found.settled:
        log.go_on(found.unsealed, found.place, found.next_segment, found.epoch)
    return Together(
        disk,
        directory,
        session_id,
        log=log,
        ledger=ledger,
        lock_fd=tenure.lock_fd,
        owner_fd=tenure.owner_fd,
        worker=tenure.worker,
        take=live.take,
        moved_on=snapshots.follow,
        restart=restart,
        recover=recover_from,
    )
