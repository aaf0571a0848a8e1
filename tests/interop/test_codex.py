"""Codex rollouts: two logs in one, turns, rollbacks, compactions, forks, compressed files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from durasess.interop.codex import Codex
from durasess.interop.importing import import_file
from durasess.store.store import Store
from tests.support.foreign import (
    Imported,
    Lines,
    assert_nothing_lost,
    codex,
    codex_call,
    codex_event,
    codex_message,
    codex_meta,
    codex_output,
    codex_tokens,
    codex_turn,
    encoded,
    write,
)


def imported(tmp_path: Path, lines: Lines) -> Imported:
    """These lines behind a session_meta."""
    path = write(tmp_path / "foreign/rollout.jsonl", [codex_meta(), *lines])
    found = Imported(Store(tmp_path / "store"), path)
    assert_nothing_lost(found)
    return found


def test_what_was_shown_and_is_in_the_model_s_log_is_said_once(tmp_path: Path) -> None:
    found = imported(tmp_path, codex_turn("Sort", "Sorted"))
    assert found.said() == [("user", "Sort"), ("assistant", "Sorted")]
    assert (found.report.messages, found.runs()) == (2, ["succeeded"])


def test_what_was_only_shown_is_said(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            codex_event("user_message", message="Sort"),
            codex_event("agent_message", message="Sorted"),
            codex_event("task_complete"),
        ],
    )
    assert found.said() == [("user", "Sort"), ("assistant", "Sorted")]


def test_message_shown_without_its_pictures_is_the_same(tmp_path: Path) -> None:
    content = [{"type": "input_text", "text": "Look"}, {"type": "input_image", "image_url": "u"}]
    found = imported(
        tmp_path,
        [
            codex_event("task_started"),
            codex("response_item", type="message", role="user", content=content),
            codex_event("user_message", message="Look", images=["u"]),
            codex_event("task_complete"),
        ],
    )
    assert found.report.messages == 1


def test_items_of_one_reply_are_one_message_with_its_provider_s_item(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            codex_message("user", "go"),
            codex("response_item", type="reasoning", summary=[], encrypted_content="gAAA"),
            codex_message("assistant", "Looking"),
            codex_call("c1"),
            codex_call("c2"),
            codex_output("c2", "two"),
            codex_output("c1", "one"),
        ],
    )
    assert found.said()[1:] == [("assistant", "Looking"), ("tool", "two"), ("tool", "one")]
    with found.open() as session:
        reply = session.state.messages[1]
        items = reply.raw["item"]
    assert [item["type"] for item in items] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert [call.status for call in found.calls()] == ["completed", "completed"]


def test_call_without_an_output_is_uncertain(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [codex_message("user", "go"), codex_call("c1"), codex_event("turn_aborted", reason="x")],
    )
    assert [call.status for call in found.calls()] == ["uncertain"]
    assert (found.runs(), found.report.uncertain) == (["cancelled"], 1)


def test_turn_without_an_end_is_interrupted(tmp_path: Path) -> None:
    found = imported(tmp_path, [codex_event("task_started"), codex_message("user", "go")])
    assert found.runs() == ["interrupted"]


def test_error_before_the_end_makes_the_run_fail(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            codex_message("user", "go"),
            codex_event("error", message="overloaded"),
            codex_event("task_complete"),
        ],
    )
    with found.open() as session:
        assert (session.runs[0].status, session.runs[0].error) == ("failed", "overloaded")


def test_context_of_the_program_begins_no_run(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            codex_message("developer", "be brief"),
            codex_message("user", "<environment_context>\n</environment_context>"),
            *codex_turn("go", "done"),
        ],
    )
    assert len(found.runs()) == 1
    with found.open() as session:
        assert [part.name for part in session.state.system] == ["developer_1"]


def test_second_request_in_a_turn_is_said_to_its_run(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            codex_event("task_started"),
            codex_message("user", "go"),
            codex_call("c1"),
            codex_output("c1", "x"),
            codex_message("user", "and quickly"),
            codex_event("task_complete"),
        ],
    )
    assert found.runs() == ["succeeded"]


def test_cumulative_counters_that_start_again_are_summed(tmp_path: Path) -> None:
    counts = [codex_tokens(90, 10), codex_tokens(90, 10), codex_tokens(180, 20), codex_tokens(8, 2)]
    found = imported(tmp_path, counts)
    usage = found.report.usage
    assert (usage.prompt, usage.completion, usage.total) == (188, 22, 210)
    with found.open() as session:
        assert session.usage == usage


def test_rolled_back_turns_do_not_count(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            *codex_turn("one", "1"),
            *codex_turn("two", "2"),
            *codex_turn("three", "3"),
            codex_event("thread_rolled_back", num_turns=2),
            *codex_turn("four", "4"),
        ],
    )
    assert [text for _, text in found.said()] == ["one", "1", "four", "4"]


def test_rollback_of_more_turns_than_there_are_takes_all(tmp_path: Path) -> None:
    found = imported(
        tmp_path, [*codex_turn("one", "1"), codex_event("thread_rolled_back", num_turns=9)]
    )
    assert found.said() == []


def test_compaction_tells_everything_before(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        [
            *codex_turn("one", "1"),
            codex("compacted", message="so far"),
            codex_event("context_compacted"),
            *codex_turn("two", "2"),
        ],
    )
    assert [text for _, text in found.said()] == ["two", "2"]
    with found.open() as session:
        assert session.state.compaction is not None
        assert session.state.compaction.summary == "so far"


def test_compaction_without_a_message_tells_what_it_kept(tmp_path: Path) -> None:
    kept = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]}]
    found = imported(
        tmp_path,
        [*codex_turn("one", "1"), codex("compacted", message="", replacement_history=kept)],
    )
    with found.open() as session:
        assert session.state.compaction is not None
        assert session.state.compaction.summary == "one"


def test_fork_is_the_session_of_its_first_meta(tmp_path: Path) -> None:
    lines = [
        codex_meta("child-1", forked_from_id="parent-1"),
        codex_meta("parent-1"),
        *codex_turn("one", "1"),
    ]
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "f/rollout.jsonl", lines))
    assert_nothing_lost(found)
    assert found.report.session_id == "codex-child-1"
    with found.open() as session:
        assert session.labels["forked_from"] == "parent-1"


def test_subagent_has_its_parent(tmp_path: Path) -> None:
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "parent-1"}}}
    lines = [codex_meta("child-1", source=spawn)]
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "f/rollout.jsonl", lines))
    with found.open() as session:
        assert session.state.meta.parent == "codex-parent-1"


def test_second_rollout_of_a_reverted_thread_is_another_session(tmp_path: Path) -> None:
    name = "rollout-2026-02-03T09-00-00-thread-1_second.jsonl"
    found = Imported(Store(tmp_path / "store"), write(tmp_path / name, [codex_meta("thread-1")]))
    assert found.report.session_id == "codex-thread-1_second"


def test_settings_are_said_when_they_change(tmp_path: Path) -> None:
    settings = {"model": "model-x", "effort": "low", "cwd": "/elsewhere"}
    found = imported(
        tmp_path, [codex("turn_context", **settings), codex("turn_context", **settings)]
    )
    assert found.types().count("config_changed") == 1
    with found.open() as session:
        assert session.state.runtime_config == {"model": "model-x", "effort": "low"}
        assert session.state.meta.workspace == "/elsewhere"


@pytest.mark.parametrize(
    ("payload", "arguments"),
    [
        ({"type": "function_call", "name": "t", "arguments": '{"a"'}, '{"a"'),
        ({"type": "function_call", "name": "t", "arguments": "[1]"}, "[1]"),
        ({"type": "custom_tool_call", "name": "t", "input": "*** Begin"}, {"input": "*** Begin"}),
        ({"type": "local_shell_call", "action": {"command": ["ls"]}}, {"command": ["ls"]}),
        ({"type": "tool_search_call", "arguments": {"query": "x"}}, {"query": "x"}),
    ],
)
def test_call_of_each_kind_has_its_arguments(
    tmp_path: Path, payload: dict[str, Any], arguments: Any
) -> None:
    found = imported(tmp_path, [codex("response_item", call_id="c1", **payload)])
    assert [call.arguments for call in found.calls()] == [arguments]


def test_call_that_the_provider_carried_out_is_no_call_here(tmp_path: Path) -> None:
    search = codex("response_item", type="web_search_call", status="completed", action={})
    found = imported(tmp_path, [search, codex_message("assistant", "found")])
    assert (found.report.calls, found.report.messages) == (0, 1)


@pytest.mark.parametrize(
    "line",
    [
        codex("from_the_future"),
        codex("world_state"),
        codex("response_item", type="ghost_snapshot"),
        codex("response_item", type="never_seen"),
        codex_event("exec_command_end", call_id="c1"),
        codex_event("never_seen"),
        {"timestamp": "2026-02-03T09:00:00.000Z", "type": "event_msg", "payload": "text"},
        {"timestamp": "2026-02-03T09:00:00.000Z", "type": ["list"], "payload": {}},
        codex_output("nobody", "x"),
    ],
)
def test_line_that_is_no_part_of_the_talk_is_kept(tmp_path: Path, line: dict[str, Any]) -> None:
    found = imported(tmp_path, [*codex_turn("one", "1"), line])
    assert [text for _, text in found.said()] == ["one", "1"]
    assert found.report.kept >= 1


@pytest.mark.parametrize("frames", [1, 3])
def test_compressed_rollout_is_the_same_session(tmp_path: Path, frames: int) -> None:
    plain = write(tmp_path / "a/rollout.jsonl", [codex_meta(), *codex_turn("one", "1")])
    data = plain.read_bytes()
    step = len(data) // frames + 1
    parts = [data[at : at + step] for at in range(0, len(data), step)]
    packed = tmp_path / "archived_sessions/rollout.jsonl.zst"
    packed.parent.mkdir()
    packed.write_bytes(b"".join(zstandard.ZstdCompressor().compress(part) for part in parts))
    found = Imported(Store(tmp_path / "store"), plain)
    again = import_file(found.store, str(packed))
    assert (again.conflict, again.lines, again.skipped) == ("", 0, 7)


def test_blank_line_before_a_compaction_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "f/rollout.jsonl", [codex_meta(), *codex_turn("one", "1")])
    with path.open("ab") as file:
        file.write(b"\n\n" + encoded(codex("compacted", message="so far")) + b"\n")
    assert Imported(Store(tmp_path / "store"), path).said() == []


def test_compressed_rollout_that_is_cut_off_is_imported_as_far_as_it_goes(tmp_path: Path) -> None:
    turns = [line for n in range(300) for line in codex_turn(f"ask {n}", f"answer {n}" * n)]
    plain = write(tmp_path / "a/rollout.jsonl", [codex_meta(), *turns])
    packed = tmp_path / "rollout.jsonl.zst"
    data = zstandard.ZstdCompressor().compress(plain.read_bytes())
    packed.write_bytes(data[: len(data) // 2])
    found = Imported(Store(tmp_path / "store"), packed)
    assert "cut short" in found.report.problem
    assert 0 < found.report.lines < 1801
    packed.write_bytes(data)
    first = found.report.lines
    assert (found.again().problem, found.report.lines + first) == ("", 1801)


def test_default_directories_hold_plain_compressed_and_archived(tmp_path: Path) -> None:
    for name in ("sessions/2026/02/03/rollout-a.jsonl", "sessions/2026/02/03/rollout-a.jsonl.zst"):
        write(tmp_path / name, [])
    write(tmp_path / "archived_sessions/rollout-b.jsonl.zst", [])
    write(tmp_path / "sessions/other.jsonl", [])
    found = list(Codex().find(None, {"CODEX_HOME": str(tmp_path)}))
    assert [Path(path).name for path in found] == ["rollout-a.jsonl", "rollout-b.jsonl.zst"]


def test_credential_in_arguments_is_not_recorded(tmp_path: Path) -> None:
    line = codex_call("c1", "curl")
    line["payload"]["arguments"] = json.dumps({"cookie": "abcdefgh12345678", "cmd": "curl"})
    path = write(tmp_path / "f/rollout.jsonl", [codex_meta(), line])
    found = Imported(Store(tmp_path / "store"), path)
    (call,) = found.calls()
    assert call.arguments == {"cookie": "[masked]", "cmd": "curl"}
    assert call.masked


def test_rollback_takes_back_turns_that_only_the_log_for_people_has(tmp_path: Path) -> None:
    lines = []
    for number in range(3):
        lines += [
            codex_event("task_started"),
            codex_event("user_message", message=f"ask {number}"),
            codex_event("agent_message", message=f"answer {number}"),
            codex_event("task_complete"),
        ]
    found = imported(tmp_path, [*lines, codex_event("thread_rolled_back", num_turns=2)])
    assert found.said() == [("user", "ask 0"), ("assistant", "answer 0")]


def test_rollback_of_a_turn_whose_request_came_behind_an_import_takes_back_no_other(
    tmp_path: Path,
) -> None:
    shown = [codex_event("task_started"), codex_event("user_message", message="one")]
    rest = [
        codex_message("user", "one"),
        codex_message("assistant", "1"),
        codex_event("task_complete"),
        codex_event("thread_rolled_back", num_turns=1),
    ]
    begin = [codex_meta(), *codex_turn("zero", "0"), *shown]
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "rollout.jsonl", begin))
    write(found.path, [*begin, *rest])
    found.again()
    assert found.said() == [("user", "zero"), ("assistant", "0")]


def test_same_text_that_only_the_log_for_people_has_is_as_many_messages(tmp_path: Path) -> None:
    shown = [
        codex_event("user_message", message="go on"),
        codex_event("agent_message", message="done"),
    ]
    lines = [codex_meta(), *shown, *shown, *shown]
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "rollout.jsonl", lines))
    assert found.said() == [("user", "go on"), ("assistant", "done")] * 3
    assert found.report.messages == 6
    grown = Imported(Store(tmp_path / "grown"), write(found.path, lines[:4]))
    write(found.path, [*lines, codex_message("assistant", "done")])
    grown.again()
    assert grown.said() == found.said()


def test_counters_that_start_again_are_told_by_the_last_call_where_they_are_higher_at_once(
    tmp_path: Path,
) -> None:
    def tokens(total: int, last: int) -> dict[str, Any]:
        counters = [
            {"input_tokens": one, "output_tokens": 0, "total_tokens": one} for one in (total, last)
        ]
        info = dict(zip(("total_token_usage", "last_token_usage"), counters, strict=True))
        return codex_event("token_count", info=info)

    # The second and the last are said twice, as when only the rate limits have changed.
    told = [(100, 100), (100, 100), (300, 200), (500, 500), (500, 500), (510, 10)]
    found = imported(tmp_path, [codex_message("user", "go"), *(tokens(*one) for one in told)])
    assert found.report.usage.prompt == 300 + 510
