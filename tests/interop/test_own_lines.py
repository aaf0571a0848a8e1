"""Importing this library's own exports, through the same door as all foreign formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from durasess.engine.types import Migration
from durasess.interop import html, jsonl, markdown
from durasess.interop.importing import NotRecognizedError, import_file
from durasess.interop.own_lines import OwnLines
from durasess.session.session import Session
from durasess.store.store import Store
from tests.support import exports
from tests.support.exports import HOSTILE, PageCheck, exported, reading
from tests.support.foreign import PI_HEADER, Imported, assert_nothing_lost, pi_reply, pi_user
from tests.support.foreign import write as write_lines
from tests.support.sessions import START_NS, clock

LATER = START_NS + 10**18
"""When it is imported, years later."""


def imported(below: Path, text: str) -> Session:
    """The session that an export becomes."""
    path = below / "export.jsonl"
    path.write_text(text, encoding="utf-8")
    store = Store(below / "elsewhere", clock=clock(LATER), mask=None)
    report = import_file(store, str(path), OwnLines())
    assert not report.problem and not report.conflict
    return store.open(report.session_id, mode="read")


def said(session: Any) -> list[tuple[str, Any, bool]]:
    return [(one.role, session.resolved(one.content), one.ok) for one in session.history()]


def test_messages_calls_runs_and_usage_are_the_same(tmp_path: Path) -> None:
    source = reading(exports.worked(tmp_path))
    copy = imported(tmp_path, exported(jsonl.write, source.path))
    assert copy.session_id == "durasess-worked" and copy.title == "Fix & release"
    assert said(copy) == said(source)
    assert [one.status for one in copy.runs] == [one.status for one in source.runs]
    assert copy.usage == source.usage
    assert [one.summary for one in copy.state.compactions] == ["It was fixed."]
    statuses = [
        [(one.call_id, one.status, one.decision) for one in session.state.tool_states.values()]
        for session in (copy, source)
    ]
    assert statuses[0] == statuses[1]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_comes_over_as_it_was(text: str, tmp_path: Path) -> None:
    source = reading(exports.hostile(tmp_path, text))
    assert said(imported(tmp_path, exported(jsonl.write, source.path))) == said(source)


def test_what_a_damaged_session_still_has_comes_over(tmp_path: Path) -> None:
    copy = imported(tmp_path, exported(jsonl.write, exports.damaged(tmp_path)))
    contents = [one.content for one in copy.history()]
    assert "reply 13." in contents and "reply 29." in contents


def test_page_of_an_import_has_the_times_of_the_original(tmp_path: Path) -> None:
    path = exports.worked(tmp_path)
    copy = imported(tmp_path, exported(jsonl.write, path))
    ends = [one for one in PageCheck(exported(html.write, copy.path)).text.split() if ":" in one]
    assert ends and set(ends) >= {"22:13:20"}
    lines = exported(markdown.write, copy.path).splitlines()
    [time] = [line for line in lines if line.startswith("| Time |")]
    assert time.startswith("| Time | 2023-11-14 22:13:20 to 2023-11-14 22:13:20 UTC")


def test_what_is_said_after_an_import_has_the_time_of_the_log(tmp_path: Path) -> None:
    copy = imported(tmp_path, exported(jsonl.write, exports.worked(tmp_path)))
    store = Store(tmp_path / "elsewhere", clock=clock(LATER))
    with store.open(copy.session_id) as session, session.run("go on") as run:
        run.assistant("on it")
    page = exported(markdown.write, copy.path)
    assert "run\\_5, began 2055-07-24 00:00:00 UTC" in page
    assert "run\\_4, began 2023-11-14 22:13:20 UTC" in page


def test_page_of_a_foreign_import_has_the_times_of_its_file(tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "foreign/s.jsonl",
        [PI_HEADER, pi_user("a", None, "hi"), pi_reply("b", "a", "yo")],
    )
    store = Store(tmp_path / "store", clock=clock(LATER))
    report = import_file(store, str(file))
    with store.open(report.session_id, mode="read") as session:
        at = next(one.data["at"] for one in session.events() if "at" in one.data)
        page = exported(markdown.write, session.path)
    assert f"began {str(at)[:10]}" in page
    assert "foreign" not in page.replace("foreign\\_", "").replace('"foreign_', "")


def test_newer_export_is_refused(tmp_path: Path) -> None:
    text = exported(jsonl.write, exports.worked(tmp_path)).replace('"version":1', '"version":9', 1)
    with pytest.raises(NotRecognizedError, match="`version` is 9"):
        imported(tmp_path, text)


def test_line_that_is_no_event_is_kept_and_reported(tmp_path: Path) -> None:
    text = exported(jsonl.write, exports.worked(tmp_path))
    path = tmp_path / "export.jsonl"
    path.write_text(text + '{"seq":"x"}\n', encoding="utf-8")
    report = import_file(Store(tmp_path / "other", clock=clock()), str(path), OwnLines())
    assert report.reported == 1


def own_lines(*events: dict[str, Any]) -> str:
    """An export with these events, whatever they are."""
    head = {"format": jsonl.FORMAT, "version": 1, "session_id": "worked", "schema_version": 1}
    stamp = "2026-02-03T09:00:00.000000Z"
    told = [{"seq": seq, "ts": stamp, **one} for seq, one in enumerate(events, 1)]
    return "".join(json.dumps(one) + "\n" for one in [head, *told])


def note(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "user_message", "data": {"content": text}, **more}


@pytest.mark.parametrize(
    "bad",
    [
        note("x", run_id=""),
        note("x", run_id="r" * 600),
        note("x", call_id=""),
        note("x", event_id=""),
        {"type": "", "data": {"content": "x"}},
    ],
    ids=["run_id", "long", "call_id", "event_id", "type"],
)
def test_event_that_no_log_would_take_is_reported_and_the_others_come_over(
    bad: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text(own_lines(note("one"), bad, note("two")), encoding="utf-8")
    store = Store(tmp_path / "store")
    report = import_file(store, str(path))
    assert (report.lines, report.mapped, report.kept, report.reported) == (4, 2, 1, 1)
    assert report.places[0].startswith("line 3: event rejected: ")
    with store.open(report.session_id, mode="read") as session:
        assert said(session) == [("user", "one", True), ("user", "two", True)]
        [event] = [one for one in session.events() if one.type == "foreign" and one.seq > 2]
    assert json.loads(event.data["foreign"][0]["text"])["data"] == bad["data"]
    assert import_file(store, str(path)).skipped == 4


def test_event_id_that_stands_twice_is_left_out_and_its_event_comes_over(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    told = [note("one", event_id="e"), note("two", event_id="e"), note("one", event_id="e")]
    path.write_text(own_lines(*told), encoding="utf-8")
    store = Store(tmp_path / "store")
    report = import_file(store, str(path))
    assert (report.mapped, report.reported) == (3, 0)
    with store.open(report.session_id, mode="read") as session:
        ids = [one.event_id for one in session.events() if one.type == "user_message"]
        assert [one[1] for one in said(session)] == ["one", "two", "one"]
    assert ids == ["e", None, None]


def test_export_of_an_import_comes_over_with_its_foreign_lines(tmp_path: Path) -> None:
    lines = [PI_HEADER, pi_user("a", None, "go"), pi_reply("b", "a", "left")]
    store = Store(tmp_path / "first")
    report = import_file(store, str(write_lines(tmp_path / "s.jsonl", lines)))
    told = exported(jsonl.write, Path(store.path) / report.session_id)
    path = tmp_path / "export.jsonl"
    path.write_text(told, encoding="utf-8")
    found = Imported(Store(tmp_path / "second"), path)
    assert_nothing_lost(found)
    assert found.said() == [("user", "go"), ("assistant", "left")]
    for segment in Path(found.store.path).glob("*/events_*.jsonl"):
        for line in segment.read_bytes().splitlines():
            json.loads(line, object_pairs_hook=assert_distinct) if line.strip(b"\t\0") else None


def assert_distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """No key of an object stands twice."""
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


def test_large_fields_of_known_events_come_over_where_readers_look_for_them(
    tmp_path: Path,
) -> None:
    """Each was moved into a blob as a whole, so the event was one that nobody could read: the
    message, the end of the run, the summary were gone."""
    large = "x" * 70_000
    writes = [
        {"call_id": f"c{n}", "name": "write", "arguments": {"text": str(n) * 60_000}}
        for n in range(6)
    ]
    with Store(tmp_path / "store", mask=None).create("large", title="t") as session:
        session.configure(tools=large)
        with session.run("one") as run:
            run.assistant("Writing.", tool_calls=writes)
            with run.tool("c0") as call:
                call.fail(large)
            run.ask_approval("c1", large)
            run.tool("c2").start().wait_for_callback(large)
        with session.run("two") as run:
            run.assistant("Said.")
        session.compact(large, through=session.runs[0].seq)
        session.note(large)
        session.set_task(goal=large)
        run = session.run("three").start()
        run.stream().delta(large)
        session.flush()
        run.finish("failed", error=large)
    source = reading(str(tmp_path / "store" / "large"))
    copy = imported(tmp_path, exported(jsonl.write, source.path))
    assert copy.state.counts.unreadable == source.state.counts.unreadable == 0
    assert said(copy) == said(source)
    assert [one.status for one in copy.runs] == ["succeeded", "succeeded", "failed"]
    assert [one.summary for one in copy.state.compactions] == [large]
    assert copy.state.runtime_config == source.state.runtime_config == {"tools": large}
    assert copy.task == source.task
    for one, other in zip(copy.call_states, source.call_states, strict=True):
        assert (one.status, one.prompt, one.waits_for) == (
            other.status,
            other.prompt,
            other.waits_for,
        )
        assert copy.resolved(one.arguments) == source.resolved(other.arguments)


def custom_store(below: Path, version: int) -> Store:
    """Of a program whose events and state have this version: "n" became "count"."""

    def first(state: dict[str, Any], event: Any) -> None:
        state["sum"] = state.get("sum", 0) + event.data["n"]

    def second(state: dict[str, Any], event: Any) -> None:
        state["sum"] = state.get("sum", 0) + event.data["count"]

    def renamed(event: Any) -> Any:
        if event.type != "add":
            return event
        return msgspec.structs.replace(event, data={"count": event.data["n"]})

    return Store(
        below,
        reducers={"add": first if version == 1 else second},
        custom_version=version,
        custom_migrations={1: Migration(event=renamed)} if version == 2 else {},
    )


@pytest.mark.parametrize("written", [1, 2])
@pytest.mark.parametrize("taken", [1, 2])
def test_own_events_keep_the_version_in_which_they_were_written(
    written: int, taken: int, tmp_path: Path
) -> None:
    """They were taken for events of the version of the store that imports them: its reducer
    raised, and the session could not be opened."""
    with custom_store(tmp_path / "store", written).create("one", user_id="u1") as session:
        session.emit("add", {"n" if written == 1 else "count": 5})
    if written == 1:
        with custom_store(tmp_path / "store", 2).open("one") as session:
            session.emit("add", {"count": 7})
    path = tmp_path / "export.jsonl"
    path.write_text(exported(jsonl.write, str(tmp_path / "store" / "one")), encoding="utf-8")
    report = import_file(custom_store(tmp_path / "elsewhere", taken), str(path))
    assert report.is_whole
    with custom_store(tmp_path / "elsewhere", 2).open(report.session_id) as copy:
        assert copy.custom_state["sum"] == (12 if written == 1 else 5)
        assert copy.state.meta.user_id == "u1"
        copy.emit("add", {"count": 1})


def test_call_of_an_import_was_started_when_it_was_and_not_when_it_was_imported(
    tmp_path: Path,
) -> None:
    """The model was told of a call of unknown outcome that it had begun at the time of the
    import."""
    store = Store(tmp_path / "store", clock=clock())
    with store.create("one") as session:
        run = session.run("do it").start()
        run.assistant("", tool_calls=[exports.call("c1", "deploy"), exports.call("c2", "wait")])
        run.tool("c1").start()
        run.tool("c2").start().wait_for_callback()
        session.abandon()
    store.open("one").close()
    source = reading(str(tmp_path / "store" / "one"))
    copy = imported(tmp_path, exported(jsonl.write, source.path))
    began = [one.started_at for one in source.call_states]
    assert all(began) and [one.started_at for one in copy.call_states] == began
    assert copy.context().openai() == source.context().openai()


def family(below: Path) -> Store:
    """A session with a child, and a fork of it that went on."""
    store = Store(below / "store", clock=clock())
    with store.create("origin", title="origin") as session, session.run("ask") as run:
        run.assistant("Asking.", tool_calls=[{"call_id": "c", "name": "ask"}], usage={"prompt": 5})
        with run.tool("c") as call, run.child(call_id="c", session_id="helper") as child:
            with child.run("help") as inner:
                inner.assistant("Helped.", usage={"prompt": 3})
            call.result("helped")
    cut = store.fork("origin", new_id="branch")
    with cut, cut.run("go on") as run:
        run.assistant("Otherwise.", usage={"prompt": 7})
    return store


def test_fork_and_child_are_those_of_the_imported_session(tmp_path: Path) -> None:
    store = family(tmp_path)
    other = Store(tmp_path / "elsewhere", clock=clock(LATER))
    for name in ("branch", "helper", "origin"):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(exported(jsonl.write, str(tmp_path / "store" / name)), encoding="utf-8")
        assert import_file(other, str(path)).is_whole
    rows = {row.session_id: row for row in other.list(tree=True)}
    assert {name: (row.parent, row.depth) for name, row in rows.items()} == {
        "durasess-origin": ("", 0),
        "durasess-branch": ("durasess-origin", 1),
        "durasess-helper": ("durasess-origin", 1),
    }
    with other.open("durasess-origin", mode="read") as session:
        assert list(session.state.children) == ["durasess-helper"]
    # What a fork has from its parent is its parent's, and is not counted twice.
    sums = [sum(day.prompt for day in one.statistics(by="day")) for one in (store, other)]
    runs = [sorted(run.prompt for run in one.runs()) for one in (store, other)]
    assert sums == [15, 15] and runs[0] == runs[1] == [3, 5, 7]


def test_fork_whose_parent_was_not_imported_names_it_all_the_same(tmp_path: Path) -> None:
    family(tmp_path)
    copy = imported(tmp_path, exported(jsonl.write, str(tmp_path / "store" / "branch")))
    meta = copy.state.meta
    assert meta.parent == "durasess-origin"
    last = next(event for event in copy.events(after=meta.parent_seq - 1))
    assert last.type == "run_finished"
