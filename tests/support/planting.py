"""Bugs planted in place of a function: only with its own signature, or what is found would be that
the call fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from durasess.engine.log import Log

_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def planted(owner: Any, name: str, bug: Callable[..., Any]) -> AbstractContextManager[Any]:
    """`owner.name` is `bug`. AssertionError when it does not take what the original takes."""
    original = inspect.signature(getattr(owner, name)).parameters
    given = inspect.signature(bug).parameters
    takes_all = any(one.kind in _ANY for one in given.values())
    same = [(one.name, one.kind) for one in original.values()] == [
        (one.name, one.kind) for one in given.values()
    ]
    assert takes_all or same, f"{name}{tuple(original)} is replaced by one of {tuple(given)}"
    return mock.patch.object(owner, name, bug)


def around(
    owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]
) -> AbstractContextManager[Any]:
    """`owner.name` is what `make` makes of the original."""
    return mock.patch.object(owner, name, make(getattr(owner, name)))


def unsynced(log: Log) -> None:
    """As `Log.sync`, without the sync."""
    if log._unsynced is not None:
        size, log.place, events = log._unsynced
        log._unsynced = None
        log.offset += size
        log._events += events
