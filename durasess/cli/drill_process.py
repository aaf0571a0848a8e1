"""A worker process of a drill, and the thread that notes what it tells until it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from durasess.cli.drill_compare import Told
from durasess.cli.drill_worker import Orders
from durasess.engine import codec

LONGEST_WAIT = 60.0
"""Seconds until a worker that tells nothing counts as stuck."""


class Killable:
    """A worker process and a thread that notes what it tells."""

    def __init__(self, orders: Orders) -> None:
        self._told = Told()
        self._telling = threading.Condition()
        self._counts = {"opening": 0, "acknowledged": 0}
        self._has_ended = False
        self._unread: list[str] = []
        self._process = started("drill_worker", orders, stdin=subprocess.DEVNULL)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, word: str, more_than: int = 0) -> bool:
        """Until it told `word` more than so many times, or ended; False when it told too little for
        too long."""
        with self._telling:
            return self._telling.wait_for(
                lambda: self._has_ended or self._counts[word] > more_than, LONGEST_WAIT
            )

    def count(self, word: str) -> int:
        """How often it told `word`."""
        with self._telling:
            return self._counts[word]

    def issued(self, stream: int, position: int) -> int:
        """Up to where it was about to append a stream; waits until that is `position`, unless it
        has ended or tells nothing for too long."""
        with self._telling:
            self._telling.wait_for(
                lambda: self._has_ended or self._told.issued.get(stream, 0) >= position,
                LONGEST_WAIT,
            )
            return self._told.issued.get(stream, 0)

    def told(self) -> Told:
        """What it told since this was asked for the last time; `issued` from its beginning."""
        with self._telling:
            told, self._told = self._told, Told()
            self._told.issued = dict(told.issued)
            return told

    @property
    def has_failed(self) -> bool:
        """Whether it told of an error since it was asked for the last time."""
        with self._telling:
            return bool(self._told.failures)

    @property
    def is_alive(self) -> bool:
        """Whether it is still running."""
        return self._process.poll() is None

    def kill(self) -> bool:
        """SIGKILL, then wait until the kernel has let go of everything it held. Whether it was
        still running."""
        was_alive = self._process.poll() is None
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return was_alive

    def last_words(self) -> str:
        """What it printed that is not a message."""
        return " / ".join(self._unread[-5:]) or "it said nothing"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # A line that was cut by the kill never was a message.
            if line.endswith(b"\n"):
                with self._telling:
                    self._take(line[:-1].decode("utf-8", "replace"))
                    self._telling.notify_all()
        with self._telling:
            self._has_ended = True
            self._telling.notify_all()

    def _take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "acknowledged" | "retried":
                seq, crc = rest.split(" ")
                self._told.acknowledged[int(seq)] = crc
            case "issued":
                stream, position = map(int, rest.split(" "))
                self._told.issued[stream] = max(position, self._told.issued.get(stream, 0))
            case "snapshot":
                self._told.snapshots.add(int(rest))
            case "failed":
                self._told.failures.append(str(codec.decode(rest.encode())))
            case "opening":
                pass
            case _:
                self._unread.append(line)
        if word in self._counts:
            self._counts[word] += 1


def started(module: str, orders: msgspec.Struct, *, stdin: int) -> subprocess.Popen[bytes]:
    """A process of a module of the command, with its orders as JSON in the one argument. What it
    prints goes into one pipe."""
    argument = codec.encode(msgspec.to_builtins(orders)).decode()
    return subprocess.Popen(
        [sys.executable, "-m", f"durasess.cli.{module}", argument],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": _python_path()},
        start_new_session=True,
    )


def _python_path() -> str:
    """Of a worker: it finds this very package, installed or not."""
    here = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
