"""What a refusal says, and the one check that several kinds of events share."""

from __future__ import annotations

from typing import Any, NoReturn

from durasess.engine.types import Draft
from durasess.errors import EventRejectedError
from durasess.session.state import SessionState


def refuse(what: str, next_step: str) -> NoReturn:
    """Raise EventRejectedError: what is wrong, and what to do."""
    raise EventRejectedError(f"event rejected: {what}; {next_step}. Nothing was written.")


def check_run(state: SessionState, draft: Draft, data: Any) -> None:
    """An event that names a run must name the one that is going on."""
    run = state.open_run
    if draft.run_id is None or (run is not None and run.run_id == draft.run_id):
        return
    found = "no run is going on" if run is None else f"the run that is going on is {run.run_id}"
    refuse(f"{draft.type} is for run {draft.run_id!r:.80}, but {found}", "begin a run first")


def begun(run_id: str) -> str:
    """The id of a run, which must have begun. What it recorded before would belong to no run, and
    after a kill nobody would know that it was interrupted."""
    return run_id or refuse(
        "the run has not begun", "use it in a with block, or begin it with start()"
    )


def check_unstarted(is_started: bool, what: str) -> None:
    """A run or a call is begun once; for another one there is another object."""
    if is_started:
        refuse(f"this {what} has begun already", "begin another one")
