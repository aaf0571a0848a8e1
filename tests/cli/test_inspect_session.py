"""`durasess inspect` of a session of agents: its runs, calls and recovery, and the next context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from durasess import Engine
from durasess.cli import session_next
from durasess.cli.main import main
from durasess.errors import SessionClosedError
from durasess.session.session import Session
from durasess.store.store import Store
from tests.cli import sessions
from tests.cli.sessions import inspect
from tests.cli.test_inspect import tree

KEY = "sk-" + "0123456789abcdefghij"


def make_store(below: Path, **options: Any) -> Store:
    """A store whose clock goes on by a quarter of a second each time."""
    now = [1_700_000_000 * 10**9]

    def clock() -> int:
        now[0] += 250_000_000
        return now[0]

    return Store(below / "sessions", clock=clock, **options)


def crash(session: Session, request: str, *calls: str) -> None:
    """A run that starts the first of these calls, when the process is killed."""
    run = session.run(request).start()
    asked = [{"call_id": name, "name": name, "arguments": {"to": "prod"}} for name in calls]
    run.assistant("", tool_calls=asked)
    run.tool(calls[0]).start()
    session.abandon()


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A session with a finished run and one that was killed in a call."""
    (tmp_path / "project").mkdir()
    store = make_store(tmp_path)
    session = store.create("s1", workspace=tmp_path / "project", model="m-1", labels={"t": "T-7"})
    with session.run("fix the login bug") as run:
        asked = [{"call_id": "c1", "name": "read_file", "arguments": {"path": "login.py"}}]
        run.assistant("Reading.", tool_calls=asked, usage={"prompt_tokens": 812})
        with run.tool("c1") as call:
            call.result("print()")
        with run.child(session_id="s1-child") as child, child.run("look it up") as inner:
            inner.assistant("done")
        run.assistant("Fixed.")
    session.set_state("plan", {"step": 1})
    session.set_checkpoint(next="deploy")
    session.set_task(goal="a login that works", pending=["deploy"])
    session.compact("The login bug was fixed.")
    crash(session, "deploy it", "deploy", "read_log")
    return tmp_path / "sessions/s1"


def statuses(session: dict[str, Any]) -> dict[str, str]:
    """Call id → status, of the calls in runs."""
    return {call["call_id"]: call["status"] for run in session["runs"] for call in run["calls"]}


