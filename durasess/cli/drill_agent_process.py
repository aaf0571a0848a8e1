"""A harness in a process of its own: started, listened to, killed. What it does is its own."""

from __future__ import annotations

import subprocess
import threading
from typing import Any

from durasess.cli.drill_agent_checks import Asked
from durasess.cli.drill_agent_worker import Orders
from durasess.cli.drill_process import LONGEST_WAIT, started
from durasess.engine import codec
from durasess.engine.types import LineError


class AgentProcess:
    """One life of the harness, and the thread that notes what it tells.

    `asked` are the contexts it asked for. `ended` says how it ended by itself, "" when it did not;
    `failure` what it told of an error, `last_words` what it printed beside.
    """

    def __init__(self, orders: Orders) -> None:
        self.asked: list[Asked] = []
        self.ended = ""
        self.failure = ""
        self.last_words: list[str] = []
        self._telling = threading.Condition()
        self._has_begun = False
        self._has_stopped = False
        self._has_closed = False
        # Its input ends when this process is gone.
        self._process = started("drill_agent_worker", orders, stdin=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for_begin(self) -> bool:
        """Until it is about to open the session, or has ended; False when it took too long."""
        with self._telling:
            return self._telling.wait_for(lambda: self._has_begun, LONGEST_WAIT)

    def wait_for_stop(self, seconds: float) -> None:
        """Until it stopped where it was told to, or has ended, or so long."""
        with self._telling:
            self._telling.wait_for(lambda: self._has_stopped, seconds)

    def kill(self) -> bool:
        """SIGKILL, then wait until the kernel has let go of everything it held. Whether it was
        still at work."""
        # Its pipe closes a moment before it can be seen that it ended.
        was_alive = self._process.poll() is None and not self._has_closed
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None and self._process.stdin is not None
        self._process.stdout.close()
        self._process.stdin.close()
        return was_alive and not self.ended and not self.failure

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # A line that was cut by the kill never was a message.
            if line.endswith(b"\n"):
                with self._telling:
                    self._take(line)
                    self._telling.notify_all()
        with self._telling:
            self._has_begun = self._has_stopped = self._has_closed = True
            self._telling.notify_all()

    def _take(self, line: bytes) -> None:
        try:
            told: dict[str, Any] = codec.typed(line, dict[str, Any])
        except LineError:
            self.last_words = [*self.last_words[-4:], line.decode("utf-8", "replace").strip()]
            return
        self._has_begun |= "begun" in told
        self._has_stopped |= "stopped" in told
        if "context" in told:
            self.asked.append(Asked(told["context"], told["told"]))
        self.ended = told.get("ended", self.ended)
        self.failure = told.get("failed", self.failure)
