"""What a writer does with what recovery found before it goes on: the order of settling."""

from __future__ import annotations

from durasess.engine import files, paths, settle, workers
from durasess.engine.recovery import Recovered


def settle_found(disk: files.Files, found: Recovered) -> None:
    """The log first; what is only tidying comes when that worked."""
    directory = found.claims.directory
    if found.place.seq == 0:
        # Whoever made the session may have died before its name was durable.
        disk.sync_dir(paths.parent(directory))
    found.report.quarantined += settle.keep_bad_files(disk, found.claims)
    if found.unsealed is not None and found.unsealed_source is not None:
        unsealed = settle.Unsealed(
            path=found.unsealed_source.path,
            number=found.unsealed_source.number,
            inode=found.unsealed_source.inode,
            size=found.unsealed_source.size,
            scan=found.unsealed,
            kept=found.kept,
            place=found.place,
        )
        found.report.quarantined += settle.copy_forward(disk, directory, unsealed)
    found.settled = True
    settle.leftovers(disk, directory, found.next_segment)
    workers.sweep(disk, directory)
