"""A tool call that this process executes: what the body may know of it. How it begins and ends is
in call.py for threads and async_call.py for tasks."""

from __future__ import annotations

from typing import Any

from durasess.session.core import Core
from durasess.session.state import ToolState
from durasess.session.tools import Tool


class StartedCall:
    """`error` is the exception that failed it; `is_ended` says whether its end is recorded."""

    def __init__(
        self,
        core: Core,
        run_id: str,
        call_id: str,
        tool: Tool | None,
        writes: list[dict[str, Any]],
    ) -> None:
        self._core = core
        self._run_id = run_id
        self._wanted = call_id
        self._tool = tool
        self._writes = writes
        self._began = 0
        self._call: ToolState | None = None
        self.error: Exception | None = None
        self.is_ended = False

    @property
    def call(self) -> ToolState:
        """The call as it was started. RuntimeError before that."""
        if self._call is None:
            raise RuntimeError("the call was not started: use it in a with block")
        return self._call

    @property
    def name(self) -> str:
        """Of the tool."""
        return self.call.name

    @property
    def arguments(self) -> Any:
        """What the model gave, secrets included where this process got them; large values are
        read."""
        call = self.call
        if call.key in self._core.originals:
            return self._core.originals[call.key]
        return self._core.resolved(call.arguments)

    @property
    def operation_id(self) -> str:
        """For services that take an idempotency key: the same when this call is offered again."""
        return self.call.operation_id
