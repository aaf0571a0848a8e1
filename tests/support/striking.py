"""Raises KeyboardInterrupt at the nth point of the calling thread's code in durasess.

A point is where the interpreter looks for signals, so where Ctrl-C can strike; with `anywhere` it
is every opcode, which is stricter than the interpreter.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import durasess

PACKAGE = os.path.dirname(durasess.__file__) + os.sep

_LOOKS_FOR_SIGNALS = frozenset(
    ["CALL", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD", "CALL_KW", "CALL_FUNCTION"]
)
"""Behind these the interpreter does."""


class Struck(NamedTuple):
    """How a call ended: `where` is empty when it has fewer points than that."""

    result: Any
    was_interrupted: bool
    where: str


class _Strike:
    def __init__(self, nth: int, *, anywhere: bool, files: tuple[str, ...]) -> None:
        self.where = ""
        self._left = nth
        self._anywhere = anywhere
        self._files = files

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self._files):
            return None
        last = "RESUME"

        def local(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal last
            if event == "opcode":
                before, last = last, dis.opname[frame.f_code.co_code[frame.f_lasti]]
                if self._anywhere or before in _LOOKS_FOR_SIGNALS:
                    self._pass(frame)
            return local

        # Python 3.13 shows opcodes of a frame only once it has a trace function.
        frame.f_trace = local
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return local

    def _pass(self, frame: FrameType) -> None:
        self._left -= 1
        if self._left == 0:
            name = os.path.relpath(frame.f_code.co_filename, PACKAGE)
            self.where = f"{name}:{frame.f_lineno} in {frame.f_code.co_name}"
            raise KeyboardInterrupt


def struck(
    nth: int,
    call: Callable[[], Any],
    *,
    anywhere: bool = False,
    files: tuple[str, ...] = (PACKAGE,),
) -> Struck:
    """The call with an interruption at its nth point in code whose path begins like one of
    `files`."""
    strike = _Strike(nth, anywhere=anywhere, files=files)
    previous = sys.gettrace()
    # Python 3.12 shows opcodes only if some frame had asked for them when tracing began.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(strike)
    try:
        result = call()
    except KeyboardInterrupt:
        return Struck(None, True, strike.where)
    finally:
        sys.settrace(previous)
    return Struck(result, False, strike.where)
