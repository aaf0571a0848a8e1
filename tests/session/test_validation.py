"""What a session refuses: nothing is written, and the message says what is wrong and what to do."""

import os

import pytest

from durasess import EventRejectedError, SessionClosedError, SessionNotFoundError
from durasess.store.store import Store
from tests.support.harness import ask, begin_run, in_process, start_call, store_at


def in_run(session):
    return begin_run(session, "c")


def running(session):
    start_call(in_run(session), "c")


def ended(session):
    with session.run("do it") as run:
        ask(run, "c")
        with run.tool("c") as call:
            call.result("ok")


def waiting(session):
    in_run(session).ask_approval("c")


def uncertain(session):
    run = in_run(session)
    with run.tool("c") as call:
        call.unknown("it hung")


def nothing(session):
    pass


def compacted(session):
    ended(session)
    session.compact("S", through=4)


def with_child(session):
    session.emit("child_started", {"session_id": "kid"})


def once_running(session):
    session.emit("tool_started", {"detached": True, "operation_id": "op", "name": "deploy"})


def emit(type, data=None, **ids):
    return lambda session: session.emit(type, data, **ids)


REFUSALS = {
    "result of a call nobody asked for": (
        in_run,
        emit("tool_result", {"output": 1}, call_id="zz"),
        ["'zz'", "no message asked for", "known: c"],
    ),
    "answer to a call nobody asked for": (
        nothing,
        lambda s: s.answer("zz", 1),
        ["'zz'", "known: none"],
    ),
    "result twice": (ended, lambda s: s.answer("c", 1), ["completed", "one result"]),
    "start of a call nobody asked for": (
        in_run,
        emit("tool_started", {}, run_id="run_1", call_id="q"),
        ["'q'"],
    ),
    "start twice": (
        running,
        emit("tool_started", {}, run_id="run_1", call_id="c"),
        ["running", "started once"],
    ),
    "start of an ended call": (ended, emit("tool_started", {}, call_id="c"), ["completed"]),
    "start while it waits": (
        waiting,
        emit("tool_started", {}, call_id="c"),
        ["waiting for approval"],
    ),
    "start of what is uncertain": (
        uncertain,
        emit("tool_started", {}, call_id="c"),
        ["uncertain", "settle"],
    ),
    "start outside of its run": (
        in_run,
        emit("tool_started", {}, run_id="r9", call_id="c"),
        ["'r9'", "run_1"],
    ),
    "success of what waits for approval": (waiting, lambda s: s.answer("c", 1), ["decide first"]),
    "approval nobody asked for": (
        in_run,
        lambda s: s.approve("c"),
        ["pending", "waits for no approval"],
    ),
    "approval of a running call": (
        running,
        emit("approval_requested", {}, call_id="c"),
        ["running"],
    ),
    "callback before the start": (
        in_run,
        emit("callback_requested", {}, call_id="c"),
        ["start it first"],
    ),
    "outcome nobody knows": (
        running,
        emit("tool_recovery", {"outcome": "odd"}, call_id="c"),
        ["'odd'", "use one of"],
    ),
    "rerun of a running call": (
        running,
        emit("tool_recovery", {"outcome": "rerun"}, call_id="c"),
        ["running"],
    ),
    "not_started of a started call": (
        running,
        emit("tool_recovery", {"outcome": "not_started"}, call_id="c"),
        ["running"],
    ),
    "run inside a run": (
        in_run,
        lambda s: s.run("more").__enter__(),
        ["run_1", f"process {os.getpid()}", "finish it first"],
    ),
    "run id with a path": (
        nothing,
        lambda s: s.run("x", run_id="a/../b").__enter__(),
        ["'a/../b'", "128 letters"],
    ),
    "run id that is empty": (nothing, emit("run_started", {"request": "x"}), ["no name"]),
    "run id used before": (
        ended,
        lambda s: s.run("x", run_id="run_1").__enter__(),
        ["run_1 before"],
    ),
    "run in an archived session": (
        lambda s: s.archive(),
        lambda s: s.run("x").__enter__(),
        ["archived", '"active"'],
    ),
    "resuming when nothing was": (
        nothing,
        lambda s: s.resume_run().__enter__(),
        ["not the last run"],
    ),
    "resuming a success": (ended, lambda s: s.resume_run().__enter__(), ["succeeded"]),
    "end of no run": (
        nothing,
        emit("run_finished", {"status": "failed"}, run_id="r"),
        ["no run is going on"],
    ),
    "end as running": (
        in_run,
        emit("run_finished", {"status": "running"}, run_id="run_1"),
        ["finish as running"],
    ),
    "end without a name": (in_run, emit("run_finished", {"status": "failed"}), ["no run_id"]),
    "message to another run": (
        in_run,
        emit("user_message", {"content": "x"}, run_id="r7"),
        ["'r7'", "run_1"],
    ),
    "message without content": (in_run, emit("user_message", {"text": "x"}), ["content"]),
    "arguments that are a list": (
        in_run,
        lambda s: s.core.run(_reply([{"call_id": "k", "name": "n", "arguments": [1]}])),
        ["list", "object"],
    ),
    "arguments that are no JSON": (in_run, lambda s: ask_with(s, {"a": object()}), ["object", "$"]),
    "arguments with odd keys": (in_run, lambda s: ask_with(s, {1: 2}), ["key"]),
    "a call without a name": (in_run, lambda s: ask_with(s, {}, name=""), ["no name"]),
    "too many calls": (
        in_run,
        emit("assistant_message", {"tool_calls": [{"call_id": "k", "name": "n"}] * 1025}),
        ["1025", "1024"],
    ),
    "negative usage of a reply": (
        in_run,
        emit("assistant_message", {"usage": {"prompt": -1}}),
        ["-1", "0 or more"],
    ),
    "negative usage": (
        nothing,
        lambda s: s.record_usage({"prompt_tokens": -3}),
        ["-3", "0 or more"],
    ),
    "usage that is no number": (
        nothing,
        lambda s: s.record_usage({"prompt_tokens": "many"}),
        ["'many'"],
    ),
    "infinite usage": (nothing, lambda s: s.record_usage({"cost": float("inf")}), ["inf"]),
    "compaction across an open call": (
        running,
        lambda s: s.compact("S", through=4),
        ["'c'", "running", "before it"],
    ),
    "compaction of the future": (ended, lambda s: s.compact("S", through=99), ["no seq 99"]),
    "compaction of the compacted": (
        compacted,
        lambda s: s.compact("S", through=3),
        ["up to seq 4", "later seq"],
    ),
    "compaction of nothing": (nothing, lambda s: s.compact("S"), ["no message"]),
    "rewind during a run": (in_run, lambda s: s.rewind(1), ["run_1", "finish it"]),
    "rewind to the future": (ended, lambda s: s.rewind(99), ["seq 99"]),
    "rewind to nothing": (ended, lambda s: s.rewind(0), ["seq 0"]),
    "checkpoint in the future": (nothing, lambda s: s.set_checkpoint(dispatched=99), ["no seq 99"]),
    "session made twice": (nothing, emit("session_created", {}), ["first event"]),
    "child started twice": (
        with_child,
        emit("child_started", {"session_id": "kid"}),
        ["'kid'", "another id"],
    ),
    "child with a path": (nothing, emit("child_started", {"session_id": "../kid"}), ["'../kid'"]),
    "child that is the session itself": (
        nothing,
        lambda s: s.child(session_id="s").__enter__(),
        ["'s'", "itself"],
    ),
    "end of no child": (
        nothing,
        emit("child_finished", {"session_id": "k", "status": "failed"}),
        ["no child 'k'"],
    ),
    "a type that is no name": (nothing, emit("a b"), ["'a b'", "letters"]),
    "data that is no object": (nothing, emit("note", ["x"]), ["note"]),
    "half a character for a word": (
        in_run,
        emit("run_finished", {"status": "\ud800"}, run_id="run_1"),
        ["the data of run_finished"],
    ),
    "newer version of own events": (
        nothing,
        emit("custom_schema_changed", {"version": 2}),
        ["version 2"],
    ),
    "start of an operation that runs already": (
        once_running,
        emit("tool_started", {"detached": True, "operation_id": "op", "name": "deploy"}),
        ["'op'", "running", "settle it first"],
    ),
    "older version of own events": (
        nothing,
        emit("custom_schema_changed", {"version": 0}),
        ["version 0"],
    ),
    "a credential in the config": (
        nothing,
        lambda s: s.configure(api_key="sk-" + "a" * 40),
        ["api_key", "credential"],
    ),
}