def test_killed_session_as_people_see_it_stays_as_it_was(
    killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(killed.parent)
    assert main(["inspect", str(killed)]) == 0
    text = capsys.readouterr().out
    assert tree(killed.parent) == before
    shown = text[text.index("\ntitle") + 1 : text.index("\nsegment ")]
    sessions.assert_expected("inspect-session", shown, killed.parents[1])


def test_what_is_pending_is_what_the_next_writer_writes(
    killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = inspect(capsys, killed)["session"]
    told = [(one["type"], one["data"]) for one in session["recovery"]["pending"]]
    with make_store(killed.parents[1]).open("s1") as opened:
        written = [(one.type, one.data) for one in opened.events(after=session["seq"])]
    assert told == written and len(told) == 3


def test_write_that_was_cut_off_is_told_as_the_next_writer_tells_it(
    killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = max(killed.glob("events_*.jsonl"))
    end = len(newest.read_bytes().rstrip(b"\t"))
    with newest.open("r+b") as file:
        file.seek(end)
        seq = inspect(capsys, killed)["session"]["seq"]
        file.write(b'{"seq":%d,"ts":"2026' % (seq + 1))
    told = [one["data"] for one in inspect(capsys, killed)["session"]["recovery"]["pending"]]
    with make_store(killed.parents[1]).open("s1") as opened:
        written = [one.data for one in opened.events(after=seq)]
    assert told == written and "cut off" in told[-1]["gaps"][0]


def test_child_that_was_cut_off_too_is_looked_at_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = make_store(tmp_path).create("s1")
    run = parent.run("work").start()
    with pytest.raises(SessionClosedError), run.child(session_id="s2") as child:
        child.run("look it up").start()
        child.abandon()
        parent.abandon()
    before = tree(tmp_path)
    pending = inspect(capsys, tmp_path / "sessions/s1")["session"]["recovery"]["pending"]
    assert tree(tmp_path) == before
    assert [one["type"] for one in pending] == ["child_finished", "run_finished"]
    assert pending[0]["data"]["status"] == "interrupted"


def test_child_whose_id_another_session_has_was_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = make_store(tmp_path)
    store.create("s2").close()
    parent = store.create("s1")
    run = parent.run("work").start()
    parent.core.engine.append("child_started", {"session_id": "s2"}, run_id=run.run_id)
    parent.abandon()
    session = inspect(capsys, tmp_path / "sessions/s1")["session"]
    told = [(one["type"], one["data"]) for one in session["recovery"]["pending"]]
    with store.open("s1") as opened:
        written = [(one.type, one.data) for one in opened.events(after=session["seq"])]
    assert told == written and told[0][1]["status"] == "not_made"


def test_child_of_no_run_that_is_left_is_the_live_writers_to_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_store(tmp_path).create("s1", mode="shared") as session:
        session.core.engine.append("child_started", {"session_id": "s2"}, run_id="run_0")
        recovery = inspect(capsys, tmp_path / "sessions/s1")["session"]["recovery"]
    assert recovery["pending"] == []


def test_context_is_that_of_the_next_writer_and_consumes_nothing(
    killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(killed.parent)
    context = inspect(capsys, killed, "--context", "--format", "openai")["context"]
    assert tree(killed.parent) == before
    with make_store(killed.parents[1]).open("s1") as opened:
        expected = opened.context()
    assert context["request"] == expected.openai()
    assert (context["tokens"], context["recovered"]) == (expected.tokens, 3)


@pytest.mark.parametrize(
    ("form", "keys"),
    [
        ("neutral", ["system", "messages"]),
        ("openai-responses", ["instructions", "input"]),
        ("anthropic", ["system", "messages"]),
    ],
)
def test_context_has_the_form_that_was_asked_for(
    form: str, keys: list[str], killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = inspect(capsys, killed, "--context", "--format", form)["context"]
    assert list(context["request"]) == keys


def test_context_with_a_budget_leaves_out_older_turns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_store(tmp_path).create("s1") as session:
        for n in range(6):
            with session.run(f"request {n} " + "word " * 100) as run:
                run.assistant("done")
    path = tmp_path / "sessions/s1"
    context = inspect(capsys, path, "--context", "--max-tokens", "400")["context"]
    assert 0 < context["tokens"] <= 400 and context["left_out"]["turns"] > 0


def test_messages_that_are_only_in_the_log_are_in_the_context(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_store(tmp_path, resident_messages=4).create("s1") as session:
        for n in range(12):
            with session.run(f"request {n}") as run:
                run.assistant("done")
        session.snapshot()
        expected = session.context().openai()
    context = inspect(capsys, tmp_path / "sessions/s1", "--context", "--format", "openai")
    assert context["session"]["older_since"] > 0
    assert context["context"]["request"] == expected


def test_large_value_is_in_the_context_and_its_loss_is_told(
    killed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_store(tmp_path).create("big") as session, session.run("x" * 100_000) as run:
        run.assistant("long")
    path = tmp_path / "sessions/big"
    context = inspect(capsys, path, "--context")["context"]
    assert context["request"]["messages"][0]["content"] == "x" * 100_000
    (blob,) = (path / "blobs").iterdir()
    kept = blob.read_bytes()
    blob.unlink()
    context = inspect(capsys, path, "--context")["context"]
    assert "shown as a reference" in context["remarks"][0] and context["request"]["messages"]
    blob.write_bytes(kept)


def test_session_held_by_a_writer_has_nothing_pending(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_store(tmp_path).create("s1") as session, session.run("work") as run:
        run.assistant("", tool_calls=[{"call_id": "c", "name": "t", "arguments": {}}])
        with run.tool("c") as call:
            before = tree(tmp_path)
            shown = inspect(capsys, tmp_path / "sessions/s1", "--context")
            after = tree(tmp_path)
            call.result("ok")
    assert after == before
    assert shown["session"]["recovery"]["pending"] == []
    assert statuses(shown["session"]) == {"c": "running"}


def test_live_worker_that_shares_the_session_is_not_dead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_store(tmp_path).create("s1", mode="shared") as session, session.run("work") as run:
        run.assistant("half")
        shown = inspect(capsys, tmp_path / "sessions/s1")["session"]
    assert shown["runs"][0]["status"] == "running" and not shown["recovery"]["pending"]


def test_state_at_a_seq_needs_no_reducer(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = inspect(capsys, killed, "--at", "5")["at"]
    assert at["known"] and at["state"]["seq"] == 5
    with make_store(killed.parents[1]).open("s1", mode="read") as opened:
        last = opened.state
    at = inspect(capsys, killed, "--at", str(last.seq))["at"]
    assert msgspec.convert(at["state"], type(last)) == last


def test_difference_needs_no_reducer(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diff = inspect(capsys, killed, "--diff", "3", "4")["diff"]
    assert diff["known"] and any(one["path"] == "$.seq" for one in diff["changes"])


def test_events_of_the_program_are_told_to_be_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_store(tmp_path).create("s1") as session:
        session.emit("my_event", {"n": 1})
        session.abandon()
    path = tmp_path / "sessions/s1"
    report = inspect(capsys, path, "--at", "2")
    assert "(my_event) were passed over" in report["session"]["remarks"][0]
    assert "(my_event) were passed over" in report["at"]["remarks"][0]


def test_many_runs_are_cut_to_the_newest_with_their_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_store(tmp_path).create("s1") as session:
        for n in range(30):
            with session.run(f"request {n}") as run:
                call = {"call_id": f"c{n}", "name": "t", "arguments": {}}
                run.assistant("", tool_calls=[call])
                with run.tool(f"c{n}") as tool:
                    tool.result(n)
    path = tmp_path / "sessions/s1"
    for more, shown in (([], 20), (["--runs", "3"], 3), (["--runs", "25"], 25), (["--all"], 30)):
        report = inspect(capsys, path, *more)["session"]
        assert [run["request"] for run in report["runs"]] == [
            f"request {n}" for n in range(30 - shown, 30)
        ]
        assert list(statuses(report)) == [f"c{n}" for n in range(30 - shown, 30)]
        assert report["runs_left_out"] == 30 - shown
        assert report["runs"][0]["calls"][0]["seconds"] > 0


def test_calls_whose_messages_left_the_state_are_shown_with_their_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_store(tmp_path, resident_messages=2).create("s1") as session:
        with session.run("a long one") as run:
            for n in range(12):
                run.assistant("", tool_calls=[{"call_id": f"c{n}", "name": "t", "arguments": {}}])
                with run.tool(f"c{n}") as call:
                    call.result(n)
        session.snapshot()
    (run_look,) = inspect(capsys, tmp_path / "sessions/s1")["session"]["runs"]
    assert [one["status"] for one in run_look["calls"]] == ["completed"] * 12
    assert all(one["seconds"] > 0 for one in run_look["calls"])


def test_call_that_ended_long_after_its_message_left_the_state_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_store(tmp_path).create("s1") as session, session.run("wait") as run:
        run.assistant("", tool_calls=[{"call_id": "c", "name": "t", "arguments": {}}])
        with run.tool("c") as call:
            for n in range(300):
                run.user(f"still there? {n}")
            call.result("late")
    assert statuses(inspect(capsys, tmp_path / "sessions/s1")["session"]) == {"c": "completed"}


def test_workspace_that_is_gone_is_told(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (killed.parents[1] / "project").rmdir()
    assert inspect(capsys, killed)["session"]["workspace"]["exists"] is False
    main(["inspect", str(killed), "--context"])
    text = capsys.readouterr().out
    assert "is not there; give workspace=" in text and "is not there." in text


def test_damage_in_the_middle_shows_the_state_before_it(
    killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for one in killed.glob("snapshot*"):
        one.unlink()
    segment = killed / "events_0001.jsonl"
    sessions.flip(segment, segment.read_bytes().index(b'"run_started"') + 3)
    before = tree(killed)
    report = inspect(capsys, killed, "--context", "--all")
    assert tree(killed) == before and report["health"] == "damage"
    assert report["session"]["runs"] == []
    assert "cannot be read, and nothing behind it is folded" in report["session"]["remarks"][0]


def test_first_event_lost_shows_the_engines_part_and_says_why(
    killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for one in killed.glob("snapshot*"):
        one.unlink()
    segment = killed / "events_0001.jsonl"
    sessions.flip(segment, segment.read_bytes().index(b'"session_created"') + 3)
    report = inspect(capsys, killed)
    assert report["session"] is None and report["segments"]
    assert "its first event cannot be read" in report["session_problem"]


def test_pruned_session_is_known_by_its_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_store(tmp_path).create("s1", title="mine") as session:
        for n in range(3):
            with session.run(f"request {n}") as run:
                run.assistant("done")
            session.snapshot()
        session.prune()
    path = tmp_path / "sessions/s1"
    assert not (path / "events_0001.jsonl").exists()
    meta = (path / "meta.json").read_bytes()
    (path / "meta.json").unlink()
    session_look = inspect(capsys, path, "--all")["session"]
    assert session_look["identity"]["title"] == "mine" and len(session_look["runs"]) == 3
    (path / "meta.json").write_bytes(meta)


def hostile(path: Path, *events: tuple[str, Any]) -> Path:
    """A session whose events somebody else wrote."""
    with Engine.open(path, schema_version=2) as engine:
        engine.append("session_created", {"title": "odd"})
        for kind, data in events:
            engine.append(kind, data, run_id="r", call_id="c")
    return path


def test_events_with_foreign_data_are_counted_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd: list[Any] = [None, 7, [], {"key": 3}, {"tool_calls": 1}, {"request": {"a": []}}]
    kinds = ["run_started", "assistant_message", "tool_started", "tool_result", "tool_recovery"]
    path = hostile(tmp_path / "s", *((kind, data) for kind in kinds for data in odd))
    report = inspect(capsys, path, "--context", "--all", "--at", "9")
    assert report["session_problem"] is None
    assert report["session"]["counts"]["unreadable"] > 0


@pytest.mark.parametrize("state", [{"runs": 7}, {}])
def test_snapshot_that_is_no_session_state_is_passed_over_and_told(
    state: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    with Engine.open(path, initial=lambda: state, schema_version=2) as engine:
        engine.append("session_created", {"title": "odd"})
        engine.snapshot()
    report = inspect(capsys, path, "--at", "1")
    assert report["session"]["identity"]["title"] == "odd"
    assert "was not used" in report["session"]["remarks"][0]
    assert "cannot be used" in report["at"]["remarks"][0]


def test_error_in_the_making_leaves_the_engines_part(
    killed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: Any, **more: Any) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr(session_next, "recovery_drafts", fails)
    report = inspect(capsys, killed)["session"]
    assert report["runs"] and "odd" in report["recovery"]["remarks"][0]
    monkeypatch.setattr("durasess.cli.session_runs.newest_runs", fails)
    report = inspect(capsys, killed, "--context")
    assert report["session"] is None and "odd" in report["session_problem"]
    assert report["segments"] and report["context"]["request"]
    assert main(["inspect", str(killed)]) == 1, "what cannot be shown as a session is not sound"


def test_self_check_that_fails_is_damage_by_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = hostile(tmp_path / "s", ("checkpoint", {"dispatched": 99}))
    assert main(["inspect", str(path)]) == 1
    assert "self-check\n  the checkpoint at seq 99 lies behind" in capsys.readouterr().out


def test_older_schema_version_is_migrated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    with Engine.open(path, schema_version=1) as engine:
        engine.append("session_created", {"title": "old"})
        engine.append("usage_recorded", {"input_tokens": 5, "output_tokens": 2})
        engine.abandon()
    report = inspect(capsys, path, "--at", "2")
    assert report["session"]["usage"]["total"] == 7
    assert report["at"]["state"]["usage"]["total"] == 7


def test_runs_of_an_older_schema_version_are_migrated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    with Engine.open(path, schema_version=1) as engine:
        engine.append("session_created", {"title": "old"})
        for n in range(25):
            engine.append("run_started", {"request": "go"}, run_id=f"r{n}")
            said = {"content": "ok", "input_tokens": 5, "output_tokens": 2}
            engine.append("assistant_message", said, run_id=f"r{n}")
            engine.append("run_finished", {"status": "succeeded"}, run_id=f"r{n}")
        engine.abandon()
    runs = inspect(capsys, path, "--all")["session"]["runs"]
    assert [run["usage"]["total"] for run in runs] == [7] * 25


def test_secrets_are_masked_in_session_and_context(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_store(tmp_path, mask=None).create("s1", title=f"key {KEY}") as session:
        crash(session, f"use {KEY}", f"t-{KEY}")
    path = tmp_path / "sessions/s1"
    for more in ([], ["--json"]):
        main(["inspect", str(path), "--context", "--at", "1", "--diff", "1", "2", *more])
        text = capsys.readouterr().out
        assert KEY not in text and "[masked]" in text
    main(["inspect", str(path), "--context", "--show-secrets"])
    assert KEY in capsys.readouterr().out


def test_other_events_have_no_session_and_no_context(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sessions.copy("clean", tmp_path)
    report = inspect(capsys, path)
    assert report["session"] is None and report["session_problem"] is None
    assert main(["inspect", str(path), "--context"]) == 2
    assert "--context is for sessions of agents" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    [["--context", "3"], ["--max-tokens", "9"], ["--format", "openai"], ["--runs", "0"]],
)
def test_options_that_make_no_sense_are_status_2(
    more: list[str], killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(killed), *more]) == 2


def test_id_stands_for_the_session_in_the_default_store(
    killed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DURASESS_HOME", str(killed.parent))
    monkeypatch.chdir(killed.parents[1])
    for verb in ("inspect", "verify", "repair"):
        main([verb, "s1", "--json"])
        assert str(killed) in capsys.readouterr().out
    assert main(["inspect", "s2"]) == 3
    assert f"none in the store: {killed.parent}" in capsys.readouterr().err


def test_path_that_is_there_goes_before_an_id(
    killed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = sessions.copy("clean", killed.parents[1])
    sessions.copy("clean", killed.parent)
    monkeypatch.setenv("DURASESS_HOME", str(killed.parent))
    monkeypatch.chdir(here.parent)
    assert inspect(capsys, Path(here.name))["path"] == str(here)


def test_json_has_every_key_also_of_empty_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_store(tmp_path).create("s1").close()
    session = inspect(capsys, tmp_path / "sessions/s1")["session"]
    assert session["usage"] == {"prompt": 0, "completion": 0, "total": 0, "cost": 0.0}
    assert session["checkpoint"] == {"dispatched": 0, "next": None, "seq": 0}
    assert session["runs"] == [] and session["recovery"]["notice"] is None
