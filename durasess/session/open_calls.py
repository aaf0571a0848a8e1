"""A call that has not ended or whose outcome is unknown: settled, offered again, answered."""

from __future__ import annotations

from typing import Any, get_args

from durasess.session import call_operations
from durasess.session.core import Core
from durasess.session.refusal import refuse
from durasess.session.state import Decision, ToolState

SAFE_EFFECTS = frozenset(["read_only", "idempotent"])


def _check_decision(outcome: str) -> None:
    if outcome not in get_args(Decision):
        refuse(
            f"{outcome!r:.40} is no decision about a call",
            f"settle it as one of {', '.join(get_args(Decision))}, or rerun() it",
        )


class CallView:
    """An open call as it was when it was looked up; `state` has all that is known of it."""

    def __init__(self, core: Core, state: ToolState) -> None:
        self._core = core
        self.state = state

    @property
    def key(self) -> str:
        """Unique in the session."""
        return self.state.key

    @property
    def call_id(self) -> str:
        """The provider's id, which may repeat."""
        return self.state.call_id

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.state.name

    @property
    def arguments(self) -> Any:
        """What the model gave, as far as it was recorded; large values are read."""
        return self._core.resolved(self.state.arguments)

    @property
    def status(self) -> str:
        """ "pending", "running", "uncertain" or "waiting"."""
        return self.state.status

    @property
    def reason(self) -> str:
        """Why its outcome is unknown, empty when it is not."""
        return self.state.reason

    @property
    def is_offered(self) -> bool:
        """Whether running it again is safe by the tool's declaration, and possible: of a call whose
        arguments were masked this process has the originals."""
        call = self.state
        has_arguments = not call.masked or call.key in self._core.originals
        return call.status == "uncertain" and call.effect in SAFE_EFFECTS and has_arguments

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.call_id}) {self.status}>"


class OpenCall(CallView):
    """A call that has not ended or whose outcome is unknown; for programs that wait in a thread."""

    def settle(self, outcome: Decision, *, output: Any = None, by: str = "caller") -> ToolState:
        """Record what became of a call whose outcome is unknown: "applied" (with the output, if it
        is known), "not_applied", or "abandoned" (nobody will find out). The model is told."""
        _check_decision(outcome)
        return self._settle(outcome, output, by)

    def rerun(self, *, by: str = "caller") -> ToolState:
        """Offer the call again: it is pending, and a run may start it, with the same operation
        id."""
        return self._settle("rerun", None, by)

    def _settle(self, outcome: str, output: Any, by: str) -> ToolState:
        self.state = self._core.run(
            call_operations.settle(self._core, self.key, outcome, output=output, reason="", by=by)
        )
        return self.state

    def answer(self, output: Any, *, ok: bool = True) -> ToolState:
        """Record its result, which came from outside of the process that started it."""
        self.state = self._core.run(call_operations.answer(self._core, self.key, output, ok=ok))
        return self.state

    def approve(self, *, by: str = "", comment: str = "") -> ToolState:
        """Let a call that waits for approval start."""
        return self._decide(by, comment, approved=True)

    def deny(self, *, by: str = "", comment: str = "") -> ToolState:
        """Refuse a call that waits for approval; that is its result."""
        return self._decide(by, comment, approved=False)

    def _decide(self, by: str, comment: str, *, approved: bool) -> ToolState:
        self.state = self._core.run(
            call_operations.decide(self._core, self.key, approved=approved, by=by, comment=comment)
        )
        return self.state


class AsyncOpenCall(CallView):
    """`OpenCall` with coroutines for methods."""

    async def settle(
        self, outcome: Decision, *, output: Any = None, by: str = "caller"
    ) -> ToolState:
        """Record what became of a call whose outcome is unknown: "applied" (with the output, if it
        is known), "not_applied", or "abandoned" (nobody will find out). The model is told."""
        _check_decision(outcome)
        return await self._settle(outcome, output, by)

    async def rerun(self, *, by: str = "caller") -> ToolState:
        """Offer the call again: it is pending, and a run may start it, with the same operation
        id."""
        return await self._settle("rerun", None, by)

    async def _settle(self, outcome: str, output: Any, by: str) -> ToolState:
        self.state = await self._core.run_async(
            call_operations.settle(self._core, self.key, outcome, output=output, reason="", by=by)
        )
        return self.state

    async def answer(self, output: Any, *, ok: bool = True) -> ToolState:
        """Record its result, which came from outside of the process that started it."""
        self.state = await self._core.run_async(
            call_operations.answer(self._core, self.key, output, ok=ok)
        )
        return self.state

    async def approve(self, *, by: str = "", comment: str = "") -> ToolState:
        """Let a call that waits for approval start."""
        return await self._decide(by, comment, approved=True)

    async def deny(self, *, by: str = "", comment: str = "") -> ToolState:
        """Refuse a call that waits for approval; that is its result."""
        return await self._decide(by, comment, approved=False)

    async def _decide(self, by: str, comment: str, *, approved: bool) -> ToolState:
        self.state = await self._core.run_async(
            call_operations.decide(self._core, self.key, approved=approved, by=by, comment=comment)
        )
        return self.state
