"""FAULTS A: subagents and child sessions."""

import pytest

from durasess import EventRejectedError, SessionExistsError
from tests.support.harness import begin_run, call_in, crash, in_process, start_call, store_at


@pytest.fixture
def store(tmp_path):
    return store_at(tmp_path)


def with_child(store, name="kid"):
    """A parent whose child was made and is at work when both die."""
    in_process(
        """
        store = Store(argv[0])
        session = store.create("s")
        with session.run("x") as run:
            run.assistant("", tool_calls=[{"call_id": "c", "name": "delegate"}])
            with run.tool("c"), run.child(call_id="c", session_id=argv[1]) as child:
                child.run("part").__enter__()
                os.kill(os.getpid(), 9)
        """,
        store.path,
        name,
        kills_itself=True,
    )


def test_a1_child_with_the_id_of_its_parent_is_refused(store):
    with store.create("s") as session:
        before = session.last_seq
        with pytest.raises(EventRejectedError, match="itself"):
            session.child(session_id="s").__enter__()
        assert session.last_seq == before
    store.open("s").close()


def test_a1_child_with_the_id_of_another_session_is_refused_and_that_one_is_left_alone(store):
    with store.create("other", title="mine") as other:
        seq = other.last_seq
    with store.create("s") as session:
        with pytest.raises(SessionExistsError):
            session.child(session_id="other").__enter__()
        assert session.state.children["other"].status == "failed"
    with store.open("other", mode="read") as other:
        assert (other.last_seq, other.title) == (seq, "mine")


def test_a1_id_of_a_foreign_session_is_no_evidence(store):
    with store.create("other") as other, other.run("secret") as run:
        run.assistant("nothing of yours")
    session = store.create("s")
    run = begin_run(session, "c")
    start_call(run, "c")
    session.emit("child_started", {"session_id": "other"}, run_id=run.run_id, call_id="c")
    crash(session)
    with store.open("s") as again:
        assert "nothing of yours" not in str(again.state)


def test_a2_child_of_a_killed_parent_is_interrupted_and_linked(store):
    with_child(store)
    with store.open("s") as session:
        kid = session.state.children["kid"]
        assert (kid.status, kid.key) == ("interrupted", call_in(session, "c").key)
    with store.open("kid", mode="read") as child:
        assert (child.state.meta.parent, child.state.meta.parent_call) == ("s", kid.key)


def test_a2_result_goes_to_the_parent_it_belongs_to(store):
    with store.create("s") as one, store.create("t") as other:
        with one.run("x") as run, run.child(session_id="kid") as kid, kid.run("y") as part:
            part.assistant("answer")
        assert one.state.children["kid"].result == "answer"
        assert other.state.children == {}


@pytest.mark.parametrize("made", [True, False])
def test_a2_kill_between_the_record_and_the_making(store, made):
    session = store.create("s")
    run = begin_run(session)
    session.emit("child_started", {"session_id": "kid"}, run_id=run.run_id)
    if made:
        store.create("kid", parent="s").close()
    crash(session)
    with store.open("s") as again:
        assert again.state.children["kid"].status == ("active" if made else "not_made")
    with store.open("s") as again:
        assert again.last_seq == again.state.seq


def test_a4_interrupted_children_are_listed_and_never_started_again(store):
    session = store.create("s")
    run = begin_run(session)
    for name in ("kid1", "kid2"):
        session.emit("child_started", {"session_id": name}, run_id=run.run_id)
        child = store.create(name, parent="s")
        begin_run(child)
        crash(child)
    crash(session)
    with store.open("s") as again:
        found = {name: kid.status for name, kid in again.state.children.items()}
        assert found == {"kid1": "interrupted", "kid2": "interrupted"}
    with store.open("kid1", mode="read") as child:
        assert [one.status for one in child.runs] == ["running"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a5_children_of_a_parent_that_is_cut_off_are_closed_in_order(store, error):
    with store.create("s") as session:
        with (
            pytest.raises(error),
            session.run("x") as run,
            run.child(session_id="kid") as child,
            child.run("y"),
        ):
            raise error
        assert session.state.children["kid"].status in ("failed", "interrupted")
        seqs = [one.type for one in session.events() if one.type.endswith("finished")]
        assert seqs == ["child_finished", "run_finished"]
    store.open("kid").close()


def test_child_that_could_not_be_made_is_failed_and_the_error_goes_on(store):
    with store.create("s") as session:
        with pytest.raises(TypeError), session.child(session_id="kid", nonsense=1):
            pass
        assert session.state.children["kid"].status == "failed"


def test_child_whose_parent_was_closed_raises_what_happened_in_it(store):
    session = store.create("s")
    with pytest.raises(ValueError), session.child(session_id="kid"):
        session.close()
        raise ValueError


def test_children_of_children_are_linked_to_their_own_parents(store):
    with store.create("s") as session:
        with session.child(session_id="kid") as kid, kid.child(session_id="grandkid") as grandkid:
            assert grandkid.state.meta.parent == "kid"
        assert list(session.state.children) == ["kid"]
