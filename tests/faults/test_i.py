"""FAULTS I: side effects and idempotency."""

import pytest

from durasess import EventRejectedError
from tests.support.harness import begin_run, call_in, crash, in_process, start_call, store_at

SCRIPT = """
    session = Store(argv[0]).create("s")
    stop = int(argv[2])
    def moment(n):
        if n == stop:
            os.kill(os.getpid(), 9)
    run = session.run("add a line").__enter__()
    moment(1)
    run.assistant("", tool_calls=[{"call_id": "c", "name": "append"}])
    moment(2)
    with run.tool("c") as call:
        moment(3)
        with open(argv[1], "a") as file:
            file.write("line")
        moment(4)
        call.result("ok")
        moment(5)
    moment(6)
    run.assistant("done")
    moment(7)
    run.finish()
    moment(8)
"""
OUTCOMES = {
    1: (None, "interrupted"),
    2: ("not_started", "interrupted"),
    3: ("uncertain", "interrupted"),
    4: ("uncertain", "interrupted"),
    5: ("completed", "interrupted"),
    6: ("completed", "interrupted"),
    7: ("completed", "interrupted"),
    8: ("completed", "succeeded"),
}


@pytest.mark.parametrize("moment", OUTCOMES)
def test_i7_kill_at_each_boundary_is_classified_and_nothing_runs_again(tmp_path, moment):
    store, file = store_at(tmp_path), tmp_path / "file"
    in_process(SCRIPT, store.path, file, moment, kills_itself=True)
    lines = file.read_text() if file.exists() else ""
    with store.open("s") as session:
        call, run = OUTCOMES[moment]
        found = [one.status for one in session.state.tool_states.values()]
        assert (found, session.runs[-1].status) == ([call] if call else [], run)
    assert (file.read_text() if file.exists() else "") == lines


def test_i1_line_exists_once_and_the_model_is_told_it_is_uncertain(tmp_path):
    store, file = store_at(tmp_path), tmp_path / "file"
    in_process(SCRIPT, store.path, file, 4, kills_itself=True)
    with store.open("s") as session, session.resume_run() as run:
        text = session.context().openai()[0]["content"]
        assert "UNKNOWN OUTCOME" in text and "append" in text
        run.assistant("I looked: the line is there.")
    assert file.read_text() == "line"


@pytest.mark.parametrize(
    ("effect", "offered"), [(None, False), ("read_only", True), ("idempotent", True)]
)
def test_i2_only_declared_safe_calls_may_be_offered_for_rerun(tmp_path, effect, offered):
    store = store_at(tmp_path)
    if effect:
        store.tool("work", effect=effect)
    session = store.create("s")
    start_call(begin_run(session, "c"), "c")
    crash(session)
    with store.open("s") as again:
        assert again.open_calls[0].is_offered is offered
        assert call_in(again, "c").status == "uncertain"


def test_i4_resume_of_the_same_state_twice_adds_nothing(tmp_path):
    store = store_at(tmp_path)
    session = store.create("s")
    start_call(begin_run(session, "c"), "c")
    crash(session)
    with store.open("s") as again:
        with again.resume_run() as run:
            run.assistant("ok")
        seq = again.last_seq
        with pytest.raises(EventRejectedError):
            again.resume_run().__enter__()
        assert again.last_seq == seq


def delivered(session, count, **options):
    """The first deliveries of a subscription, beside which one note is written."""
    with session.subscribe(**options) as subscription:
        session.note("new")
        return [one for _, one in zip(range(count), subscription, strict=False)]


def test_i5_loading_emits_nothing_to_listeners(tmp_path):
    store = store_at(tmp_path)
    with store.create("s") as session:
        for n in range(30):
            session.note(str(n))
    with store.open("s") as again:
        assert [one.event.data["text"] for one in delivered(again, 1)] == ["new"]


def test_i5_replayed_events_are_marked(tmp_path):
    store = store_at(tmp_path)
    with store.create("s") as session:
        session.note("old")
    with store.open("s") as again:
        found = delivered(again, 2, after=1)
        marks = [(one.event.data["text"], one.replayed) for one in found]
        assert marks == [("old", True), ("new", False)]
