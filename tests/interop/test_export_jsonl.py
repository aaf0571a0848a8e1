"""The JSONL export: every event, and a way back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durasess.engine.types import Draft, Event
from durasess.errors import EventRejectedError, FormatVersionError
from durasess.interop import jsonl
from durasess.session.state import Message
from tests.support import exported_lines, exports
from tests.support.exports import HOSTILE, copy_of, exported, reading


def items(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def said(session: Any) -> list[Message]:
    return list(session.history())


def test_each_event_is_one_line_between_head_and_end(tmp_path: Path) -> None:
    path = exports.worked(tmp_path)
    head, *lines, end = items(exported(jsonl.write, path))
    events = list(reading(path).events())
    assert head["format"] == "durasess.events" and head["session_id"] == "worked"
    assert [(one["seq"], one["type"], one["data"]) for one in lines] == [
        (one.seq, one.type, one.data) for one in events
    ]
    assert end == {"end": {"events": len(events), "masked": 0, "damage": [], "missing": []}}


def test_import_gives_the_same_messages_calls_and_usage(tmp_path: Path) -> None:
    path = exports.worked(tmp_path)
    copy, source = copy_of(tmp_path, exported(jsonl.write, path)), reading(path)
    assert said(copy) == said(source)
    assert copy.state.usage == source.state.usage
    assert copy.state.compactions == source.state.compactions
    statuses = [
        {key: (one.status, one.decision) for key, one in session.state.tool_states.items()}
        for session in (copy, source)
    ]
    assert statuses[0] == statuses[1]


def test_export_of_an_import_is_the_same_but_for_times(tmp_path: Path) -> None:
    first = exported(jsonl.write, exports.worked(tmp_path))
    again = exported(jsonl.write, copy_of(tmp_path, first).path)
    assert [one.get("data") for one in items(again)] == [one.get("data") for one in items(first)]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_comes_back_as_it_was(text: str, tmp_path: Path) -> None:
    path = exports.hostile(tmp_path, text)
    assert said(copy_of(tmp_path, exported(jsonl.write, path))) == said(reading(path))


def test_large_value_stands_in_its_event(tmp_path: Path) -> None:
    store = exports.store_at(tmp_path, blob_bytes=1000)
    with store.create("s") as session, session.run("y" * 5000) as run:
        run.assistant("", tool_calls=[exports.call("c1", "ls")])
        with run.tool("c1") as call:
            call.result({"$blob": "x" * 5000})
    lines = items(exported(jsonl.write, session.path))
    outputs = [one["data"]["output"] for one in lines if one.get("type") == "tool_result"]
    assert outputs == [{"$blob": "x" * 5000}]
    copy = copy_of(tmp_path, exported(jsonl.write, session.path))
    assert [copy.resolved(one.content) for one in said(copy)] == [
        session.resolved(one.content) for one in said(reading(session.path))
    ]


def lines_of(*events: tuple[int, str, Any], schema: int = 2) -> list[str]:
    """An export with these events."""
    head = {
        "format": "durasess.events",
        "version": 1,
        "session_id": "s",
        "schema_version": schema,
        "first_seq": 1,
        "last_seq": 9,
    }
    made = [
        {"seq": seq, "ts": "2026-01-01T00:00:00Z", "type": kind, "data": data}
        for seq, kind, data in events
    ]
    return [json.dumps(one) for one in [head, *made, {"end": {"events": len(made)}}]]


def test_keys_and_seqs_follow_events_that_moved() -> None:
    drafts = list(
        exported_lines.read(
            lines_of(
                (5, "assistant_message", {"tool_calls": [{"call_id": "c", "name": "t"}]}),
                (6, "tool_started", {"key": "5.0"}),
                (9, "tool_result", {"key": "5.0", "output": "5.0"}),
                (10, "context_compacted", {"summary": "s", "through": 9}),
                (12, "rewound", {"to": 7}),
                (13, "checkpoint", {"dispatched": 12, "next": 5}),
                (14, "my_event", {"key": "5.0", "to": 5}),
                (15, "tool_started", {"key": "once:5.0"}),
            ),
            first_seq=2,
        )
    )
    assert [one.data for one in drafts[1:]] == [
        {"key": "2.0"},
        {"key": "2.0", "output": "5.0"},
        {"summary": "s", "through": 4},
        {"to": 3},
        {"dispatched": 6, "next": 5},
        {"key": "5.0", "to": 5},
        {"key": "once:5.0"},
    ]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=20), st.integers(1, 9))
def test_new_seqs_of_events_are_those_that_they_get(steps: list[int], first: int) -> None:
    numbers, seqs, at = exported_lines.Renumbering(first), [], 0
    for step in steps:
        at += step
        seqs.append(at)
        numbers.taken(Event(seq=at, ts="", type="note", data={}))
    assert [numbers.seq(seq) for seq in seqs] == list(range(first, first + len(seqs)))
    missing = [numbers.seq(seq) for seq in range(seqs[-1] + 1)]
    assert missing == sorted(missing)


def test_events_of_an_older_schema_are_migrated() -> None:
    old = {"content": "x", "input_tokens": 3, "output_tokens": 4}
    [draft] = exported_lines.read(lines_of((1, "assistant_message", old), schema=1))
    assert draft.data["usage"]["prompt"] == 3 and "input_tokens" not in draft.data


def test_ids_come_back() -> None:
    head, line, end = lines_of((1, "note", {"text": "x"}))
    ids = {"run_id": "r", "call_id": "c", "event_id": "e"}
    [draft] = exported_lines.read([head, json.dumps({**json.loads(line), **ids}), end])
    assert draft == Draft("note", {"text": "x"}, "r", "c", "e")


def broken() -> Iterable[tuple[str, list[str], str]]:
    head, line, end = lines_of((1, "note", {"text": "x"}))
    yield "empty file", [], "line 0: expected a last line"
    yield "other format", ['{"format": "other"}'], 'line 1: expected `format` "durasess.events"'
    yield (
        "no version",
        [head.replace('"version": 1', '"version": "1"')],
        "line 1: expected a number",
    )
    yield "no JSON", [head, line[:-3]], "line 2: expected a JSON object"
    yield "no object", [head, "7"], "line 2: expected a JSON object, found int"
    yield "no event", [head, '{"seq": "1"}'], "line 2: expected an event"
    yield "cut short", [head, line], "line 2: expected a last line with `end`"
    yield "line missing", [head, end], "there are 1 events, 0 were found"


@pytest.mark.parametrize(("lines", "message"), [case[1:] for case in broken()], ids=range(8))
def test_broken_file_is_refused_with_its_place(lines: list[str], message: str) -> None:
    with pytest.raises(EventRejectedError) as refused:
        list(exported_lines.read(lines))
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["version", "schema_version"])
def test_newer_version_is_refused_as_such(name: str) -> None:
    head = {**json.loads(lines_of()[0]), name: 99}
    with pytest.raises(FormatVersionError, match=f"`{name}` is 99"):
        list(exported_lines.read([json.dumps(head)]))


def test_line_behind_damage_is_marked(tmp_path: Path) -> None:
    lines = items(exported(jsonl.write, exports.damaged(tmp_path)))
    assert sum(one.get("proven") is False for one in lines) == 1
    assert len(lines[-1]["end"]["damage"]) >= 1
