"""The generator of sessions: repeatable, sized and shaped like the real thing."""

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

from durasess.cli.workload import EVENT_BYTES_MAX, generate_events

COMMAND = Path(__file__).resolve().parents[2] / "tools" / "generate.py"
TYPES = {
    "run_started",
    "user_message",
    "assistant_message",
    "tool_started",
    "tool_result",
    "run_finished",
}


@pytest.fixture(scope="module")
def events() -> list[tuple[str, dict[str, Any]]]:
    return list(generate_events(7, count=20_000))


def json_bytes(data: dict[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


def json_lines(events: list[tuple[str, dict[str, Any]]]) -> bytes:
    return b"".join(json_bytes({"type": type_, "data": data}) + b"\n" for type_, data in events)


def run_command(*arguments: str) -> bytes:
    command = [sys.executable, str(COMMAND), *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout


def test_same_seed_gives_the_same_events() -> None:
    assert list(generate_events(3, count=500)) == list(generate_events(3, count=500))


def test_same_seed_gives_the_same_events_in_another_process() -> None:
    assert run_command("--seed", "3", "--events", "200") == run_command(
        "--seed", "3", "--events", "200"
    )


def test_another_seed_gives_other_events() -> None:
    assert list(generate_events(3, count=50)) != list(generate_events(4, count=50))


def test_a_longer_session_begins_with_the_shorter_one() -> None:
    assert list(generate_events(3, count=500))[:100] == list(generate_events(3, count=100))


@pytest.mark.parametrize("count", [0, 1, 137])
def test_count_is_exact(count: int) -> None:
    assert len(list(generate_events(1, count=count))) == count


def test_without_count_there_is_no_end() -> None:
    endless = generate_events(1)
    assert [next(endless) for _ in range(1_000)] == list(generate_events(1, count=1_000))


def test_sizes_are_those_of_real_sessions(events: list[tuple[str, dict[str, Any]]]) -> None:
    sizes = [len(json_bytes(data)) for _, data in events]
    assert 450 <= statistics.median(sizes) <= 800
    assert 1_000 <= statistics.mean(sizes) <= 1_500
    assert 20_000 < max(sizes) <= EVENT_BYTES_MAX


def test_no_event_exceeds_the_limit_in_ascii_json(events: list[tuple[str, dict[str, Any]]]) -> None:
    assert max(len(json.dumps(data)) for _, data in events) <= EVENT_BYTES_MAX


def test_lines_compress_like_code_and_logs(events: list[tuple[str, dict[str, Any]]]) -> None:
    lines = json_lines(events)
    ratio = len(lines) / len(zstandard.compress(lines, 3))
    assert 3.0 <= ratio <= 4.5


def test_json_gives_back_what_was_generated(events: list[tuple[str, dict[str, Any]]]) -> None:
    assert [json.loads(json_bytes(data)) for _, data in events] == [data for _, data in events]


def test_text_holds_what_is_hard_to_store(events: list[tuple[str, dict[str, Any]]]) -> None:
    outputs = "".join(data["output"] for type_, data in events if type_ == "tool_result")
    for piece in ("\n", '"', "\\", "\t", "\r", "\x1b", "\x00", "ü", "東京", "🎉", "/home/dev/shop"):
        assert piece in outputs


def test_all_types_appear(events: list[tuple[str, dict[str, Any]]]) -> None:
    assert {type_ for type_, _ in events} == TYPES


def test_every_result_has_a_start_and_every_start_a_call(
    events: list[tuple[str, dict[str, Any]]],
) -> None:
    called: set[str] = set()
    started: set[str] = set()
    finished_count = 0
    for type_, data in events:
        if type_ == "assistant_message":
            called.update(call["call_id"] for call in data["tool_calls"])
        elif type_ == "tool_started":
            called.remove(data["call_id"])
            started.add(data["call_id"])
        elif type_ == "tool_result":
            started.remove(data["call_id"])
            finished_count += 1
    assert finished_count > 5_000
    assert len(called | started) <= 3, "only the last message's calls may be open"


def test_a_run_is_request_steps_answer(events: list[tuple[str, dict[str, Any]]]) -> None:
    first_run_end = [type_ for type_, _ in events].index("run_finished")
    types = [type_ for type_, _ in events[: first_run_end + 1]]
    assert types[:3] == ["run_started", "user_message", "assistant_message"]
    assert types[-2:] == ["assistant_message", "run_finished"]


def test_messages_carry_one_to_three_calls_and_usage(
    events: list[tuple[str, dict[str, Any]]],
) -> None:
    messages = [data for type_, data in events if type_ == "assistant_message"]
    assert {len(message["tool_calls"]) for message in messages} == {0, 1, 2, 3}
    for message in messages:
        assert min(message["usage"].values()) > 0
        assert set(message["usage"]) == {"prompt_tokens", "completion_tokens"}
        assert all(set(call) == {"call_id", "name", "arguments"} for call in message["tool_calls"])


def test_command_prints_one_event_a_line(events: list[tuple[str, dict[str, Any]]]) -> None:
    lines = run_command("--seed", "7", "--events", "120").splitlines()
    printed = [json.loads(line) for line in lines]
    assert printed == [{"type": type_, "data": data} for type_, data in events[:120]]


def test_command_without_end_stops_when_its_reader_does() -> None:
    command = [sys.executable, str(COMMAND)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 0
