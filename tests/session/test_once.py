"""`once`: an operation happens once in a session's life; its recorded result is what returns."""

import pytest

from durasess import EventRejectedError
from durasess.errors import OutcomeUnknownError
from tests.support.harness import crash, in_process, store_at

RACER = """
    store = Store(argv[0])
    session = store.open("s", mode="shared")
    def work():
        with open(argv[1], "a") as file:
            file.write("x")
        return 7
    while True:
        try:
            print(session.once("o", work))
            break
        except Exception as error:
            name = type(error).__name__
            assert name == "OutcomeUnknownError", repr(error)
            time.sleep(0.01)  # The other one runs it, for as long as that takes.
    session.close()
"""


def fails():
    raise ValueError("no")


def never():
    raise AssertionError("it ran again")


def test_result_is_returned_without_running_again(tmp_path):
    with store_at(tmp_path).create("s") as session:
        assert session.once("o", lambda: {"n": 1}) == {"n": 1}
        assert session.once("o", never) == {"n": 1}


@pytest.mark.parametrize("end", ["close", "crash", "snapshot"])
def test_result_is_returned_after_reopening(tmp_path, end):
    store = store_at(tmp_path)
    session = store.create("s")
    session.once("o", lambda: [1, 2])
    if end == "snapshot":
        session.snapshot()
    if end == "crash":
        crash(session)
    else:
        session.close()
    with store.open("s") as again:
        assert again.once("o", never) == [1, 2]


def test_result_is_what_was_recorded_and_not_the_object(tmp_path):
    with store_at(tmp_path).create("s") as session:
        assert session.once("o", lambda: (1, 2)) == [1, 2]


def test_failure_is_raised_and_may_be_tried_again(tmp_path):
    with store_at(tmp_path).create("s") as session:
        with pytest.raises(ValueError, match="no"):
            session.once("o", fails)
        assert session.once("o", lambda: 5) == 5
        assert session.state.tool_states["once:o"].attempt == 2


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_interruption_is_an_unknown_outcome_until_it_is_settled(tmp_path, kind):
    def interrupted():
        raise kind

    with store_at(tmp_path).create("s") as session:
        with pytest.raises(kind):
            session.once("o", interrupted)
        with pytest.raises(OutcomeUnknownError, match="settle"):
            session.once("o", never)


def crashed_in_once(store):
    in_process(
        """
        session = Store(argv[0]).open_or_create("s")
        session.once("o", lambda: os.kill(os.getpid(), 9))
        """,
        store.path,
        kills_itself=True,
    )
    return store.open("s")


def test_crash_is_an_unknown_outcome_and_nothing_runs(tmp_path):
    session = crashed_in_once(store_at(tmp_path))
    with session, pytest.raises(OutcomeUnknownError, match="operation 'o'"):
        session.once("o", never)


@pytest.mark.parametrize(
    ("decision", "output", "returned"),
    [("applied", 9, 9), ("applied", None, None), ("not_applied", None, 5)],
)
def test_settled_crash_returns_or_runs_by_the_decision(tmp_path, decision, output, returned):
    store = store_at(tmp_path)
    with crashed_in_once(store) as session:
        [call] = session.open_calls
        call.settle(decision, output=output)
        assert session.once("o", lambda: 5) == returned
    with store.open("s") as again:
        assert again.once("o", never) == returned


def test_crash_that_is_offered_again_runs(tmp_path):
    with crashed_in_once(store_at(tmp_path)) as session:
        session.open_calls[0].rerun()
        assert session.once("o", lambda: 5) == 5
        assert session.state.tool_states["once:o"].attempt == 2


def test_verifier_settles_a_crash(tmp_path):
    store = store_at(tmp_path)
    store.tool("pay", verify=lambda call: ("applied", call.operation_id))
    with store_at(tmp_path).create("s") as made:
        made.emit(
            "tool_started", {"detached": True, "operation_id": "o", "name": "pay"}, call_id="p"
        )
        crash(made)
    with store.open("s") as session:
        assert session.once("o", never, name="pay") == "o"


def test_two_processes_that_share_run_it_once(tmp_path):
    import subprocess
    import sys
    import textwrap

    store = store_at(tmp_path)
    store.create("s", mode="shared").close()
    code = "import os, sys, time\nfrom durasess.store.store import Store\nargv = sys.argv[1:]\n"
    line = [sys.executable, "-c", code + textwrap.dedent(RACER), store.path, str(tmp_path / "f")]
    both = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate(timeout=60)[0].strip() for one in both]
    assert (tmp_path / "f").read_text() == "x"
    assert said == ["7", "7"]


def test_results_that_the_state_has_no_room_for_are_looked_up(tmp_path, monkeypatch):
    monkeypatch.setattr("durasess.session.reduce_calls.OPERATIONS_KEPT", 2)
    with store_at(tmp_path, resident_messages=1).create("s") as session:
        for n in range(6):
            session.once(f"o{n}", lambda n=n: n)
        assert session.state.operations_left_out
        assert [session.once(f"o{n}", never) for n in range(6)] == list(range(6))


def test_operation_that_was_decided_is_not_looked_up_as_done(tmp_path, monkeypatch):
    monkeypatch.setattr("durasess.session.reduce_calls.OPERATIONS_KEPT", 1)
    with store_at(tmp_path).create("s") as session:
        with pytest.raises(ValueError):
            session.once("bad", fails)
        for n in range(3):
            session.once(f"o{n}", lambda: 1)
        assert session.once("bad", lambda: 8) == 8


def test_result_that_cannot_be_stored_is_raised_and_it_never_happens_again(tmp_path):
    with store_at(tmp_path).create("s") as session:
        with pytest.raises(EventRejectedError):
            session.once("o", object)
        assert session.state.tool_states["once:o"].decision == "applied"
        assert session.once("o", lambda: pytest.fail("again")) is None


def test_two_sessions_do_not_share_operations(tmp_path):
    store = store_at(tmp_path)
    with store.create("s") as one, store.create("t") as other:
        one.once("o", lambda: 1)
        assert other.once("o", lambda: 2) == 2


def test_once_inside_a_run_belongs_to_it(tmp_path):
    with store_at(tmp_path).create("s") as session, session.run("x") as run:
        assert run.once("o", lambda: 1) == 1
        assert session.state.tool_states["once:o"].run_id == run.run_id


def test_operation_that_was_given_up_is_not_run_again(tmp_path):
    session = store_at(tmp_path).create("s")
    with pytest.raises(KeyboardInterrupt):
        session.once("pay", interrupted)
    session.open_calls[0].settle("abandoned")
    with session, pytest.raises(OutcomeUnknownError, match="abandoned"):
        session.once("pay", lambda: pytest.fail("ran again"))


def interrupted():
    raise KeyboardInterrupt
