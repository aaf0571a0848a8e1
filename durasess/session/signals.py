"""Watches for the signals that end a program, so that sessions are saved first; saves nothing.

What is saved is the caller's function: a snapshot and a flush. A signal handler runs between any
two steps of the main thread, so it takes no lock and does no work: it wakes a thread.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from types import FrameType, TracebackType
from typing import Any, Self

_LOGGER = logging.getLogger("durasess")

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Those that are watched by default: what this system has of them."""

LIMIT_S = 10.0
"""Seconds that a save may take; whoever sent the signal often kills after a while."""

_AGAIN_S = 0.05
"""Seconds between two attempts to reach the main thread."""


class SignalWatch:
    """From `start`, or in a `with` block, to `close`: on SIGTERM or SIGHUP, `save()` is called in
    a daemon thread, and the signal takes its course.

    * Where a Python function handled the signal before, it is called at once, as if nothing had
      been put before it. It may raise.
    * Where nobody did, the program goes on until `save` returned, or `limit_s` seconds, and then
      ends the default way: the default handler is restored and the signal sent again, so that the
      parent sees a process that died of it. A second signal ends it so at once. Both take the main
      thread, as every handler does: a long call of C code delays them.
    * A signal that was ignored, SIGHUP under nohup, stays so.

    `requested` is set a moment after the first signal, whose number is `signum` from then on. A
    program that looks at `requested` and ends by itself calls `close` first: then the signal is not
    sent again. What `save` raises is logged. In a forked child signals do what they did before.
    """

    def __init__(
        self,
        save: Callable[[], object],
        *,
        limit_s: float = LIMIT_S,
        signals: Sequence[int] = SIGNALS,
    ) -> None:
        self._save = save
        self._limit_s = limit_s
        self._signals = signals
        self._previous: dict[int, Any] = {}
        self._pid = 0
        # Unlike every other queue and lock it may be used again by a handler that interrupts it.
        self._arrived: SimpleQueue[int] = SimpleQueue()
        self._ending = threading.Lock()
        self._is_saving = False
        self._is_saved = False
        self._is_closed = True
        self.requested = threading.Event()
        self.signum: int | None = None

    def start(self) -> Self:
        """Install the handlers. RuntimeError outside of the main thread, the only one that may."""
        _check_main_thread("start")
        if not self._is_closed:
            return self
        self._is_closed = self._is_saving = self._is_saved = False
        self._pid = os.getpid()
        threading.Thread(
            target=self._watch, args=(self._arrived,), name="durasess-signals", daemon=True
        ).start()
        for signum in self._signals:
            previous = signal.getsignal(signum)
            # None: a handler that is not Python's, which could not be put back.
            if previous not in (signal.SIG_IGN, None):
                self._previous[signum] = previous
                signal.signal(signum, self._handle)
        return self

    def close(self) -> None:
        """Put the previous handlers back, unless somebody put another over this one; again does
        nothing. A save that is running goes on. RuntimeError outside of the main thread."""
        if self._is_closed:
            return
        _check_main_thread("close")
        with self._ending:
            self._is_closed = True
            self._arrived.put(0)
            self._arrived = SimpleQueue()
        for signum, previous in self._previous.items():
            if signal.getsignal(signum) == self._handle:
                signal.signal(signum, previous)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        previous = self._previous[signum]
        is_second = self._is_saving
        if not self._is_closed and os.getpid() == self._pid and not (is_second or self._is_saved):
            self._is_saving = True
            self._arrived.put(signum)
            if not callable(previous):
                return
        if callable(previous):
            previous(signum, frame)
        else:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)

    def _watch(self, arrived: SimpleQueue[int]) -> None:
        while signum := arrived.get():
            # Here and not in the handler, which may interrupt whoever holds the event's lock.
            self.signum = self.signum or signum
            self.requested.set()
            saving = threading.Thread(target=self._save_once, name="durasess-saving", daemon=True)
            saving.start()
            saving.join(self._limit_s)
            if saving.is_alive():
                _LOGGER.error("saving took more than %g seconds after a signal", self._limit_s)
            self._after_save(signum, arrived)

    def _after_save(self, signum: int, arrived: SimpleQueue[int]) -> None:
        if callable(self._previous[signum]):
            self._is_saving = False
            return
        self._is_saved = True
        while self._interrupt_main_thread(signum, arrived):
            # One that comes just before the main thread begins to wait does not wake it.
            threading.Event().wait(_AGAIN_S)

    def _interrupt_main_thread(self, signum: int, arrived: SimpleQueue[int]) -> bool:
        """Have the handler run again; False when the watch was closed: the program ends itself."""
        with self._ending:
            main = threading.main_thread().ident
            if self._arrived is not arrived:
                return False
            if hasattr(signal, "pthread_kill") and main is not None:
                signal.pthread_kill(main, signum)
            else:
                signal.raise_signal(signum)
            return True

    def _save_once(self) -> None:
        try:
            self._save()
        except BaseException as error:
            _LOGGER.error("saving after a signal failed: %r", error, exc_info=error)


def _check_main_thread(name: str) -> None:
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            f"SignalWatch.{name}: expected the main thread, found "
            f"{threading.current_thread().name!r}; signal handlers can be changed in the main "
            "thread alone. Call it there."
        )
