"""Tool calls as providers and programs write them → the one form that is recorded.

Taken are {"call_id", "name", "arguments"}, OpenAI's chat {"id", "function": {"name", "arguments"}}
and responses {"call_id", "name", "arguments"}, Anthropic's {"id", "name", "input"}, mappings or
objects with these attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from durasess.engine import codec
from durasess.engine.types import LineError
from durasess.errors import EventRejectedError
from durasess.session.event_data import RecordedCall

_MISSING = object()


def recorded_calls(calls: Iterable[Any]) -> list[RecordedCall]:
    """The calls in their order. EventRejectedError when one has no name, or arguments that are no
    JSON value."""
    return [_recorded(call, index) for index, call in enumerate(calls)]


def _recorded(call: Any, index: int) -> RecordedCall:
    if isinstance(call, RecordedCall):
        return call
    function = _get(call, "function")
    inside = call if function is _MISSING or function is None else function
    name = _get(inside, "name")
    if not isinstance(name, str) or not name:
        raise EventRejectedError(
            f"event rejected: tool call {index} has no name: {call!r:.80}. Give call_id, name and "
            "arguments. Nothing was written."
        )
    call_id = _first(call, ("call_id", "id"))
    if call_id is _MISSING or call_id is None:
        call_id = ""
    if not isinstance(call_id, str):
        raise EventRejectedError(
            f"event rejected: the call_id of tool call {index} is {call_id!r:.80}, expected text. "
            "Nothing was written."
        )
    operation_id = _get(call, "operation_id")
    return RecordedCall(
        call_id=call_id or f"call_{index}",
        name=name,
        arguments=_arguments(_first(inside, ("arguments", "input")), call_id or name),
        operation_id=operation_id if isinstance(operation_id, str) else "",
    )


def _arguments(given: Any, name: str) -> Any:
    """An object, or its JSON text; a text that is other JSON stays as it is."""
    if given is _MISSING or given is None or given == "":
        return {}
    if isinstance(given, str):
        try:
            parsed = codec.decode(given.encode("utf-8", "surrogatepass"))
        except LineError as error:
            raise EventRejectedError(
                f"event rejected: the arguments of {name!r:.80} are no JSON ({error.reason}): "
                f"{given!r:.80}. Where the model was cut off, record what came as an object, such "
                'as {"_raw": text}. Nothing was written.'
            ) from None
        return parsed if isinstance(parsed, dict) else given
    if isinstance(given, Mapping):
        return dict(given)
    raise EventRejectedError(
        f"event rejected: the arguments of {name!r:.80} are {type(given).__name__}, expected an "
        "object or its JSON text. Nothing was written."
    )


def _first(source: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        found = _get(source, name)
        if found is not _MISSING and found is not None:
            return found
    return _MISSING


def _get(source: Any, name: str) -> Any:
    if isinstance(source, Mapping):
        return source.get(name, _MISSING)
    return getattr(source, name, _MISSING)
