"""What the next model call of a session would receive, behind the recovery that the next writer
would write; planned in memory from what is on disk, consuming nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import msgspec

from durasess.cli.blocks import Block, Fact, Facts, Notes, Value, count, number
from durasess.cli.session_next import NextOpen
from durasess.engine import blobs, files
from durasess.engine.types import Event
from durasess.errors import DurasessError
from durasess.session import out_of_line
from durasess.session.context import Context, LeftOut, plan
from durasess.session.reducer import Reducer
from durasess.session.state import SessionState
from durasess.session.transcript import older_chunks

Format = Literal["neutral", "openai", "openai-responses", "anthropic"]

FORMATS: tuple[Format, ...] = get_args(Format)

_LEFT_OUT = {
    "turns": "turn",
    "messages": "message",
    "orphans": "orphaned result",
    "duplicates": "second result",
    "empty": "empty reply",
    "renamed_ids": "renamed call id",
    "renamed_tools": "renamed tool",
    "surrogates": "replaced surrogate",
    "blocks": "provider item",
}


class ContextLook(msgspec.Struct, kw_only=True):
    """What the next call would receive: `request` in the form `format`, about `tokens` of it;
    `seq` is the last event behind it, of which the newest `recovered` would be written by the next
    writer. `request` is None when it cannot be planned; `remarks` say why."""

    format: Format
    max_tokens: int | None
    seq: int = 0
    recovered: int = 0
    tokens: int = 0
    messages: int = 0
    left_out: LeftOut | None = None
    request: Any = None
    remarks: list[str] = msgspec.field(default_factory=list)


def look(
    directory: str,
    following: NextOpen,
    events: Callable[[int], Iterator[Event]],
    reducer: Reducer,
    *,
    form: Format,
    max_tokens: int | None,
) -> ContextLook:
    """Plan it. `events(after)` reads the log; never fails for what is in the session."""
    state = following.state
    made = ContextLook(
        format=form, max_tokens=max_tokens, seq=state.seq, recovered=len(following.pending)
    )
    try:
        context = plan(
            state,
            older=older_chunks(events, state, reducer),
            max_tokens=max_tokens,
            resolve=_resolver(directory, made.remarks),
            workspace_note=_workspace_note(state),
        )
        made.request = _rendered(context, form)
    except Exception as error:
        # Whatever was made of this session, the rest of it is shown.
        made.remarks.append(f"The context cannot be planned: {error!r}.")
        return made
    made.tokens, made.messages = context.tokens, len(context.messages)
    made.left_out = context.left_out
    return made


def blocks(shown: ContextLook) -> Iterator[Block]:
    """The same for people."""
    if shown.request is not None:
        limit = "no limit" if shown.max_tokens is None else f"at most {number(shown.max_tokens)}"
        tokens = f"about {count(shown.tokens, 'token')}, {limit}"
        rows = [Fact("context", count(shown.messages, "message"), tokens)]
        if shown.recovered:
            note = "the next writer would write them first; nothing was written"
            rows.append(Fact("recovery", count(shown.recovered, "event"), note, "warn"))
        left = _left_out_words(shown.left_out)
        if left:
            rows.append(Fact("left out", left))
        yield Facts("context", rows)
        yield Value(f"what the next model call receives, {shown.format}", shown.request)
    if shown.remarks:
        yield Notes("about the context", shown.remarks, "warn")


def _rendered(context: Context, form: Format) -> Any:
    if form == "openai":
        return context.openai()
    if form == "openai-responses":
        return context.openai_responses()
    if form == "anthropic":
        return context.anthropic()
    return {"system": context.system, "messages": context.messages}


def _resolver(directory: str, remarks: list[str]) -> Callable[[Any], Any]:
    """Puts large values back; one that cannot be read stays a reference."""
    store = blobs.Blobs(files.RealFiles(), directory, token=str)

    def resolve(value: Any) -> Any:
        try:
            return out_of_line.load(value, store.read)
        except (DurasessError, ValueError) as error:
            remarks.append(f"A large value is shown as a reference: {error}")
            return value

    return resolve


def _workspace_note(state: SessionState) -> str:
    path = state.meta.workspace
    return f"The workspace {path} is not there." if path and not os.path.isdir(path) else ""


def _left_out_words(left: LeftOut | None) -> str:
    if left is None:
        return ""
    said = [
        count(getattr(left, name), noun) for name, noun in _LEFT_OUT.items() if getattr(left, name)
    ]
    return ", ".join([*said, *(["older messages, not read"] if left.unread else [])])
