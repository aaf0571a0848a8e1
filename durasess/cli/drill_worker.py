"""The process that a drill kills: appends to one session and tells each step on its stdout.

One line a step, told before or after it: `opening` · `issued STREAM POSITION` (up to there events
are on their way) · `acknowledged SEQ CRC` (a durable receipt) · `retried SEQ CRC` (that of an event
from before) · `snapshot SEQ` · `failed "…"`. It runs until it is killed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from random import Random

import msgspec

from durasess.cli.drill_source import SEGMENT_BYTES, SNAPSHOT_EVERY, Source, fold
from durasess.engine import codec, files, meta
from durasess.engine.engine import Engine
from durasess.engine.receipt import Receipt
from durasess.engine.types import LineError

RETRIES_WITHIN = 500
"""An event this close to the end is still in the window of event ids."""


PIECE = 3000
PAUSE = 0.0003
"""Bytes of one system call of a slow disk, and seconds between two."""


class SlowDisk(files.RealFiles):
    """A disk that takes a write in pieces, so that a kill falls between them too and leaves a torn
    tail, as a power cut does inside a large write."""

    def write_at(self, fd: int, data: bytes, offset: int) -> int:
        """All of `data`, piece by piece."""
        taken = super().write_at(fd, data[:PIECE], offset)
        while taken < len(data):
            time.sleep(PAUSE)
            taken += super().write_at(fd, data[taken : taken + PIECE], offset + taken)
        return taken


class Orders(msgspec.Struct, frozen=True):
    """What the parent tells its worker, as JSON in the one argument. `streams` are appended side by
    side, each by a thread; `seed` decides how; `slow` gives it a slow disk; `shared` says that
    other workers write at the same time."""

    path: str
    source: Source
    seed: int
    streams: list[int]
    slow: bool = False
    shared: bool = False


class Worker:
    """Appends the streams of its orders and tells what happened."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._telling = threading.Lock()
        self._snapshot = 0

    def run(self) -> None:
        """Open the session and append without end."""
        self._tell("opening")
        engine = Engine.open(
            self._orders.path,
            apply=fold,
            mode="shared" if self._orders.shared else "own",
            snapshot_every=SNAPSHOT_EVERY,
            segment_bytes=SEGMENT_BYTES,
            files=SlowDisk() if self._orders.slow else None,
        )
        known = engine.state.get("streams", {})
        threads = []
        for stream in self._orders.streams:
            position, seq = known.get(str(stream), (0, 0))
            retry = position > 0 and seq > engine.last_seq - RETRIES_WITHIN
            threads.append(
                threading.Thread(
                    target=self._guarded, args=(engine, stream, position, retry), daemon=True
                )
            )
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _guarded(self, engine: Engine, stream: int, position: int, retry: bool) -> None:
        try:
            self._append_stream(engine, stream, position, retry)
        except Exception:
            self._tell(f"failed {json.dumps(traceback.format_exc())}")

    def _append_stream(self, engine: Engine, stream: int, position: int, retry: bool) -> None:
        rng = Random(f"{self._orders.seed}:{stream}")
        source = self._orders.source
        if retry:
            # As a harness would that does not know whether its last event got through.
            again = source.draft(stream, position)
            known = engine.append(again.type, again.data, event_id=again.event_id)
            self._tell(f"retried {known.seq} {known.crc}")
        while True:
            count = rng.choice((1, 1, 1, 1, 2, 5, 20, 60))
            durable = rng.random() < 0.7
            drafts = [source.draft(stream, position + n) for n in range(1, count + 1)]
            position += count
            self._tell(f"issued {stream} {position}")
            if count == 1:
                one = drafts[0]
                receipts = [
                    engine.append(one.type, one.data, event_id=one.event_id, durable=durable)
                ]
            else:
                receipts = engine.append_many(drafts, durable=durable)
            self._acknowledged(receipts)
            self._now_and_then(engine, rng)

    def _now_and_then(self, engine: Engine, rng: Random) -> None:
        chance = rng.random()
        if chance < 0.02:
            engine.snapshot()
        elif chance < 0.04:
            engine.rotate()
        elif chance < 0.10:
            engine.flush()
        self._tell_snapshot()

    def _acknowledged(self, receipts: list[Receipt]) -> None:
        lines = [f"acknowledged {one.seq} {one.crc}" for one in receipts if one.durable]
        if lines:
            self._tell("\n".join(lines))

    def _tell_snapshot(self) -> None:
        """meta.json says of which seq the newest snapshot is."""
        try:
            seq = meta.read(files.RealFiles(), self._orders.path).baseline.seq
        except (OSError, LineError):
            return
        if seq > self._snapshot:
            self._snapshot = seq
            self._tell(f"snapshot {seq}")

    def _tell(self, text: str) -> None:
        with self._telling:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()


def main() -> None:
    """Work until killed; an error is told to the parent, not printed."""
    worker = Worker(codec.typed(sys.argv[1].encode(), Orders))
    try:
        worker.run()
    except BrokenPipeError:
        sys.exit(1)
    except Exception:
        print(f"failed {json.dumps(traceback.format_exc())}", flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
