"""Open handles when the process ends or forks: drained at exit, dead in a forked child."""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from typing import Protocol

_LOGGER = logging.getLogger("durasess")


class LiveHandle(Protocol):
    """What this module needs of an open engine."""

    path: str

    def close(self) -> None:
        """Drain, seal, let go."""

    def forget(self) -> None:
        """Close copies of descriptors only."""


_LIVE: weakref.WeakSet[LiveHandle] = weakref.WeakSet()


def add(handle: LiveHandle) -> None:
    """Watch over a handle that was opened for writing."""
    _LIVE.add(handle)


def discard(handle: LiveHandle) -> None:
    """It is closed."""
    _LIVE.discard(handle)


def _close_all() -> None:
    """At interpreter exit: daemon threads still run, so what was handed over is written."""
    for handle in list(_LIVE):
        try:
            handle.close()
        except Exception as error:
            _LOGGER.warning("%s could not be closed at exit: %s", handle.path, error)


def _forget_in_child() -> None:
    for handle in list(_LIVE):
        handle.forget()
    _LIVE.clear()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows has no fork
    os.register_at_fork(after_in_child=_forget_in_child)
