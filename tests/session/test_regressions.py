"""What was found by trying to lose work: each test is named after the fault."""

import sys
import threading
from pathlib import Path

import pytest

from durasess import EventRejectedError, OutcomeUnknownError, Store
from durasess.engine.files import RealFiles
from durasess.engine.verify import verify
from durasess.session import usage
from durasess.session.context_ids import legal_ids
from durasess.session.state import Usage
from tests.support import contexts

KEY = "sk-proj-abcdefghij1234567890ABCDEFGH"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def call(name="work", call_id="c", **arguments):
    return {"call_id": call_id, "name": name, "arguments": arguments}


def crash_in(session, *asked):
    """Die while the calls run."""
    run = session.run("do it").start()
    for one in run.assistant("", tool_calls=asked):
        run.tool(one.key).start()
    session.abandon()


def test_run_id_that_the_program_chose_stands_in_no_later_runs_way(store):
    with store.create("s") as session:
        with session.run("one", run_id="run_2"):
            pass
        with session.run("two") as run:
            assert run.run_id == "run_3"


def test_id_that_is_another_calls_key_starts_neither(store):
    with store.create("s") as session, session.run("do it") as run:
        seq = session.last_seq + 1
        swapped = [call("read", f"{seq}.1"), call("delete", f"{seq}.0")]
        run.assistant("", tool_calls=swapped)
        with pytest.raises(EventRejectedError, match="either could be meant"):
            run.tool(f"{seq}.0").start()


