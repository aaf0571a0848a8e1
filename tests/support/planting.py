"""Bugs planted in place of a function: only with its own signature, or what is found would be that
the call fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

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