def _reply(calls):
    from durasess.session.core import Emission, draft
    from durasess.session.event_data import RecordedCall
    from durasess.session.events import AssistantMessage

    def operation():
        data = AssistantMessage(tool_calls=[RecordedCall(**one) for one in calls])
        yield Emission([draft(data)])

    return operation()


def ask_with(session, arguments, name="work"):
    calls = [{"call_id": "k", "name": name, "arguments": arguments}]
    session.core.run(_reply(calls))


@pytest.mark.parametrize("name", REFUSALS)
def test_refused_and_nothing_written(tmp_path, name):
    prepare, act, words = REFUSALS[name]
    with store_at(tmp_path).create("s") as session:
        prepare(session)
        before = session.last_seq
        with pytest.raises(EventRejectedError) as caught:
            act(session)
        assert session.last_seq == before
        assert all(word in str(caught.value) for word in [*words, "Nothing was written"])
        session.note("the handle lives")


def test_run_inside_a_run_of_another_process_names_that_one(tmp_path):
    store = store_at(tmp_path)
    with store.create("s", mode="shared") as session:
        in_run(session)
        said = in_process(
            """
            try:
                with Store(argv[0]).open("s", mode="shared") as session:
                    session.run("more").__enter__()
            except Exception as error:
                print(type(error).__name__, error)
            """,
            store.path,
        )
    assert "EventRejectedError" in said
    assert f"process {os.getpid()}" in said


def test_run_inside_a_run_of_another_handle_is_refused(tmp_path):
    store = store_at(tmp_path)
    with store.create("s", mode="shared") as one, store.open("s", mode="shared") as other:
        in_run(one)
        with pytest.raises(EventRejectedError, match="run_1 is going on"):
            other.run("more").__enter__()


def test_event_after_close_says_to_open_again(tmp_path):
    session = store_at(tmp_path).create("s")
    session.close()
    with pytest.raises(SessionClosedError, match="Open the session again"):
        session.note("late")


BAD_IDS = [
    "..",
    ".",
    "a/b",
    "/etc/x",
    "C:\\x",
    "CON",
    "con.txt",
    "a\0b",
    "x" * 300,
    "",
    "a.",
    "a ",
    ".hid",
    "é",
    "a\nb",
    None,
    7,
    b"s",
]


@pytest.mark.parametrize(
    ("how", "bad"),
    # None asks `create` for a new id.
    [
        (how, bad)
        for how in ("open", "create", "open_or_create")
        for bad in BAD_IDS
        if (how, bad) != ("create", None)
    ],
)
def test_g5_bad_session_id_is_refused_before_any_file_is_touched(tmp_path, bad, how):
    with pytest.raises(SessionNotFoundError, match="is no session id"):
        getattr(Store(tmp_path / "store"), how)(bad)
    assert os.listdir(tmp_path) == []
