"""pi sessions: linear and as a tree, compacted, branched, cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from durasess.interop.tree import NO_PARENT
from durasess.store.store import Store
from tests.support.foreign import (
    PI_HEADER,
    Imported,
    Lines,
    assert_nothing_lost,
    pi_entry,
    pi_reply,
    pi_result,
    pi_user,
    write,
)


def imported(tmp_path: Path, lines: Lines) -> Imported:
    """These entries behind a header."""
    path = write(tmp_path / "foreign/s.jsonl", [PI_HEADER, *lines])
    found = Imported(Store(tmp_path / "store"), path)
    assert_nothing_lost(found)
    return found


def test_request_call_result_and_answer_are_a_run_that_succeeded(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            pi_user("a", None, "List the pets"),
            pi_reply("b", "a", "Looking", calls=("c1",)),
            pi_result("c", "b", "c1", "Rex"),
            pi_reply("d", "c", "Rex is all"),
        ],
    )
    assert found.said() == [
        ("user", "List the pets"),
        ("assistant", "Looking"),
        ("tool", "Rex"),
        ("assistant", "Rex is all"),
    ]
    assert found.runs() == ["succeeded"]
    assert [call.status for call in found.calls()] == ["completed"]


def test_header_says_what_the_session_is(tmp_path: Path) -> None:
    found = imported(tmp_path, [pi_entry("t", None, type="session_info", name="Pets")])
    assert found.report.session_id == f"pi-{PI_HEADER['id']}"
    with found.open() as session:
        meta = session.state.meta
        assert (meta.workspace, meta.origin, meta.title) == ("/home/dev/petshop", "pi", "Pets")


def test_foreign_times_are_kept_beside_the_log_s_own(tmp_path: Path) -> None:
    found = imported(tmp_path, [pi_user("a", None, "hi")])
    with found.open() as session:
        (run,) = [event for event in session.events() if event.type == "run_started"]
    assert run.data["at"] == "2026-02-03T09:00:01.000Z" != run.ts


def test_call_without_a_result_is_uncertain_and_its_run_interrupted(tmp_path: Path) -> None:
    found = imported(
        tmp_path, [pi_user("a", None, "go"), pi_reply("b", "a", "", calls=("c1", "c2"))]
    )
    assert [call.status for call in found.calls()] == ["uncertain", "uncertain"]
    assert (found.runs(), found.report.uncertain) == (["interrupted"], 2)


@pytest.mark.parametrize(
    ("stop", "status"),
    [("stop", "succeeded"), ("aborted", "cancelled"), ("error", "failed"), ("length", "failed")],
)
def test_reason_of_the_stop_says_how_the_run_ended(tmp_path: Path, stop: str, status: str) -> None:
    found = imported(tmp_path, [pi_user("a", None, "go"), pi_reply("b", "a", "x", stop=stop)])
    assert found.runs() == [status]


def test_usage_is_the_sum_with_what_was_cached(tmp_path: Path) -> None:
    found = imported(
        tmp_path, [pi_user("a", None, "go"), pi_reply("b", "a", "x"), pi_reply("c", "b", "y")]
    )
    usage = found.report.usage
    assert (usage.prompt, usage.completion, usage.total, usage.cost) == (24, 10, 34, 1.0)


def test_entry_that_goes_on_earlier_rewinds(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            pi_user("a", None, "go"),
            pi_reply("b", "a", "left"),
            pi_user("c", "b", "deeper"),
            pi_reply("d", "a", "right"),
        ],
    )
    assert found.said() == [("user", "go"), ("assistant", "right")]


def test_entry_that_goes_on_from_a_rewound_branch_brings_it_back(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            pi_user("a", None, "go"),
            pi_reply("b", "a", "left", calls=("c1",)),
            pi_result("r", "b", "c1", "out"),
            pi_user("c", "a", "right"),
            pi_reply("d", "r", "left again"),
        ],
    )
    assert found.said() == [
        ("user", "go"),
        ("assistant", "left"),
        ("tool", "out"),
        ("assistant", "left again"),
    ]
    assert (found.report.messages, found.report.calls, found.report.results) == (4, 1, 1)
    with found.open() as session:
        assert session.usage.total == found.report.usage.total == 34


def test_parent_that_is_no_entry_before_is_said_and_the_talk_goes_on(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [pi_user("a", "b", "go"), pi_reply("b", "b", "one"), pi_user("c", "nowhere", "two")],
    )
    assert [text for _, text in found.said()] == ["go", "one", "two"]
    assert found.report.reasons == {NO_PARENT: 3}


def test_chain_of_ten_thousand_entries_needs_no_stack(tmp_path: Path) -> None:
    lines = [pi_user("0", None, "x")]
    lines += [pi_user(str(n), str(n - 1), "x") for n in range(1, 10_000)]
    lines.append(pi_user("last", "0", "back"))
    found = imported(tmp_path, lines)
    with found.open() as session:
        assert [message.content for message in session.history()] == ["x", "back"]


def test_compaction_keeps_what_begins_with_its_first_entry(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            pi_user("a", None, "one"),
            pi_reply("b", "a", "two"),
            pi_user("c", "b", "three"),
            pi_entry("d", "c", type="compaction", summary="so far", firstKeptEntryId="c"),
            pi_reply("e", "d", "four"),
        ],
    )
    assert found.said() == [("user", "three"), ("assistant", "four")]
    with found.open() as session:
        assert session.state.compaction is not None
        assert session.state.compaction.summary == "so far"


def test_format_1_is_linear_and_its_compaction_counts_entries(tmp_path: Path) -> None:
    def old(message: dict[str, Any]) -> dict[str, Any]:
        return {"type": "message", "timestamp": "2026-02-03T09:00:01.000Z", "message": message}

    header = {name: value for name, value in PI_HEADER.items() if name != "version"}
    lines = [
        header | {"provider": "p", "modelId": "m", "thinkingLevel": "off"},
        old({"role": "user", "content": "one"}),
        old({"role": "assistant", "content": [], "stopReason": "aborted"}),
        old({"role": "user", "content": "two"}),
        {"type": "compaction", "summary": "sum", "firstKeptEntryIndex": 3},
    ]
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "f/s.jsonl", lines))
    assert_nothing_lost(found)
    assert found.said() == [("user", "two")]
    with found.open() as session:
        assert session.state.runtime_config["model"] == "m"


def test_context_of_others_is_the_user_s_and_begins_no_run(tmp_path: Path) -> None:
    shell = {"role": "bashExecution", "command": "ls", "output": "pets"}
    hidden = {**shell, "excludeFromContext": True}
    found = imported(
        tmp_path,
        [
            pi_entry("a", None, message=shell),
            pi_entry("b", "a", message=hidden),
            pi_entry("c", "b", type="branch_summary", summary="was there"),
            pi_entry("d", "c", type="custom_message", content="extra"),
            pi_entry("e", "d", message={"role": "hookMessage", "content": "hook"}),
        ],
    )
    texts = [text for _, text in found.said()]
    assert texts == ["$ ls\npets", "Summary of a branch that was left:\nwas there", "extra", "hook"]
    assert found.runs() == []


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "label", "targetId": "a"},
        {"type": "custom", "data": {}},
        {"type": "from_the_future"},
        {"type": 7},
        {"type": "message", "message": {"role": "alien"}},
        {"type": "message", "message": "text"},
    ],
)
def test_entry_that_is_no_part_of_the_talk_is_kept(tmp_path: Path, entry: dict[str, Any]) -> None:
    found = imported(tmp_path, [pi_user("a", None, "go"), pi_entry("b", "a") | entry])
    assert (found.report.kept, found.said()) == (1, [("user", "go")])


def test_ten_calls_of_one_id_have_each_its_result(tmp_path: Path) -> None:
    lines = [pi_user("u", None, "go")]
    for n in range(10):
        parent = str(lines[-1]["id"])
        lines.append(pi_reply(f"c{n}", parent, "", calls=("x",)))
        lines.append(pi_result(f"r{n}", f"c{n}", "x", f"out {n}"))
    found = imported(tmp_path, lines)
    assert [call.status for call in found.calls()] == ["completed"] * 10
    outputs = [text for role, text in found.said() if role == "tool"]
    assert outputs == [f"out {n}" for n in range(10)]


def test_result_is_of_the_newest_message_that_asked_for_its_id(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            pi_user("u", None, "go"),
            pi_reply("a", "u", "", calls=("x",)),
            pi_user("v", "a", "again"),
            pi_reply("b", "v", "", calls=("x",)),
            pi_result("r", "b", "x", "out"),
        ],
    )
    assert [call.status for call in found.calls()] == ["uncertain", "completed"]


def test_two_open_calls_of_one_id_are_both_uncertain(tmp_path: Path) -> None:
    found = imported(tmp_path, [pi_user("u", None, "go"), pi_reply("a", "u", "", calls=("x", "x"))])
    assert [call.status for call in found.calls()] == ["uncertain", "uncertain"]


def test_result_of_no_call_and_a_second_one_are_kept(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            pi_user("u", None, "go"),
            pi_reply("a", "u", "", calls=("x",)),
            pi_result("b", "a", "x", "one"),
            pi_result("c", "b", "x", "two"),
            pi_result("d", "c", "nobody", "three"),
        ],
    )
    assert (found.report.results, found.report.kept) == (1, 2)


def test_branch_from_an_entry_that_says_nothing_keeps_what_was_told_again_before_it(
    tmp_path: Path,
) -> None:
    found = imported(
        tmp_path,
        [
            pi_user("a", None, "go"),
            pi_reply("b", "a", "left"),
            pi_entry("l", "b", type="label", targetId="a", label="here"),
            pi_user("c", None, "anew"),
            pi_user("d", "l", "back"),
            pi_user("e", "l", "back otherwise"),
        ],
    )
    said = [("user", "go"), ("assistant", "left"), ("user", "back otherwise")]
    assert found.said() == said
    with found.open() as session:
        assert [one.content for one in session.history()] == [
            "go",
            [{"type": "text", "text": "left"}],
            "back otherwise",
        ]


def test_compaction_told_again_reaches_as_far_where_its_first_kept_entry_follows_a_label(
    tmp_path: Path,
) -> None:
    compaction = {"type": "compaction", "summary": "S", "firstKeptEntryId": "b"}
    found = imported(
        tmp_path,
        [
            pi_user("a", None, "go"),
            pi_entry("l", "a", type="label", targetId="a", label="here"),
            pi_reply("b", "l", "kept"),
            pi_entry("k", "b", **compaction),
            pi_user("c", None, "anew"),
            pi_user("d", "k", "back"),
        ],
    )
    assert found.said() == [("assistant", "kept"), ("user", "back")]


def test_compaction_told_again_without_a_first_kept_entry_tells_all_before_it(
    tmp_path: Path,
) -> None:
    found = imported(
        tmp_path,
        [
            pi_user("a", None, "go"),
            pi_reply("b", "a", "left"),
            pi_entry("k", "b", type="compaction", summary="S"),
            pi_user("c", None, "anew"),
            pi_user("d", "k", "back"),
        ],
    )
    assert found.said() == [("user", "back")]
