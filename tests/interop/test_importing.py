"""Imports of any format: once, then what is new; bad lines, conflicts, large values, secrets."""

from __future__ import annotations

import base64
import contextlib
import datetime
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from benchmarks import foreign
from durasess.engine.types import MAX_DEPTH, Event
from durasess.errors import SessionLockedError, StorageError
from durasess.interop import foreign_file, jsonl, places, recording
from durasess.interop.formats import IMPORTERS
from durasess.interop.importing import (
    NotRecognizedError,
    find_all,
    import_all,
    import_file,
    session_id_for,
)
from durasess.session.reducer import Reducer
from durasess.store.store import Store
from tests.support import exports
from tests.support.foreign import (
    CLAUDE_ID,
    PI_HEADER,
    Imported,
    Lines,
    Values,
    assert_nothing_lost,
    claude_block,
    claude_result,
    claude_text,
    claude_use,
    claude_user,
    codex_call,
    codex_event,
    codex_message,
    codex_meta,
    codex_output,
    codex_tokens,
    codex_turn,
    encoded,
    pi_reply,
    pi_result,
    pi_user,
    write,
)

ROOT = Path(__file__).parents[2]

GROWING: dict[str, Lines] = {
    "pi": [
        PI_HEADER,
        pi_user("a", None, "go"),
        pi_reply("b", "a", "left", calls=("c1",)),
        pi_result("c", "b", "c1", "out"),
        pi_user("d", "a", "right"),
        pi_reply("e", "c", "left again"),
    ],
    "codex": [
        codex_meta(),
        *codex_turn("zero", "0"),
        codex_event("task_started"),
        codex_message("user", "go"),
        codex_event("agent_message", message="Looking"),
        codex_message("assistant", "Looking"),
        codex_call("c1"),
        codex_output("c1", "out"),
        codex_tokens(9, 1),
        codex_event("task_complete"),
        codex_event("thread_rolled_back", num_turns=1),
        *codex_turn("two", "2"),
    ],
    "claude-code": [
        claude_user("u1", None, "go"),
        claude_block("a1", "u1", "m1", claude_text("Looking")),
        claude_block("a2", "a1", "m1", claude_use("t1")),
        claude_result("r1", "a2", "t1", "out"),
        claude_user("u2", "u1", "right"),
        claude_user("u3", "r1", "left again"),
    ],
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def pi_file(tmp_path: Path, *lines: bytes) -> Path:
    """A pi session with these lines as they are."""
    path = tmp_path / "foreign/s.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(encoded(PI_HEADER) + b"\n" + b"".join(lines))
    return path


@pytest.mark.parametrize("name", GROWING)
def test_first_lines_say_which_format_it_is(store: Store, tmp_path: Path, name: str) -> None:
    found = Imported(store, write(tmp_path / "f/s.jsonl", GROWING[name]))
    assert found.report.format == name
    assert_nothing_lost(found)


@pytest.mark.parametrize("name", GROWING)
def test_second_import_writes_nothing(store: Store, tmp_path: Path, name: str) -> None:
    found = Imported(store, write(tmp_path / "f/s.jsonl", GROWING[name]))
    with found.open() as session:
        before = session.last_seq
    report = found.again()
    with found.open() as session:
        assert session.last_seq == before
    assert (report.lines, report.skipped) == (0, len(GROWING[name]))


@pytest.mark.parametrize("name", GROWING)
def test_file_that_grows_line_by_line_ends_as_if_read_at_once(
    store: Store, tmp_path: Path, name: str
) -> None:
    lines = GROWING[name]
    at_once = Imported(Store(tmp_path / "other"), write(tmp_path / "f/s.jsonl", lines))
    found = Imported(store, write(tmp_path / "f/s.jsonl", lines[:1]))
    for count in range(2, len(lines) + 1):
        write(tmp_path / "f/s.jsonl", lines[:count])
        report = found.again()
        assert (report.conflict, report.lines) in (("", 1), ("", 0), ("", 2))
        assert_complete(found)
    texts = [one for one in found.said() if one[1]]
    assert texts == [one for one in at_once.said() if one[1]]
    with found.open() as session, at_once.open() as other:
        assert session.usage == other.usage
        assert {call.status for call in session.state.tool_states.values()} <= {"completed"}


def assert_complete(found: Imported) -> None:
    """Every line is in the session."""
    raw = found.path.read_bytes().splitlines()
    assert found.foreign_lines() == {n: json.loads(line) for n, line in enumerate(raw, 1)}


@pytest.mark.parametrize("name", GROWING)
def test_import_that_was_killed_goes_on_where_it_was(
    store: Store, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "f/s.jsonl", GROWING[name])
    monkeypatch.setattr(recording, "BATCH_EVENTS", 1)
    whole = recording.Recording.write
    for _ in range(6):
        writes = iter(range(100))

        def write_some(
            self: recording.Recording,
            position: recording.Position,
            writes: Iterator[int] = writes,
        ) -> None:
            if next(writes) == 1:
                raise KeyboardInterrupt
            whole(self, position)

        monkeypatch.setattr(recording.Recording, "write", write_some)
        with pytest.raises(KeyboardInterrupt):
            import_file(store, str(path))
    monkeypatch.setattr(recording.Recording, "write", whole)
    found = Imported(store, path)
    assert found.report.conflict == ""
    assert_complete(found)
    at_once = Imported(Store(tmp_path / "other"), path)
    assert found.said() == at_once.said()
    assert found.runs() == at_once.runs()


@pytest.mark.parametrize("name", GROWING)
def test_live_state_of_an_import_is_the_recovered_state(
    store: Store, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[tuple[int, Any]] = []
    whole = recording.Recording.write

    def write_and_look(self: recording.Recording, position: recording.Position) -> None:
        whole(self, position)
        self._log.flush()
        states.append((self._log.last_seq, self._log.state))

    monkeypatch.setattr(recording, "BATCH_EVENTS", 1)
    monkeypatch.setattr(recording.Recording, "write", write_and_look)
    secret = "ghp_" + "a1B2" * 9
    lines = json.loads(json.dumps(GROWING[name]).replace('"go"', f'"use {secret}"'))
    found = Imported(store, write(tmp_path / "f/s.jsonl", lines))
    with found.open() as session:
        events = list(session.events())
    reducer = Reducer()
    state = reducer.initial()
    for event in events:
        state = reducer.apply(state, event)
        if states and states[0][0] == event.seq:
            assert states.pop(0)[1] == state
    assert not states


@pytest.mark.parametrize("name", GROWING)
def test_import_that_was_killed_in_its_process_goes_on_where_it_was(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "s.jsonl"
    foreign.write(path, name, 800_000)
    store = Store(tmp_path / "store")
    before = 0
    for _ in range(3):
        before = assert_killed_in_the_middle(store, path, before)
    found = Imported(store, path)
    assert found.report.conflict == "" and found.report.lines > 0 < found.report.skipped
    assert_complete(found)
    at_once = Imported(Store(tmp_path / "other"), path)
    assert (found.said(), found.runs()) == (at_once.said(), at_once.runs())
    with found.open() as session, at_once.open() as other:
        assert session.usage == other.usage
        assert list(session.state.tool_states) and session.state.counts == other.state.counts


def assert_killed_in_the_middle(store: Store, path: Path, before: int) -> int:
    """Import in a process of its own and kill -9 it behind a few writes; returns how many lines of
    the file are in the session then."""
    code = (
        "import sys\n"
        "from durasess.interop import recording\n"
        "from durasess.interop.importing import import_file\n"
        "from durasess.store.store import Store\n"
        "recording.BATCH_EVENTS = 10\n"
        "whole = recording.Recording.write\n"
        "def write(self, position):\n"
        "    whole(self, position)\n"
        "    print(position.lines, flush=True)\n"
        "recording.Recording.write = write\n"
        "import_file(Store(sys.argv[1]), sys.argv[2])\n"
    )
    arguments = [sys.executable, "-c", code, str(store.path), str(path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        done = [int(process.stdout.readline()) for _ in range(4)]
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert before < done[0]
    with store.open(session_id_of(store), mode="read") as session:
        position = session.state.custom_state[recording.POSITION]
    # What was not synced when the process was killed is there all the same: the system has it.
    assert position["lines"] >= done[-1]
    lines: int = position["lines"]
    return lines


def session_id_of(store: Store) -> str:
    """Of the only one."""
    [row] = store.list().rows
    return row.session_id


ODD_TEXTS = ["\ud83d alone", "\udead", "a\u2028b\u0085", "ghp_" + "a1B2" * 9, "1e5"]


@pytest.mark.parametrize("text", ODD_TEXTS, ids=range(len(ODD_TEXTS)))
@pytest.mark.parametrize("name", GROWING)
def test_reducer_gets_what_is_read_back(
    store: Store, tmp_path: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = Values(monkeypatch)
    lines = json.loads(json.dumps(GROWING[name]).replace('"go"', json.dumps(text)))
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(json.dumps(one).encode() + b"\n" for one in lines))
    found = Imported(store, path)
    values.assert_read_back()
    assert found.report.is_whole


@pytest.mark.parametrize("depth", [40, 60, 95, 96, 97, 120])
def test_deep_line_is_stored_or_reported(store: Store, tmp_path: Path, depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    line = encoded(pi_user("a", None, "go"))[:-1] + b',"x":' + deep + b"}"
    found = Imported(store, pi_file(tmp_path, line + b"\n"))
    # In the event it is inside data, foreign, an entry and its item.
    assert found.report.reported == (depth + 4 > MAX_DEPTH)


@pytest.mark.parametrize("depth", [40, 96, 97, 120])
def test_deep_arguments_in_a_text_are_stored_or_reported(
    store: Store, tmp_path: Path, depth: int
) -> None:
    call = codex_call("c1")
    call["payload"]["arguments"] = '{"a":' + "[" * depth + "]" * depth + "}"
    lines = [codex_meta(), codex_event("task_started"), codex_message("user", "go"), call]
    found = Imported(store, write(tmp_path / "s.jsonl", [*lines, codex_output("c1", "out")]))
    # In the event they are inside data, tool_calls, a call and their object.
    assert found.report.reported == (depth + 4 > MAX_DEPTH) * 1
    assert found.report.lines == 5


@pytest.mark.parametrize("depth", [40, 97, 98, 120])
def test_deep_result_of_a_line_with_several_is_stored_or_reported(
    store: Store, tmp_path: Path, depth: int
) -> None:
    deep: list[Any] = []
    for _ in range(depth - 1):
        deep = [deep]
    lines = [
        claude_user("u1", None, "go"),
        claude_block("a1", "u1", "m1", claude_use("t1")),
        claude_block("a2", "a1", "m1", claude_use("t2")),
    ]
    several = claude_result("r1", "a2", "t1", "out")
    second = claude_result("r1", "a2", "t2", "out")
    several["message"]["content"] += second["message"]["content"]
    several["message"]["content"][0]["content"] = deep
    found = Imported(store, write(tmp_path / "s.jsonl", [*lines, several]))
    with found.open() as session:
        for event in session.events():
            assert depth_of(event.data) <= MAX_DEPTH
    assert found.report.lines == 4


def depth_of(value: Any) -> int:
    """How many containers are inside each other."""
    if not isinstance(value, dict | list):
        return 0
    inside = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, inside), default=0)


def test_reducer_of_the_program_s_gets_the_lines_of_what_is_no_event_of_ours(
    tmp_path: Path,
) -> None:
    def count(state: dict[str, Any], event: Event) -> None:
        state["items"] = [*state.get("items", []), event.data["foreign"][0]["item"]["type"]]

    lines = [PI_HEADER, {"type": "custom", "id": "a", "parentId": None, "data": {"n": 1}}]
    path = write(tmp_path / "s.jsonl", lines)
    store = Store(tmp_path / "store", reducers={"foreign": count})
    report = import_file(store, str(path))
    with store.open(report.session_id) as session:
        assert session.state.custom_state["items"] == ["session", "custom"]


def test_foreign_file_stays_as_it_is(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "f/s.jsonl", GROWING["pi"])
    os.utime(path, (1_000_000_000, 1_000_000_000))
    path.chmod(0o400)
    before = (path.read_bytes(), path.stat().st_mtime_ns, list(path.parent.iterdir()))
    import_file(store, str(path))
    assert (path.read_bytes(), path.stat().st_mtime_ns, list(path.parent.iterdir())) == before


def test_changed_beginning_is_a_conflict_and_nothing_is_merged(
    store: Store, tmp_path: Path
) -> None:
    found = Imported(store, write(tmp_path / "f/s.jsonl", GROWING["pi"]))
    before = found.types()
    changed = [PI_HEADER, pi_user("a", None, "gone"), *GROWING["pi"][2:], pi_user("z", "e", "new")]
    write(found.path, changed)
    report = found.again()
    assert "are not those that were imported" in report.conflict
    assert (report.lines, found.types()) == (0, before)


def test_file_that_shrank_is_a_conflict(store: Store, tmp_path: Path) -> None:
    found = Imported(store, write(tmp_path / "f/s.jsonl", GROWING["pi"]))
    write(found.path, GROWING["pi"][:-1])
    assert found.again().conflict


def test_session_that_was_continued_here_is_not_merged_with_a_file_that_grew(
    store: Store, tmp_path: Path
) -> None:
    found = Imported(store, write(tmp_path / "f/s.jsonl", GROWING["pi"]))
    with store.open(found.report.session_id) as session:
        session.note("mine")
    assert found.again().conflict == ""
    write(found.path, [*GROWING["pi"], pi_user("z", "e", "theirs")])
    assert "was continued" in found.again().conflict


def test_session_of_the_same_id_that_was_not_imported_is_left_alone(
    store: Store, tmp_path: Path
) -> None:
    store.create(f"pi-{PI_HEADER['id']}").close()
    found = Imported(store, write(tmp_path / "f/s.jsonl", GROWING["pi"]))
    assert "was not imported" in found.report.conflict


def test_session_that_is_open_elsewhere_is_not_imported_into(store: Store, tmp_path: Path) -> None:
    found = Imported(store, write(tmp_path / "f/s.jsonl", GROWING["pi"]))
    with store.open(found.report.session_id), pytest.raises(SessionLockedError):
        found.again()


OTHERS: list[dict[str, Any]] = [
    {"type": "log", "payload": {"id": "x"}, "timestamp": "2026-02-03T09:00:00Z"},
    {"type": "event_msg", "payload": {"id": "x"}},
    {"type": "response_item", "payload": "x"},
    {"type": "message", "id": "x", "role": "user", "content": "go"},
    {"type": "session", "payload": {"id": "x"}},
]


@pytest.mark.parametrize("line", OTHERS, ids=range(len(OTHERS)))
def test_lines_of_another_tool_are_of_no_format(
    store: Store, tmp_path: Path, line: dict[str, Any]
) -> None:
    path = write(tmp_path / "rollout-2026-02-03T09-00-00-x.jsonl", [line] * 3)
    with pytest.raises(NotRecognizedError):
        import_file(store, str(path))
    assert not store.list().rows


@pytest.mark.parametrize("digits", [19, 20, 4_000, 4_001, 4_300])
def test_long_integer_is_stored_as_it_is(store: Store, tmp_path: Path, digits: int) -> None:
    number = int("7" * digits)
    found = Imported(store, pi_file(tmp_path, long_integer(digits)))
    assert (found.report.reported, found.said()) == (0, [("user", "go")])
    assert found.foreign_lines()[2]["x"] == number
    with found.open() as session:
        path = Path(session.path)
    raw = b"".join(one.read_bytes() for one in sorted(path.glob("events_*.jsonl")))
    [line] = [line for line in raw.splitlines() if b"7" * digits in line]
    assert json.loads(line)["data"]["foreign"][0]["item"]["x"] == number


@pytest.mark.parametrize("digits", [4_301, 30_000, 30_001])
def test_longer_integer_is_reported_and_kept_in_the_line_s_text(
    store: Store, tmp_path: Path, digits: int
) -> None:
    line = long_integer(digits)
    after = encoded(pi_user("b", "a", "on"))
    found = Imported(store, pi_file(tmp_path, line, after + b"\n"))
    assert (found.report.reported, found.said()) == (1, [("user", "on")])
    assert "digits" in found.report.places[0]
    assert found.foreign_lines()[2] == line.decode().rstrip()


def long_integer(digits: int) -> bytes:
    """A line with an integer of sevens."""
    return encoded(pi_user("a", None, "go"))[:-1] + b',"x":' + b"7" * digits + b"}\n"


@pytest.mark.parametrize(
    ("bad", "kept"),
    [
        (b'{"type":"mess', '{"type":"mess'),
        (b"@@@@", "@@@@"),
        (b"[1]", "[1]"),
        (b"\0\0\0\0", "\0\0\0\0"),
        (b'{"a":"caf\xe9"}', "eyJhIjoiY2Fm6SJ9"),
        (b'{"a":1}{"b":2}', '{"a":1}{"b":2}'),
        (b'{"a":1e999}', '{"a":1e999}'),
    ],
)
def test_line_that_cannot_be_read_is_kept_and_reported(
    store: Store, tmp_path: Path, bad: bytes, kept: str
) -> None:
    after = encoded(pi_user("a", None, "go"))
    found = Imported(store, pi_file(tmp_path, bad + b"\n", after + b"\n"))
    assert (found.report.reported, found.report.mapped) == (1, 2)
    assert found.report.places[0].startswith("line 2: ")
    assert found.foreign_lines()[2] == kept
    assert found.said() == [("user", "go")]


def test_torn_last_line_is_left_for_the_next_import(store: Store, tmp_path: Path) -> None:
    line = encoded(pi_user("a", None, "gö"))
    cut = line.index(b"\xc3") + 1
    found = Imported(store, pi_file(tmp_path, line[:cut]))
    assert (found.report.lines, found.report.torn, found.report.reported) == (1, cut, 0)
    pi_file(tmp_path, line + b"\n")
    assert (found.again().lines, found.said()) == (1, [("user", "gö")])


def test_last_line_that_is_whole_needs_no_line_feed(store: Store, tmp_path: Path) -> None:
    line = encoded(pi_user("a", None, "go"))
    found = Imported(store, pi_file(tmp_path, line))
    assert found.said() == [("user", "go")]
    pi_file(tmp_path, line + b"\n" + encoded(pi_user("b", "a", "on")) + b"\n")
    assert (found.again().lines, len(found.said())) == (1, 2)


def test_line_that_grew_after_it_was_imported_is_a_conflict(store: Store, tmp_path: Path) -> None:
    line = encoded(pi_user("a", None, "go"))
    found = Imported(store, pi_file(tmp_path, line))
    pi_file(tmp_path, line + b"{}\n")
    assert found.again().conflict


def test_byte_order_mark_crlf_and_blank_lines_are_taken(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    lines = [b"\xef\xbb\xbf" + encoded(PI_HEADER), b"", encoded(pi_user("a", None, "go"))]
    path.write_bytes(b"\r\n".join(lines) + b"\r\n")
    found = Imported(store, path)
    assert (found.report.reported, found.report.blank, found.report.lines) == (0, 1, 2)
    assert found.said() == [("user", "go")]


@pytest.mark.parametrize(
    "text",
    ["a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1eh", "a\r\nb", "\ud83d alone", "a\0b", "é" * 9],
)
def test_text_comes_through_as_it_is(store: Store, tmp_path: Path, text: str) -> None:
    line = json.dumps(pi_user("a", None, text)).encode()
    found = Imported(store, pi_file(tmp_path, line + b"\n"))
    assert found.said() == [("user", text)]


def test_separators_that_are_not_escaped_split_no_line(store: Store, tmp_path: Path) -> None:
    text = "a\u2028b\u2029c\u0085d"
    found = Imported(store, pi_file(tmp_path, encoded(pi_user("a", None, text)) + b"\n"))
    assert (found.report.lines, found.said()) == (2, [("user", text)])


def test_key_that_stands_twice_is_kept_in_the_line_s_text(store: Store, tmp_path: Path) -> None:
    line = encoded(pi_user("a", None, "go"))[:-1] + b',"x":1,"x":2}'
    found = Imported(store, pi_file(tmp_path, line + b"\n"))
    assert found.foreign_lines()[2] == line.decode()


def test_large_number_is_exact(store: Store, tmp_path: Path) -> None:
    line = encoded(pi_user("a", None, "go") | {"x": 10**30, "y": 2**63})
    found = Imported(store, pi_file(tmp_path, line + b"\n"))
    assert found.foreign_lines()[2]["x"] == 10**30


@pytest.mark.parametrize("depth", [98, 99, 300, 5000])
def test_line_that_is_too_deep_is_kept_as_text_and_reported(
    store: Store, tmp_path: Path, depth: int
) -> None:
    line = encoded(pi_user("a", None, "go"))[:-1] + b',"x":%s%s}' % (b"[" * depth, b"]" * depth)
    after = encoded(pi_user("b", "a", "on"))
    found = Imported(store, pi_file(tmp_path, line + b"\n", after + b"\n"))
    assert (found.report.reported, found.report.lines) == (1, 3)
    assert found.foreign_lines()[2] == line.decode()
    assert ("user", "on") in found.said()


def test_kept_line_that_is_too_deep_is_counted_once(store: Store, tmp_path: Path) -> None:
    line = b'{"type":"label","id":"a","parentId":null,"x":%s%s}' % (b"[" * 98, b"]" * 98)
    report = Imported(store, pi_file(tmp_path, line + b"\n")).report
    assert (report.mapped, report.kept, report.reported) == (1, 0, 1)


def test_every_line_of_a_reply_that_cannot_be_stored_is_kept_and_reported(
    store: Store, tmp_path: Path
) -> None:
    deep: Any = 1
    for _ in range(94):
        deep = [deep]
    lines = [
        claude_user("u", None, "go"),
        claude_block("a", "u", "m1", claude_text("hello")),
        claude_block("b", "a", "m1", claude_use("c") | {"input": deep}),
    ]
    path = write(tmp_path / f"f/{CLAUDE_ID}.jsonl", lines)
    found = Imported(store, path)
    assert (found.report.mapped, found.report.reported, len(found.report.places)) == (1, 2, 2)
    raw = path.read_text().splitlines()
    assert found.foreign_lines() == {1: lines[0], 2: raw[1], 3: raw[2]}


def test_large_values_are_stored_once_and_out_of_line(store: Store, tmp_path: Path) -> None:
    picture = {"type": "image", "mimeType": "image/png", "data": "iVBO" * 250_000}
    lines = [pi_user("u", None, "go")]
    for n in range(5):
        parent = str(lines[-1]["id"])
        result = pi_result(f"r{n}", f"c{n}", f"x{n}", "")
        result["message"]["content"] = [picture]
        lines += [pi_reply(f"c{n}", parent, "", calls=(f"x{n}",)), result]
    found = Imported(store, write(tmp_path / "f/s.jsonl", [PI_HEADER, *lines]))
    assert_nothing_lost(found)
    directory = Path(store.path) / found.report.session_id
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    assert size < 1_200_000 < found.path.stat().st_size / 4


def test_log_is_at_most_twice_the_file(store: Store, tmp_path: Path) -> None:
    lines = [pi_user("u", None, "go")]
    for n in range(50):
        parent = str(lines[-1]["id"])
        lines.append(pi_reply(f"c{n}", parent, "thinking " * 100, calls=(f"x{n}",)))
        lines.append(pi_result(f"r{n}", f"c{n}", f"x{n}", "output " * 500))
    found = Imported(store, write(tmp_path / "f/s.jsonl", [PI_HEADER, *lines]))
    directory = Path(store.path) / found.report.session_id
    size = sum(path.stat().st_size for path in directory.glob("events_*"))
    assert size < 2 * found.path.stat().st_size


@pytest.mark.parametrize("name", GROWING)
def test_secret_is_nowhere_in_what_is_written(store: Store, tmp_path: Path, name: str) -> None:
    secret = "ghp_" + "a1B2" * 9
    lines = json.loads(json.dumps(GROWING[name]).replace('"go"', f'"use {secret}"'))
    path = write(tmp_path / "f/s.jsonl", lines)
    with path.open("ab") as file:
        file.write(b"@@ " + secret.encode() + b"\n")
    found = Imported(store, path)
    written = b"".join(one.read_bytes() for one in Path(store.path).rglob("*") if one.is_file())
    assert secret.encode() not in written
    assert found.report.reported == 1
    with found.open() as session:
        assert session.state.counts.masked >= 1


def test_own_object_that_looks_like_a_reference_comes_back(store: Store, tmp_path: Path) -> None:
    odd = {"$blob": {"hash": "0" * 64, "size": 1, "kind": "text"}}
    line = encoded(pi_user("a", None, "go") | {"odd": odd})
    found = Imported(store, pi_file(tmp_path, line + b"\n"))
    assert found.foreign_lines()[2]["odd"] == odd


@pytest.mark.parametrize(
    "line",
    [b'{"x":"%s \xff"}', b'\xff {"password":"%s"}', b"\x80%s"],
    ids=["in", "named", "behind"],
)
def test_secret_on_a_line_that_is_no_text_is_masked_and_its_other_bytes_are_kept(
    line: bytes, store: Store, tmp_path: Path
) -> None:
    secret = b"ghp_" + b"a1B2" * 9
    path = pi_file(tmp_path, encoded(pi_user("a", None, "go")) + b"\n" + line % secret + b"\n")
    kept = Imported(store, path).foreign_lines()[3]
    data = base64.b64decode(kept)
    assert secret not in data and secret[-8:] not in data
    assert b"\xff" in data or b"\x80" in data


def test_id_that_is_no_name_makes_a_name_all_the_same() -> None:
    importer = IMPORTERS["pi"]
    for odd in ("../../x", "a/b", "a b", "x" * 300, "é", "a.", ""):
        made = session_id_for(importer.name, odd)
        assert made.removeprefix("pi-").isalnum()
    assert session_id_for(importer.name, "a-1") == "pi-a-1"


@pytest.mark.parametrize("content", [b"", b"\n\n", b"no session\n", b'{"a":1}\n', b"[1]\n"])
def test_file_of_no_format_makes_no_session(store: Store, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(content)
    with pytest.raises(NotRecognizedError):
        import_file(store, str(path))
    assert not os.path.exists(store.path)


def test_missing_file_is_a_storage_error(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Nothing was imported"):
        import_file(store, str(tmp_path / "absent.jsonl"))


def test_file_that_cannot_be_read_says_so_and_not_that_its_format_is_unknown(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "rollout-a.jsonl.zst"
    path.write_bytes(b"no frame at all")
    with pytest.raises(StorageError, match="cannot be read to its end"):
        import_file(store, str(path))


def test_import_of_all_reports_what_fails_and_goes_on(store: Store, tmp_path: Path) -> None:
    write(tmp_path / ".codex/sessions/2026/rollout-a.jsonl", GROWING["codex"])
    write(tmp_path / ".pi/agent/sessions/--p--/s.jsonl", GROWING["pi"])
    (tmp_path / ".pi/agent/sessions/--p--/bad.jsonl").write_bytes(b"nothing\n")
    write(tmp_path / f".claude/projects/p/{CLAUDE_ID}.jsonl", GROWING["claude-code"])
    reports = list(import_all(store, find_all(IMPORTERS.values(), {"HOME": str(tmp_path)})))
    assert [(one.format, bool(one.problem)) for one in reports] == [
        ("codex", False),
        ("pi", True),
        ("pi", False),
        ("claude-code", False),
    ]


def test_imported_session_can_be_continued(store: Store, tmp_path: Path) -> None:
    found = Imported(store, write(tmp_path / "f/s.jsonl", GROWING["codex"]))
    with store.open(found.report.session_id, workspace=tmp_path) as session:
        with session.run("and now?") as run:
            run.assistant("Here.")
        texts = [message["content"] for message in session.context().openai()]
    assert texts[-2:] == ["and now?", "Here."]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    body = (
        b"".join(
            encoded(one) + b"\n"
            for one in [
                pi_user("u", None, "go " * 200),
                pi_reply("c", None, "text " * 200, calls=("x",)),
                pi_result("r", None, "x", "output " * 1000),
            ]
        )
        .replace(b'"id":"u",', b"")
        .replace(b'"id":"c",', b"")
        .replace(b'"id":"r",', b"")
    )
    small, large = (_peak(tmp_path, body * times, str(times)) for times in (150, 1500))
    assert large - small < 24_000


def _peak(tmp_path: Path, body: bytes, name: str) -> int:
    """Kilobytes that a process needs at most to import it."""
    path = tmp_path / f"{name}.jsonl"
    path.write_bytes(encoded(PI_HEADER) + b"\n" + body)
    # Where there is /proc: getrusage() also counts what the process was before, this one's child.
    code = (
        "import os, resource, sys\n"
        "from durasess.store.store import Store\n"
        "from durasess.interop.importing import import_file\n"
        "import_file(Store(sys.argv[1]), sys.argv[2])\n"
        "most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "if os.path.exists('/proc/self/status'):\n"
        "    most = open('/proc/self/status').read().split('VmHWM:')[1].split()[0]\n"
        "print(most)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / f"store-{name}"), str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return int(done.stdout) // (1024 if sys.platform == "darwin" else 1)


def test_directory_that_cannot_be_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("open", "shut"):
        (tmp_path / "foreign" / name).mkdir(parents=True)
        (tmp_path / "foreign" / name / "a.jsonl").write_text("{}")
    shut = str(tmp_path / "foreign" / "shut")
    scandir = os.scandir

    def refusing(path: str) -> Any:
        if path == shut:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found = list(places.files_below(str(tmp_path / "foreign"), (".jsonl",)))
    assert found == [str(tmp_path / "foreign" / "open" / "a.jsonl"), shut]
    (report,) = import_all(Store(tmp_path / "store"), [(shut, None)])
    assert shut in report.problem and "cannot be read" in report.problem
    for importer in IMPORTERS.values():
        assert shut in list(importer.find(str(tmp_path / "foreign"), {}))
    assert list(places.files_below(str(tmp_path / "absent"), (".jsonl",))) == []


def test_imported_session_stands_where_it_happened(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    lines = codex_turn("hello", "hi")
    found = Imported(store, write(tmp_path / "rollout-1.jsonl", [codex_meta(), *lines]))
    first, last = lines[0]["timestamp"], lines[-1]["timestamp"]
    (row,) = store.list().rows
    assert row.active_at[:19] == last[:19] and row.updated_at > row.active_at
    assert store.list(since=row.updated_at).total == 0 and store.list(until=last).total == 1
    (run,) = store.runs()
    assert first[:19] <= run.started_at[:19] <= run.finished_at[:19] == last[:19]
    assert [one.key for one in store.statistics("day")] == [last[:10]]
    assert {hit.ts[:10] for hit in store.search("hello").hits} == {last[:10]}
    # What is recorded here from now on happens now; it is no old session to remove either.
    assert store.prune(older_than=datetime.timedelta(days=1)).sessions == ()
    session_id = found.report.session_id
    with store.open(session_id, workspace=tmp_path) as session, session.run("go on") as more:
        more.assistant("yes")
    (row,) = store.list().rows
    assert row.active_at == row.updated_at


@pytest.mark.parametrize("name", ["codex", "pi", "claude-code"])
def test_imported_session_is_forked_at_each_of_its_events(name: str, tmp_path: Path) -> None:
    used = [claude_block("b", "a", "m1", claude_use(one), stop="tool_use") for one in ("c1", "c2")]
    lines: dict[str, Lines] = {
        "codex": [
            *(codex_meta(), *codex_turn("hello", "hi"), codex_message("user", "more")),
            *(codex_call("c1"), codex_call("c2"), codex_output("c2", "x")),
        ],
        "pi": [
            *(PI_HEADER, pi_user("a", None, "hello"), pi_reply("b", "a", "hi", calls=("c1", "c2"))),
            pi_result("c", "b", "c2", "x"),
        ],
        "claude-code": [
            claude_user("a", None, "hello"),
            *used,
            claude_result("d", "b", "c2", "x"),
        ],
    }
    store = Store(tmp_path / "store")
    found = Imported(store, write(tmp_path / "rollout-1.jsonl", lines[name]))
    with found.open() as session:
        last = session.last_seq
        before = list(session.open_calls)
    assert [call.call_id for call in before] == ["c1"]
    for seq in range(1, last + 1):
        made = store.make_fork(found.report.session_id, at_seq=seq)
        with store.open(made) as fork:
            assert {call.status for call in fork.open_calls} <= {"not_started"}
            fork.context().anthropic()
    with store.open(made, mode="read") as fork:
        (call,) = (one for one in fork.state.tool_states.values() if one.call_id == "c1")
    assert call.decision == "abandoned" and "not known before the fork" in call.reason


def test_export_of_an_imported_session_is_imported_with_the_times_it_happened(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "store")
    lines = codex_turn("hello", "hi")
    found = Imported(store, write(tmp_path / "rollout-1.jsonl", [codex_meta(), *lines]))
    file = tmp_path / "export.jsonl"
    path = os.path.join(store.path, found.report.session_id)
    file.write_text(exports.exported(jsonl.write, path))
    again = Imported(Store(tmp_path / "again"), file)
    times = []
    for one in (found, again):
        with one.open() as session:
            times.append([(run.started_at, run.finished_at) for run in session.runs])
    assert times[0] == times[1] and times[0][0][0][:10] == lines[0]["timestamp"][:10]
    assert again.store.list().rows[0].active_at == store.list().rows[0].active_at


@pytest.mark.parametrize("is_compressed", [False, True], ids=["plain", "zst"])
def test_file_that_becomes_shorter_while_it_is_read_is_told(
    is_compressed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_file, "CHUNK", 4096)
    lines = [codex_meta(), *(codex_message("user", os.urandom(50).hex()) for _ in range(500))]
    path = write(tmp_path / "rollout-2026-02-03T09-00-00-x.jsonl", lines)
    if is_compressed:
        data = zstandard.ZstdCompressor().compress(path.read_bytes())
        path = path.with_suffix(".jsonl.zst")
        path.write_bytes(data)
    seen = 0

    def cut_off(size: int) -> None:
        nonlocal seen
        seen += size
        if seen > 30_000:
            os.truncate(path, 20_000)

    store = Store(tmp_path / "store")
    report = import_file(store, str(path), on_progress=cut_off)
    assert "became shorter while it was read" in report.problem and not report.is_whole
    assert report.lines < len(lines)


def test_file_that_becomes_shorter_before_a_line_is_read_again_is_told(tmp_path: Path) -> None:
    filler = [pi_reply(f"f{n}", f"f{n - 1}" if n else "b", "x" * 1000) for n in range(2000)]
    lines = [
        PI_HEADER,
        pi_user("a", None, "go"),
        pi_reply("b", "a", "left"),
        pi_user("c", None, "anew"),
        *filler,
        pi_user("z", "c", "back"),
    ]
    path = write(tmp_path / "s.jsonl", lines)
    # Its beginning is read twice.
    seen, last = 0, path.stat().st_size + foreign_file.CHUNK

    def cut_off(size: int) -> None:
        nonlocal seen
        seen += size
        if seen == last:
            os.truncate(path, 200)

    with pytest.raises(StorageError, match="became shorter while it was read"):
        import_file(Store(tmp_path / "store"), str(path), on_progress=cut_off)


@pytest.mark.parametrize("form", ["pi", "claude-code"])
def test_line_that_is_another_one_when_it_is_read_again_is_told(form: str, tmp_path: Path) -> None:
    """What it said would be missing behind the branch."""
    lines: Lines
    if form == "pi":
        filler = [pi_reply(f"f{n}", f"f{n - 1}" if n else "b", "x" * 1000) for n in range(2000)]
        lines = [PI_HEADER, pi_user("a", None, "go"), pi_reply("b", "a", "left")]
        lines += [pi_user("c", None, "anew"), *filler, pi_user("z", "c", "back")]
    else:
        filler = [claude_user(f"f{n}", f"f{n - 1}" if n else "a", "x" * 1000) for n in range(2000)]
        lines = [claude_user("a", None, "go"), claude_user("c", None, "anew")]
        lines += [*filler, claude_user("z", "c", "back")]
    path = write(tmp_path / "s.jsonl", lines)
    seen, last = 0, path.stat().st_size + foreign_file.CHUNK

    def change(size: int) -> None:
        nonlocal seen
        seen += size
        if seen == last:
            content = path.read_bytes()
            begin = content.rindex(b"\n", 0, content.index(b"anew")) + 1
            with path.open("r+b") as file:
                file.seek(begin)
                file.write(b"#")

    with pytest.raises(StorageError, match=r"s\.jsonl: line \d+ changed while the file was read"):
        import_file(Store(tmp_path / "store"), str(path), on_progress=change)


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize(
    "lines",
    [GROWING["pi"], GROWING["codex"], GROWING["codex"][:-3], GROWING["claude-code"][:4]],
    ids=["pi", "codex", "codex-open", "claude-code-open"],
)
def test_import_that_was_killed_between_two_writes_at_the_end_of_the_file_is_taken_up(
    lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "foreign" / "s.jsonl", lines)
    whole = Imported(Store(tmp_path / "whole"), path)
    writes = 0
    real = recording.Recording.write

    def write_some(made: recording.Recording, position: recording.Position) -> None:
        nonlocal writes
        real(made, position)
        writes -= 1
        if writes == 0:
            raise Killed

    monkeypatch.setattr(recording, "BATCH_EVENTS", 1)
    monkeypatch.setattr(recording.Recording, "write", write_some)
    for kept in range(1, 60):
        writes = kept
        store = Store(tmp_path / f"{kept}")
        with contextlib.suppress(Killed):
            import_file(store, str(path))
        was_killed = writes == 0
        writes = 0
        again = Imported(store, path)
        assert again.said() == whole.said()
        assert [one.status for one in again.calls()] == [one.status for one in whole.calls()]
        assert again.runs() == whole.runs()
        events = again.types()
        assert again.again().lines == 0 and again.types() == events
        if not was_killed:
            return
    raise AssertionError("it never came to its end")
