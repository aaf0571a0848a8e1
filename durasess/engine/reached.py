"""Whether a log reaches what a receipt proves. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from durasess.engine import codec, files, receipt, segment, survey
from durasess.engine.records import Place
from durasess.engine.types import Recovery
from durasess.engine.walk import Walk
from durasess.errors import CorruptionError


def check_reached(
    disk: files.Files,
    claims: survey.Claims,
    report: Recovery,
    at_least: receipt.Receipt,
    *,
    start: Place,
    end: Place,
    watched: Mapping[int, int],
) -> None:
    """CorruptionError when the log from `start` to `end`, whose chain values at some seqs are in
    `watched`, does not have the event that a receipt is of. P3's one silent class, and a directory
    put back to an older copy, end here."""
    problem = None
    if at_least.session_id != claims.session_id:
        problem = f"the receipt is of session {at_least.session_id!r}"
    elif not at_least.durable:
        problem = "the receipt is of an event that was not durable yet, so it proves nothing"
    elif at_least.seq > end.seq:
        problem = (
            f"the log ends at seq {end.seq}, but seq {at_least.seq} was acknowledged: "
            f"{at_least.seq - end.seq} acknowledged events are missing"
        )
    else:
        chain = watched.get(at_least.seq)
        if chain is None and at_least.seq < start.seq:
            chain = _older_chain(disk, claims, at_least.seq)
        if chain is not None and codec.hexed(chain) != at_least.crc:
            problem = (
                f"the chain value at seq {at_least.seq} is {codec.hexed(chain)}, the receipt says "
                f"{at_least.crc}: another event stands there"
            )
    if problem is not None:
        raise CorruptionError(
            f"{claims.directory} does not reach the receipt: {problem}. Nothing was changed.",
            path=claims.directory,
            seq=at_least.seq,
            report=report,
        )


def _older_chain(disk: files.Files, claims: survey.Claims, seq: int) -> int | None:
    """The chain value at a seq before the snapshot, or None when its segment was pruned."""
    number = claims.snapshots[0].trailer.segment
    while number > 1 and segment.present(disk, claims.directory, number - 1):
        number -= 1
        walk = Walk(disk, claims, number=number, start=None, watch=frozenset([seq]))
        for scan, batch in walk.batches():
            if scan.header is not None and scan.header.first_seq > seq:
                break
            if batch[-1].seq >= seq:
                return walk.watched.get(seq)
    return None
