"""The stream of entries behind the pages: complete, in order, honest about what is missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from durasess.engine.types import Draft
from durasess.interop import conversation, html, jsonl, markdown, overview, survey
from durasess.interop.entries import Began, CallEntry, Ended, Entry, Late, Mark, Said
from durasess.session.masking import Masker
from durasess.store.store import Store
from tests.support import exports
from tests.support.exports import PageCheck, exported, reading
from tests.support.sessions import clock


def told(path: str) -> list[Entry]:
    """All entries of a session."""
    session, masker = reading(path), Masker()
    return list(conversation.entries(session, survey.look(session, masker), masker))


def seen(path: str) -> overview.Overview:
    return survey.look(reading(path), Masker())


def calls_of(entries: list[Entry]) -> dict[str, CallEntry]:
    return {call.call_id: call for one in entries if isinstance(one, Said) for call in one.calls}


def test_exports_change_no_file(tmp_path: Path) -> None:
    path = exports.worked(tmp_path)
    before = exports.files_of(path)
    for write in (markdown.write, html.write, jsonl.write):
        exported(write, path)
    assert exports.files_of(path) == before


def test_every_message_of_the_history_is_told_in_its_order(tmp_path: Path) -> None:
    path = exports.worked(tmp_path)
    said = [one.seq for one in told(path) if isinstance(one, Said) and not one.is_hidden]
    history = [one.seq for one in reading(path).history() if one.role != "tool"]
    assert said == history


def test_rewound_messages_are_told_as_such(tmp_path: Path) -> None:
    hidden = [one for one in told(exports.worked(tmp_path)) if isinstance(one, Said)]
    assert [one.content for one in hidden if one.is_hidden] == ["a wrong turn", "Wrong."]


def test_runs_begin_and_end_in_pairs(tmp_path: Path) -> None:
    frames = [one for one in told(exports.worked(tmp_path)) if isinstance(one, Began | Ended)]
    assert [type(one) for one in frames] == [Began, Ended] * 4
    assert [one.run.number for one in frames[::2]] == [1, 2, 3, 4]


def test_overview_counts_runs_calls_and_tokens(tmp_path: Path) -> None:
    found = seen(exports.worked(tmp_path))
    assert [run.status for run in found.runs] == [
        "succeeded",
        "succeeded",
        "interrupted",
        "succeeded",
    ]
    assert found.outcomes == {"completed": 2, "failed": 1, "not_started": 1}
    assert found.runs[0].usage.total == 840 and found.usage.total == 840
    assert [run.is_hidden for run in found.runs] == [False, True, False, False]


def test_interrupted_run_lasts_as_long_as_somebody_worked(tmp_path: Path) -> None:
    now = clock()
    store = Store(tmp_path / "store", clock=lambda: now() + late[0])
    late = [0]
    with store.create("s") as session:
        run = session.run("go").__enter__()
        run.assistant("", tool_calls=[exports.call("c1", "work")])
        run.tool("c1").__enter__()
        session.abandon()
    late[0] = 3600 * 10**9
    store.open("s").close()
    [run_found] = seen(session.path).runs
    assert run_found.status == "interrupted"
    assert run_found.worked_until[:16] == run_found.started_at[:16] != run_found.finished_at[:16]


def test_result_that_comes_long_after_its_message_is_news(tmp_path: Path) -> None:
    with exports.store_at(tmp_path).create("s") as session, session.run("go") as run:
        run.assistant("", tool_calls=[exports.call("c1", "slow")])
        with run.tool("c1") as call:
            call.wait_for_callback()
        for number in range(conversation.WINDOW + 60):
            run.user(f"word {number}")
        session.answer("c1", "at last")
    entries = told(session.path)
    assert calls_of(entries)["c1"].status == "waiting"
    [late] = [one for one in entries if isinstance(one, Late)]
    assert (late.call.output, late.call.status) == ("at last", "completed")
    assert seen(session.path).outcomes == {"completed": 1}


def test_memory_holds_no_more_than_the_window(tmp_path: Path) -> None:
    with exports.store_at(tmp_path).create("s") as session, session.run("go") as run:
        run.assistant("", tool_calls=[exports.call("c1", "never")])
        for number in range(conversation.WINDOW * 2):
            run.user(f"word {number}")
    view, masker = reading(session.path), Masker()
    made = conversation._Conversation(view, survey.look(view, masker), masker)
    most = 0
    for event in survey.events_of(view):
        made.take(event)
        list(made.ready())
        most = max(most, len(made._waiting))
    assert most <= conversation.WINDOW


def test_detached_call_stands_by_itself(tmp_path: Path) -> None:
    with exports.store_at(tmp_path).create("s") as session, session.run("go") as run:
        run.once("pay-7", lambda: "paid", name="pay")
    [said] = [one for one in told(session.path) if isinstance(one, Said) and one.role == "program"]
    assert said.calls[0].name == "pay" and said.calls[0].output == "paid"


def test_reply_that_was_cut_off_is_told(tmp_path: Path) -> None:
    store = exports.store_at(tmp_path)
    with store.create("s") as session:
        run = session.run("go").__enter__()
        run.stream().delta("half a sent")
        session.flush()
        session.abandon()
    store.open("s").close()
    [said] = [one for one in told(session.path) if isinstance(one, Said) and one.is_partial]
    assert said.content == "half a sent"


def test_secret_is_masked_and_counted_unless_it_is_to_be_shown(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 4
    with exports.store_at(tmp_path, mask=None).create("s") as session, session.run("go") as run:
        run.assistant(f"the key is {secret}")
    for write in (markdown.write, html.write, jsonl.write):
        masker = Masker()
        assert secret not in exported(write, session.path, masker)
        assert masker.count > 0


def test_large_value_is_put_back(tmp_path: Path) -> None:
    path = large(tmp_path)
    assert calls_of(told(path))["c1"].output == "x" * 5000


def large(below: Path) -> str:
    """A session with one value out of line."""
    with exports.store_at(below, blob_bytes=1000).create("s") as session, session.run("go") as run:
        run.assistant("", tool_calls=[exports.call("c1", "ls")])
        with run.tool("c1") as call:
            call.result("x" * 5000)
    return session.path


def test_large_value_that_is_lost_is_told_and_costs_nothing_else(tmp_path: Path) -> None:
    path = large(tmp_path)
    [blob] = Path(path, "blobs").iterdir()
    blob.unlink()
    entries = told(path)
    assert "not readable" in calls_of(entries)["c1"].output
    assert isinstance(entries[-1], Mark) and entries[-1].kind == "gap"
    assert '"missing":[' in exported(jsonl.write, path)


def test_damaged_session_is_told_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    path = exports.damaged(tmp_path)
    entries = told(path)
    said = [one.content for one in entries if isinstance(one, Said)]
    assert "reply 13." in said and "reply 29." in said and "reply 41." not in said
    [gap] = [one for one in entries if isinstance(one, Mark) and one.kind == "gap"]
    assert gap.title.endswith("cannot be read")


@pytest.mark.parametrize("write", [markdown.write, html.write])
def test_damage_stands_at_the_top_of_a_page(write: Any, tmp_path: Path) -> None:
    page = exported(write, exports.damaged(tmp_path))
    assert "damaged" in page[: page.index("reply 0")]


def test_page_of_a_damaged_session_is_sound(tmp_path: Path) -> None:
    page = PageCheck(exported(html.write, exports.damaged(tmp_path)))
    assert page.broken == [] and page.classes("alert") == 1 and page.classes("gap") == 1


def test_pruned_beginning_is_told_from_the_state(tmp_path: Path) -> None:
    store = exports.store_at(tmp_path, snapshot_every=5)
    with store.create("s") as session:
        for number in range(3):
            with session.run(f"ask {number}") as run:
                run.assistant(f"reply {number}", tool_calls=[exports.call(f"c{number}", "ls")])
                with run.tool(f"c{number}") as call:
                    call.result(f"file {number}")
            session.snapshot()
        session.snapshot()
        session.prune()
        assert session.core.engine.first_seq > 1
    entries = told(session.path)
    assert isinstance(entries[0], Mark) and "were pruned" in entries[0].title
    said = [one.content for one in entries if isinstance(one, Said)]
    assert said == ["ask 0", "reply 0", "ask 1", "reply 1", "ask 2", "reply 2"]
    assert [call.output for call in calls_of(entries).values()] == ["file 0", "file 1", "file 2"]
    assert PageCheck(exported(html.write, session.path)).broken == []


STRANGE = [
    Draft("tool_result", {"output": "of no call"}, None, "nobody"),
    Draft("run_finished", {"status": "failed"}, "run_9"),
    Draft("assistant_message", {"tool_calls": "none"}),
    Draft("run_started", ["no object"], "run_1"),
    Draft("user_message", "a text"),
    Draft("rewound", {"to": 10**9}),
    Draft("context_compacted", {"summary": 7, "through": "x"}),
    Draft("child_finished", {"session_id": "x", "status": "lost"}),
    Draft("run_started", {"request": "one"}, "run_1"),
    Draft("run_started", {"request": "two"}, "run_2"),
    Draft("tool_started", {"detached": True, "name": "pay", "operation_id": "o"}),
    Draft("message_delta", {"text": "streamed"}, "run_2"),
]


def test_events_that_fit_nothing_are_told_and_break_nothing(tmp_path: Path) -> None:
    path = exports.unchecked(tmp_path, *STRANGE)
    entries = told(path)
    seqs = {one.seq for one in entries if isinstance(one, Said | Mark | Late)}
    assert seqs | {one.run.seq for one in entries if isinstance(one, Began)} == set(
        range(1, len(STRANGE) + 2)
    )
    assert PageCheck(exported(html.write, path)).broken == []
    assert exported(markdown.write, path).startswith("# ")


def test_session_that_was_made_and_never_begun_has_a_page(tmp_path: Path) -> None:
    core, _ = exports.store_at(tmp_path).open_for_import("none")
    core.engine.close()
    path = os.path.join(tmp_path, "store", "none")
    assert told(path) == []
    assert PageCheck(exported(html.write, path)).broken == []