def test_calls_of_one_id_in_many_threads_all_run(store):
    with store.create("s") as session, session.run("do it") as run:
        run.assistant("", tool_calls=[call(n=n) for n in range(12)])
        ran = []

        def work():
            with run.tool("c") as running:
                ran.append(running.arguments["n"])
                running.result("done")

        threads = [threading.Thread(target=work) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(ran) == list(range(12))


@pytest.mark.parametrize("reported", [{"prompt_tokens": 1e300}, {"cost": 1.7e308}])
def test_usage_that_no_state_can_hold_is_refused(store, reported):
    with store.create("s") as session, pytest.raises(EventRejectedError, match="at most"):
        session.record_usage(reported)


def test_sum_of_usage_never_leaves_what_a_snapshot_can_hold():
    most = Usage(usage.MOST, usage.MOST, usage.MOST, sys.float_info.max)
    assert usage.plus(most, most) == most


def test_large_answer_of_a_child_is_whole_in_its_parent(store):
    answer = "A" * 200_000
    with store.create("s") as session, session.run("do it") as run:
        with run.child() as child, child.run("sub") as inner:
            inner.assistant(answer)
        (found,) = session.state.children.values()
        assert session.core.resolved(found.result) == answer


def test_large_answer_of_a_child_is_whole_after_both_died(store):
    answer = "A" * 200_000
    session = store.create("s")
    block = session.run("do it").start().child()
    child = block.__enter__()
    with child.run("sub") as inner:
        inner.assistant(answer)
    child.abandon()
    session.abandon()
    with store.open("s") as session:
        (found,) = session.state.children.values()
        assert session.core.resolved(found.result) == answer


def test_verifier_gets_large_arguments_whole(store):
    seen = []
    store.tool("work", verify=lambda one: seen.append(one.arguments["text"]))
    crash_in(store.create("s"), call(text="A" * 200_000))
    store.open("s").close()
    assert seen == ["A" * 200_000]


def test_operation_id_that_looks_like_a_secret_is_refused_and_not_run(store):
    with store.create("s") as session:
        with pytest.raises(EventRejectedError, match="looks like a secret"):
            session.once(f"notify:{KEY}", lambda: pytest.fail("it ran"))
        assert session.open_calls == []


def test_call_whose_id_looks_like_a_secret_runs(store):
    with store.create("s") as session, session.run("do it") as run:
        run.assistant("", tool_calls=[call(call_id=KEY)])
        with run.tool(KEY) as running:
            running.result("done")
        assert running.call.call_id == KEY


def test_workspace_that_looks_like_a_secret_is_found_again(store, tmp_path):
    place = tmp_path / f"work-{KEY}"
    place.mkdir()
    with store.create("s", workspace=place) as session:
        assert session.state.meta.workspace == str(place)


def test_secret_in_pieces_of_a_cut_off_reply_is_in_no_snapshot(store):
    session = store.create("s")
    reply = session.run("do it").start().stream()
    for start in range(0, len(KEY), 9):
        reply.delta(KEY[start : start + 9])
    reply.delta(" is s")
    session.flush()
    session.abandon()
    with store.open("s") as session:
        # What may begin another secret was held back, and is lost.
        assert session.state.messages[-1].content == "sk-[masked] is "


def test_abandoned_operation_is_never_run_again_however_many_came_since(tmp_path: Path):
    store = Store(tmp_path / "store", resident_messages=2)
    with store.create("s") as session:
        with pytest.raises(KeyboardInterrupt):
            session.once("notify", interrupted)
        session.open_calls[0].settle("abandoned")
        for number in range(10):
            session.once(f"other-{number}", lambda: None)
        with pytest.raises(OutcomeUnknownError):
            session.once("notify", lambda: pytest.fail("it ran"))


def interrupted():
    raise KeyboardInterrupt


def test_rewind_behind_an_uncertain_call_still_tells_it(store):
    with store.create("s") as session, session.run("first") as run:
        run.assistant("yes")
        before = session.last_seq
    with store.open("s") as session:
        crash_in(session, call("deploy"))
    with store.open("s") as session:
        session.rewind(to=before)
        assert "UNKNOWN OUTCOME" in session.context().openai()[0]["content"]


def test_masked_call_that_waited_for_approval_does_not_run_with_masks(store):
    with store.create("s") as session:
        run = session.run("do it").start()
        run.assistant("", tool_calls=[call(password="hunter2hunter2")])
        run.ask_approval("c")
    with store.open("s") as session:
        session.approve("c")
        with session.run("go on") as run, pytest.raises(EventRejectedError, match="secrets"):
            run.tool("c").start()


def test_run_whose_end_was_interrupted_twice_does_not_block_the_next(store, monkeypatch):
    with store.create("s") as session:
        run = session.run("one").start()
        with monkeypatch.context() as patch:
            patch.setattr(session.core, "_append", lambda emission: interrupted())
            with pytest.raises(KeyboardInterrupt):
                run.finish()
        with session.run("two"):
            assert [one.status for one in session.runs] == ["interrupted", "running"]


class Counted(str):
    """Counts how often it is asked for a part of itself."""

    looks = 0

    def __getitem__(self, part):
        Counted.looks += 1
        return super().__getitem__(part)


def test_one_id_for_every_call_of_a_long_session_costs_no_square(monkeypatch):
    monkeypatch.setattr(Counted, "looks", 0)
    monkeypatch.setattr("durasess.session.context_ids._ILLEGAL", Legal())
    ids = legal_ids([Counted("call")] * 1000)
    assert len(set(ids)) == 1000
    assert Counted.looks < 5000


class Legal:
    """No id is illegal."""

    def search(self, text):
        return None

    def sub(self, replacement, text):
        return text


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("RESULT " + "x" * 70_000, "RESULT " + "x" * 70_000),
        ({"a": ["RESULT " + "x" * 70_000]}, '{"a":["RESULT ' + "x" * 70_000),
        (["RESULT"] * 40_000, '["RESULT","RESULT"'),
        ([{"type": "dir", "name": "src"}], '[{"type":"dir","name":"src"}]'),
        ({"n": 1}, '{"n":1}'),
        ([{"type": "text", "text": "RESULT"}, PICTURE], "RESULT"),
        (PICTURE, "data:image/png;base64,AAAA"),
    ],
    ids=["text", "object", "huge list", "listing", "small", "parts", "picture"],
)
def test_late_result_is_told_as_it_came_wherever_it_is_stored(tmp_path, output, shown):
    """A large one was told as the reference to it, and a listing as parts that cannot be shown."""
    with Store(tmp_path / "late", resident_messages=4).create("s") as session:
        with session.run("go") as run:
            run.assistant("", tool_calls=[{"call_id": "c", "name": "work", "arguments": {}}])
            call = run.tool("c").start()
            for number in range(9):
                run.user(f"u{number}")
            call.result(output)
        assert contexts.broken(session.context()) == []
        newest = session.context().openai()[-1]["content"]
        told = "".join(
            one["text"] if one["type"] == "text" else one["image_url"]["url"] for one in newest
        )
        assert "late result of the tool call work (c)" in told and shown in told
        assert "$blob" not in told and "not shown" not in told


