"""What an import says more than once counts once: branches of a tree that the conversation goes
back to, and replies that an import got in two parts."""

from __future__ import annotations

from pathlib import Path

from durasess.engine import paths
from durasess.interop import jsonl, survey
from durasess.interop.importing import import_file
from durasess.session.masking import Masker
from durasess.store import index
from durasess.store.store import Store
from tests.support.exports import exported
from tests.support.foreign import (
    PI_HEADER,
    Imported,
    Lines,
    claude_block,
    claude_result,
    claude_text,
    claude_use,
    claude_user,
    codex_message,
    codex_meta,
    codex_output,
    pi_reply,
    pi_result,
    pi_user,
    write,
)

BACK_AND_FORTH: Lines = [
    PI_HEADER,
    pi_user("a", None, "fetch alpha"),
    pi_reply("b", "a", "looking", calls=("c1", "c2")),
    pi_result("c", "b", "c1", "out"),
    pi_reply("d", "c", "left"),
    pi_user("e", None, "anew"),
    pi_reply("f", "e", "right"),
    pi_user("g", "d", "back"),
    pi_reply("h", "g", "left again"),
]
"""Line 8 goes on from line 5, which lines 6 and 7 had left; the call c2 has no result."""


def counted(store: Store, session_id: str) -> dict[str, int]:
    """What lists, the index and pages say."""
    [row] = [one for one in store.list() if one.session_id == session_id]
    [day] = store.statistics(by="day")
    with store.open(session_id, mode="read") as session:
        page = survey.look(session, Masker())
        open_calls = len(session.open_calls)
    assert row.open_calls == open_calls
    assert page.messages == row.messages
    assert page.counted_runs == row.runs == day.runs
    assert sum(page.outcomes.values()) == row.calls
    return {
        "messages": row.messages,
        "calls": row.calls,
        "open": row.open_calls,
        "runs": row.runs,
        "listed": len(store.runs()),
    }


def test_branch_that_is_told_again_counts_once(tmp_path: Path) -> None:
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "s.jsonl", BACK_AND_FORTH))
    said = ["fetch alpha", "looking", "out", "left", "back", "left again"]
    assert [text for _, text in found.said()] == said
    report = found.report
    expected = {"messages": 7, "calls": 2, "open": 1, "runs": 3, "listed": 3}
    assert counted(found.store, report.session_id) == expected
    assert (report.messages, report.calls, report.uncertain, report.runs) == (7, 2, 1, 3)
    assert [hit.seq for hit in found.store.search("alpha").hits] == [3 + 1]


def test_search_without_the_index_finds_what_was_told_again_once(tmp_path: Path) -> None:
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "s.jsonl", BACK_AND_FORTH))
    (tmp_path / "store" / index.NAME).mkdir()
    hits = found.store.search("alpha")
    assert any("index was not used" in note for note in hits.notes) and len(hits) == 1


def test_export_of_a_branch_that_is_told_again_counts_as_its_origin(tmp_path: Path) -> None:
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "s.jsonl", BACK_AND_FORTH))
    session_id = found.report.session_id
    path = tmp_path / "export.jsonl"
    path.write_text(exported(jsonl.write, paths.join(str(tmp_path / "store"), session_id)))
    other = Store(tmp_path / "other")
    report = import_file(other, str(path))
    assert counted(other, report.session_id) == counted(found.store, session_id)
    assert (report.messages, report.calls, report.uncertain, report.runs) == (7, 2, 1, 3)


def test_new_reply_in_a_run_that_was_told_again_is_of_a_run_that_counts(tmp_path: Path) -> None:
    lines = [*BACK_AND_FORTH[:7], pi_reply("g", "c", "left otherwise")]
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "s.jsonl", lines))
    expected = {"messages": 6, "calls": 2, "open": 1, "runs": 3, "listed": 3}
    assert counted(found.store, found.report.session_id) == expected
    assert found.report.runs == 3
    runs = found.store.runs()
    # The usage of four replies, each in one of the runs.
    assert sum(run.completion for run in runs) == 20 == found.report.usage.completion


REPLY: Lines = [
    claude_user("u1", None, "go"),
    claude_block("a1", "u1", "m1", claude_text("first"), output=1),
    claude_block("a2", "a1", "m1", claude_use("t1"), output=20),
    claude_block("a3", "a2", "m1", claude_text("second"), output=50),
    claude_result("r1", "a2", "t1", "out"),
    claude_user("u2", "r1", "on"),
]


def test_reply_that_an_import_got_in_two_parts_is_one_message_with_all_its_tokens(
    tmp_path: Path,
) -> None:
    whole = Imported(Store(tmp_path / "whole"), write(tmp_path / "s.jsonl", REPLY))
    for cut in range(2, len(REPLY)):
        store = Store(tmp_path / f"{cut}")
        path = write(tmp_path / "s.jsonl", REPLY[:cut])
        grown = Imported(store, path)
        first = grown.report
        write(path, REPLY)
        second = grown.again()
        assert first.messages + second.messages == whole.report.messages == 3
        said = "".join(text for role, text in grown.said() if role == "assistant")
        assert said.replace("\n", "") == "firstsecond"
        with grown.open() as session:
            assert session.usage.completion == 50 and session.usage.prompt == 13
            assert session.state.counts.messages == 3
            assert not session.open_calls


def test_replies_of_several_requests_whose_message_id_is_the_same_are_several(
    tmp_path: Path,
) -> None:
    lines = [
        claude_user("u1", None, "one"),
        claude_block("a1", "u1", "msg", claude_text("first"), requestId="r1"),
        claude_block("a2", "a1", "msg", claude_text("second"), requestId="r2"),
        claude_user("u2", "a2", "two"),
        claude_block("a3", "u2", "msg", claude_text("third"), requestId="r3"),
    ]
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "s.jsonl", lines))
    assert [text for _, text in found.said()] == ["one", "first", "second", "two", "third"]
    assert (found.report.messages, found.report.usage.completion) == (5, 15)


def test_result_that_came_on_another_branch_stays_with_its_call_that_is_told_again(
    tmp_path: Path,
) -> None:
    lines = [
        PI_HEADER,
        pi_user("a", None, "go"),
        pi_reply("b", "a", "both", calls=("c1", "c2")),
        pi_result("r1", "b", "c1", "out 1"),
        pi_result("r2", "r1", "c2", "out 2"),
        pi_user("d", None, "anew"),
        pi_user("e", "r1", "back"),
    ]
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "s.jsonl", lines))
    assert [text for _, text in found.said()] == ["go", "both", "out 1", "out 2", "back"]
    assert (found.report.uncertain, found.report.results) == (0, 2)
    with found.open() as session:
        assert not session.open_calls
    assert found.again().lines == 0


def test_reply_of_codex_that_an_import_ended_in_is_one_message(tmp_path: Path) -> None:
    lines = [
        codex_meta(),
        codex_message("user", "go"),
        codex_message("assistant", "first"),
        codex_message("assistant", "second"),
        codex_output("none", "ends the reply"),
        codex_message("assistant", "another"),
    ]
    path = write(tmp_path / "rollout.jsonl", lines)
    whole = Imported(Store(tmp_path / "whole"), path).report.messages
    for cut in range(2, len(lines)):
        write(path, lines[:cut])
        grown = Imported(Store(tmp_path / f"{cut}"), path)
        first = grown.report.messages
        write(path, lines)
        assert first + grown.again().messages == whole == 3
        with grown.open() as session:
            assert session.state.counts.messages == 3
        said = "".join(text for _, text in grown.said())
        assert said.replace("\n", "") == "gofirstsecondanother"
