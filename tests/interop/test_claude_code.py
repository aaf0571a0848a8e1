"""Claude Code sessions: replies over several lines, a tree, boundaries, subagents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from durasess.interop.tree import NO_PARENT
from durasess.store.store import Store
from tests.support.foreign import (
    CLAUDE_ID,
    Imported,
    Lines,
    assert_nothing_lost,
    claude,
    claude_block,
    claude_result,
    claude_text,
    claude_use,
    claude_user,
    write,
)


def imported(tmp_path: Path, lines: Lines, name: str = "s.jsonl") -> Imported:
    """These lines."""
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "foreign" / name, lines))
    assert_nothing_lost(found)
    return found


def test_lines_of_one_reply_are_one_message_whose_usage_counts_once(tmp_path: Path) -> None:
    thinking = {"type": "thinking", "thinking": "Use Read", "signature": "sig"}
    found = imported(
        tmp_path,
        [
            claude_user("u1", None, "List the pets"),
            claude_block("a1", "u1", "m1", thinking, output=1),
            claude_block("a2", "a1", "m1", claude_text("Looking"), output=7),
            claude_block("a3", "a2", "m1", claude_use("t1"), stop="tool_use", output=7),
            claude_result("r1", "a3", "t1", "Rex"),
            claude_block("a4", "r1", "m2", claude_text("Rex is all"), stop="end_turn"),
        ],
    )
    assert found.said() == [
        ("user", "List the pets"),
        ("assistant", "Looking"),
        ("tool", "Rex"),
        ("assistant", "Rex is all"),
    ]
    assert found.runs() == ["succeeded"]
    assert (found.report.usage.prompt, found.report.usage.completion) == (26, 12)
    with found.open() as session:
        assert session.state.messages[1].raw["item"]["content"][0] == thinking


def test_results_between_the_lines_of_a_reply_come_behind_it(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            claude_user("u1", None, "go"),
            claude_block("a1", "u1", "m1", claude_use("t1")),
            claude_result("r1", "a1", "t1", "one"),
            claude_block("a2", "a1", "m1", claude_use("t2")),
            claude_result("r2", "a2", "t2", "two"),
            claude_block("a3", "r1", "m2", claude_text("done"), stop="end_turn"),
        ],
    )
    assert found.said() == [
        ("user", "go"),
        ("assistant", ""),
        ("tool", "one"),
        ("tool", "two"),
        ("assistant", "done"),
    ]
    assert [call.status for call in found.calls()] == ["completed", "completed"]


def test_call_without_a_result_is_uncertain(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [claude_user("u1", None, "go"), claude_block("a1", "u1", "m1", claude_use("t1"))],
    )
    assert ([call.status for call in found.calls()], found.runs()) == (
        ["uncertain"],
        ["interrupted"],
    )


def test_line_that_goes_on_earlier_rewinds(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            claude_user("u1", None, "go"),
            claude_block("a1", "u1", "m1", claude_text("left"), stop="end_turn"),
            claude_user("u2", "a1", "deeper"),
            claude_block("a2", "u2", "m2", claude_text("deep"), stop="end_turn"),
            claude_user("u3", "a1", "right"),
            claude_block("a3", "u3", "m3", claude_text("fine"), stop="end_turn"),
        ],
    )
    assert [text for _, text in found.said()] == ["go", "left", "right", "fine"]


def test_line_that_goes_on_from_a_rewound_branch_brings_it_back(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            claude_user("u1", None, "go"),
            claude_block("a1", "u1", "m1", claude_text("left")),
            claude_block("a2", "a1", "m1", claude_use("t1")),
            claude_result("r1", "a2", "t1", "out"),
            claude_user("u2", "u1", "right"),
            claude_user("u3", "r1", "left again"),
        ],
    )
    assert [text for _, text in found.said()] == ["go", "left", "out", "left again"]
    with found.open() as session:
        assert session.usage == found.report.usage


def test_missing_parent_and_a_cycle_cut_nothing(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            claude_user("u1", "u2", "one"),
            claude_user("u2", "u1", "two"),
            claude_user("u3", "u3", "three"),
            claude_user("u4", "nowhere", "four"),
        ],
    )
    assert [text for _, text in found.said()] == ["one", "two", "three", "four"]
    assert found.report.reasons == {NO_PARENT: 3}


def test_summary_behind_a_boundary_tells_everything_before(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            claude_user("u1", None, "one"),
            claude_block("a1", "u1", "m1", claude_text("1"), stop="end_turn"),
            claude("system", "b1", None, subtype="compact_boundary", logicalParentUuid="a1"),
            claude_user("u2", "b1", "so far", isCompactSummary=True),
            claude_user("u3", "u2", "two"),
        ],
    )
    assert found.said() == [("user", "two")]
    with found.open() as session:
        assert session.state.compaction is not None
        assert session.state.compaction.summary == "so far"


def test_new_root_begins_a_new_conversation(tmp_path: Path) -> None:
    found = imported(tmp_path, [claude_user("u1", None, "one"), claude_user("u2", None, "two")])
    assert found.said() == [("user", "two")]


def test_lines_of_a_subagent_are_no_part_of_the_talk(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            claude_user("u1", None, "go"),
            claude_user("s1", None, "sub", isSidechain=True),
            claude_block("s2", "s1", "m9", claude_text("sub"), isSidechain=True),
            claude_block("a1", "u1", "m1", claude_text("done"), stop="end_turn"),
        ],
    )
    assert found.said() == [("user", "go"), ("assistant", "done")]
    assert found.report.kept == 2


def test_file_of_a_subagent_is_a_session_with_a_parent(tmp_path: Path) -> None:
    lines = [claude_user("s1", None, "sub", isSidechain=True, agentId="7f")]
    found = imported(tmp_path, lines, "agent-7f.jsonl")
    assert found.report.session_id == f"claude-code-{CLAUDE_ID}.7f"
    with found.open() as session:
        assert session.state.meta.parent == f"claude-code-{CLAUDE_ID}"


def test_result_of_a_subagent_s_call_names_its_session(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            claude_user("u1", None, "go"),
            claude_block("a1", "u1", "m1", claude_use("t1")),
            claude_result("r1", "a1", "t1", "out", toolUseResult={"agentId": "7f"}),
        ],
    )
    with found.open() as session:
        (child,) = session.state.children.values()
    assert (child.session_id, child.status) == (f"claude-code-{CLAUDE_ID}.7f", "succeeded")
    assert child.key == found.calls()[0].key


def test_name_of_the_file_counts_before_a_copied_session_id(tmp_path: Path) -> None:
    other = "00000000-bbbb-4000-8000-000000000002"
    found = imported(tmp_path, [claude_user("u1", None, "go")], f"{other}.jsonl")
    assert found.report.session_id == f"claude-code-{other}"


def test_title_of_the_user_counts_most(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            {"type": "summary", "summary": "a summary", "leafUuid": "u1"},
            claude_user("u1", None, "go"),
            {"type": "custom-title", "customTitle": "mine", "sessionId": CLAUDE_ID},
            {"type": "ai-title", "aiTitle": "a model's", "sessionId": CLAUDE_ID},
        ],
    )
    with found.open() as session:
        assert session.title == "mine"


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        ({"isMeta": True}, "a caveat"),
        ({}, "<local-command-stdout>x</local-command-stdout>"),
    ],
)
def test_what_the_program_puts_in_begins_no_run(
    tmp_path: Path, fields: dict[str, Any], content: str
) -> None:
    found = imported(tmp_path, [claude_user("u1", None, content, **fields)])
    assert (found.said(), found.runs()) == ([("user", content)], [])


def test_interruption_by_the_user_cancels_the_run(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            claude_user("u1", None, "go"),
            claude_block("a1", "u1", "m1", claude_use("t1")),
            claude_user("u2", "a1", [claude_text("[Request interrupted by user for tool use]")]),
        ],
    )
    assert (found.runs(), [call.status for call in found.calls()]) == (
        ["cancelled"],
        ["uncertain"],
    )


def test_reply_without_a_reason_is_the_answer_when_the_user_goes_on(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            claude_user("u1", None, "one"),
            claude_block("a1", "u1", "m1", claude_text("1")),
            claude_user("u2", "a1", "two"),
        ],
    )
    assert found.runs() == ["succeeded", "interrupted"]


def test_error_of_the_provider_makes_the_run_fail(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            claude_user("u1", None, "one"),
            claude_block("a1", "u1", "m1", claude_text("overloaded"), isApiErrorMessage=True),
        ],
    )
    assert found.runs() == ["failed"]


@pytest.mark.parametrize(
    "line",
    [
        claude("attachment", "x1", "u1", attachment={"type": "file"}),
        claude("progress", "x1", "u1"),
        claude("system", "x1", "u1", subtype="local_command"),
        claude("from-the-future", "x1", "u1"),
        claude("user", "x1", "u1", message="text"),
        {"type": "queue-operation", "operation": "enqueue", "sessionId": CLAUDE_ID},
        {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}},
        {"type": None},
        claude_user("u1", None, "the same uuid again"),
        claude_result("x1", "u1", "nobody", "x"),
    ],
)
def test_line_that_is_no_part_of_the_talk_is_kept(tmp_path: Path, line: dict[str, Any]) -> None:
    found = imported(tmp_path, [claude_user("u1", None, "go"), line])
    assert (found.report.kept, found.said()) == (1, [("user", "go")])


def test_lines_hang_on_what_is_kept_between_them(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            claude_user("u1", None, "go"),
            claude("attachment", "x1", "u1", attachment={}),
            claude_block("a1", "x1", "m1", claude_text("done"), stop="end_turn"),
        ],
    )
    assert [text for _, text in found.said()] == ["go", "done"]


def test_several_results_and_a_remark_on_one_line(tmp_path: Path) -> None:
    results = [{"type": "tool_result", "tool_use_id": one, "content": one} for one in ("t1", "t2")]
    found = imported(
        tmp_path,
        [
            claude_user("u1", None, "go"),
            claude_block("a1", "u1", "m1", claude_use("t1")),
            claude_block("a2", "a1", "m1", claude_use("t2")),
            claude_user("r1", "a2", [*results, claude_text("and quickly")]),
        ],
    )
    assert found.said()[2:] == [("tool", "t1"), ("tool", "t2"), ("user", "and quickly")]


def test_branch_from_a_reply_of_several_lines_that_was_told_again_keeps_what_is_before_it(
    tmp_path: Path,
) -> None:
    found = imported(
        tmp_path,
        [
            claude_user("a", None, "go"),
            claude_block("b", "a", "m1", {"type": "thinking", "thinking": "so", "signature": "s"}),
            claude_block("c", "b", "m1", claude_text("left")),
            claude_user("d", None, "anew"),
            claude_user("e", "c", "back"),
            claude_user("f", "c", "back otherwise"),
        ],
    )
    assert found.said() == [("user", "go"), ("assistant", "left"), ("user", "back otherwise")]


def test_compaction_told_again_tells_what_was_told_again_before_it(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            claude_user("a", None, "go"),
            claude_block("b", "a", "m1", claude_text("left")),
            claude("system", "k", None, subtype="compact_boundary", content="x"),
            claude_user("s", "k", "S", isCompactSummary=True),
            claude_user("c", "s", "on"),
            claude_user("d", None, "anew"),
            claude_user("e", "c", "back"),
        ],
    )
    assert found.said() == [("user", "on"), ("user", "back")]