@pytest.mark.parametrize(("ok", "told"), [(True, "Completed later"), (False, "Failed later")])
@pytest.mark.parametrize("is_started", [True, False])
def test_call_whose_result_came_late_is_told_so_in_its_place(tmp_path, ok, told, is_started):
    """It was told to be of unknown outcome, or never started, and below that its result came."""
    with Store(tmp_path / "late", resident_messages=1).create("s") as session:
        run = session.run("go").start()
        run.assistant("", tool_calls=[call()])
        if is_started:
            run.tool("c").start().unknown("nobody looked")
        run.finish()
        for number in range(3):
            with session.run(f"q{number}") as run:
                run.assistant("a")
        session.answer("c", "RESULT", ok=ok)
        context = session.context()
        assert contexts.broken(context) == []
        results = [one["content"] for one in context.messages if one["role"] == "tool"]
        assert len(results) == 1
        assert results[0].startswith(told)
        assert "RESULT" in str(context.messages[-1]["content"])


def test_summary_made_while_a_reply_is_streamed_tells_what_was_said_before_it(tmp_path):
    """It went behind the reply's first piece: later, what it told was in the contexts once more."""
    with Store(tmp_path / "s", resident_messages=1).create("s") as session:
        run = session.run("q").start()
        reply = run.stream()
        reply.delta("Work")
        run.user("hurry")
        with pytest.raises(EventRejectedError, match="the reply that comes in pieces since seq 3"):
            session.compact("told", through=4)
        session.compact("told")
        assert session.state.compaction.through == 2
        reply.delta("ing")
        run.finish("failed")
        for number in range(3):
            with session.run(f"u{number}"):
                pass
        told = [one["content"] for one in session.context().messages]
        assert told == ["Working", "hurry", "u0", "u1", "u2"]


@pytest.mark.parametrize("resident", [1, 200])
def test_messages_that_only_the_log_has_are_compacted_before_an_open_call(tmp_path, resident):
    """It was refused: of what the state held, nothing could go."""
    with Store(tmp_path / "s", resident_messages=resident).create("s") as session:
        for number in range(4):
            with session.run(f"u{number}") as run:
                run.assistant(f"a{number}")
        run = session.run("now").start()
        run.assistant("asks", tool_calls=[call()])
        session.compact("told")
        assert [one["content"] for one in session.context().messages][:-1] == ["asks"]
        with pytest.raises(EventRejectedError, match="no message can be compacted"):
            session.compact("more")


REFERENCE = {"$blob": {"hash": "a" * 64, "size": 5, "kind": "text"}}


@pytest.mark.parametrize(
    "write",
    [
        lambda session: session.configure(x=REFERENCE, y=[{"z": REFERENCE}]),
        lambda session: session.emit("note", {"text": "t", "newer": REFERENCE}),
        lambda session: session.set_state("x", REFERENCE),
        lambda session: session.set_task(pending=[REFERENCE]),
    ],
    ids=["config", "field of a newer version", "state", "task"],
)
def test_value_with_the_form_of_a_reference_is_no_damage_wherever_it_stands(tmp_path, write):
    """`verify` missed a blob that nobody had stored."""
    with Store(tmp_path / "s").create("s") as session:
        write(session)
        *_, newest = session.events()
        written = session.resolved(newest.data)
        session.snapshot()
        config = session.resolved(session.state.runtime_config)
    assert str(REFERENCE) in str(written)
    assert config in ({}, {"x": REFERENCE, "y": [{"z": REFERENCE}]})
    assert verify(str(tmp_path / "s" / "s"), files=RealFiles()).damage == []


def test_name_that_makes_a_reference_of_what_holds_it_is_refused(store):
    with pytest.raises(EventRejectedError, match="no name for a value of the config"):
        store.create("s0", config=REFERENCE)
    with store.create("s") as session:
        with pytest.raises(EventRejectedError, match="no name for a value of the config"):
            session.configure(**REFERENCE)
        with pytest.raises(EventRejectedError, match="no name for a value of the custom state"):
            session.set_state("$blob", REFERENCE["$blob"])


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize(
    ("kind", "status"), [("child_started", "not_made"), ("child_finished", "succeeded")]
)
def test_interruption_while_a_child_begins_or_ends_leaves_it_ended(
    store, monkeypatch, kind, status, is_written
):
    """It was working, for as long as the handle of its parent lived."""
    with store.create("s") as session, session.run("go") as run:
        append = session.core._append

        def interrupted_once(emission):
            if kind not in [one.type for one in emission.drafts]:
                return append(emission)
            monkeypatch.undo()
            if is_written:
                append(emission)
            raise KeyboardInterrupt

        monkeypatch.setattr(session.core, "_append", interrupted_once)
        with (
            pytest.raises(KeyboardInterrupt),
            run.child(session_id="child") as child,
            child.run("q"),
        ):
            pass
        children = {name: one.status for name, one in session.state.children.items()}
        assert children == ({"child": status} if is_written or kind != "child_started" else {})


@pytest.mark.parametrize("resident", [1, 200])
def test_call_that_was_never_started_is_told_so_though_its_message_left(tmp_path, resident):
    """The recovery block said of it "UNKNOWN OUTCOME", and that it was not in the state."""
    with Store(tmp_path / "s", resident_messages=resident).create("s") as session:
        run = session.run("go").start()
        run.assistant("", tool_calls=[call(), call(call_id="d")])
        run.tool("d").start()
        session.abandon()
    with Store(tmp_path / "s", resident_messages=resident).open("s") as session:
        for found in session.open_calls:
            if found.status == "uncertain":
                found.settle("applied")
        session.compact("told")
        for number in range(3):
            with session.run(f"u{number}"):
                pass
        told = session.context().system
        assert "NEVER STARTED" in told and "SETTLED: it took effect" in told
        assert "UNKNOWN OUTCOME" not in told
        with session.run("on") as run:
            run.assistant("a")
        session.compact("told")
        assert session.state.tool_states == {}


def test_calls_that_were_decided_about_when_their_message_had_left_leave_the_state(tmp_path):
    """Each stayed in it, and in every snapshot, for good."""
    with Store(tmp_path / "s", resident_messages=2).create("s") as session:
        for number in range(8):
            run = session.run("go").start()
            run.assistant("", tool_calls=[call()])
            run.tool("c").start().unknown("nobody looked")
            run.finish("failed")
            for turn in range(3):
                with session.run(f"u{turn}") as run:
                    run.assistant("a")
            session.open_calls[0].settle("not_applied" if number % 2 else "applied")
            results = [one for one in session.context().messages if one["role"] == "tool"]
            assert ["NOT APPLIED" in one["content"] for one in results] == [
                bool(before % 2) for before in range(number + 1)
            ]
        assert len(session.state.tool_states) < 3
