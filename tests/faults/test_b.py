"""FAULTS B: rewinding. What was said does not count any more; what was done and recorded stays."""

import pytest

from durasess import EventRejectedError
from tests.support.harness import ask, crash, store_at


@pytest.fixture
def session(tmp_path):
    with store_at(tmp_path).create("s") as made:
        yield made


def talk(session, *texts):
    """One run for each text; the seq behind each."""
    seqs = []
    for text in texts:
        with session.run(text) as run:
            run.assistant(f"{text}!")
        seqs.append(session.last_seq)
    return seqs


def said(session):
    return [one.content for one in session.history()]


def test_b5_rewound_messages_are_in_no_context_and_no_history(session):
    first, _ = talk(session, "one", "two")
    session.rewind(first)
    assert said(session) == ["one", "one!"]
    assert [one["content"] for one in session.context().openai()] == ["one", "one!"]


def test_b5_rewind_is_an_event_and_old_events_are_kept(session):
    first, last = talk(session, "one", "two")
    session.rewind(first)
    found = list(session.events())
    assert (found[-1].type, found[-1].data, len(found)) == ("rewound", {"to": first}, last + 1)


def test_b5_files_stay_as_they_are(tmp_path):
    (tmp_path / "w").mkdir()
    with store_at(tmp_path).create("s", workspace=tmp_path / "w") as session:
        seq = session.last_seq
        with session.run("x"):
            (tmp_path / "w" / "made").write_text("yes")
        session.rewind(seq)
    assert (tmp_path / "w" / "made").read_text() == "yes"


@pytest.mark.parametrize("end", ["close", "crash"])
def test_rewind_holds_after_reopening_and_the_talk_goes_on(tmp_path, end):
    store = store_at(tmp_path)
    session = store.create("s")
    first, _, _ = talk(session, "one", "two", "three")
    session.rewind(first)
    talk(session, "other")
    session.close() if end == "close" else crash(session)
    with store.open("s") as again:
        assert said(again) == ["one", "one!", "other", "other!"]


def test_rewind_of_a_rewind_goes_back_further(session):
    first, second, _ = talk(session, "one", "two", "three")
    session.rewind(second)
    talk(session, "four")
    session.rewind(first)
    assert said(session) == ["one", "one!"]


def test_usage_and_counts_are_of_everything_that_happened(session):
    with session.run("x") as run:
        run.assistant("a", usage={"prompt_tokens": 10})
    session.rewind(1)
    assert (session.usage.prompt, session.state.counts.runs) == (10, 1)


def test_compaction_made_since_is_undone(session):
    first, _ = talk(session, "one", "two")
    session.compact("short")
    session.rewind(first)
    assert session.state.compaction is None
    assert [one["content"] for one in session.context().openai()] == ["one", "one!"]


def test_rewind_between_a_call_and_its_result_keeps_the_result(session):
    with session.run("x") as run:
        [call] = ask(run, "c")
        seq = session.last_seq
        with run.tool("c") as tool:
            tool.result("done")
        run.assistant("end")
    session.rewind(seq)
    assert session.state.tool_states[call.key].status == "completed"
    assert [one.content for one in session.state.messages] == ["x", "", "done"]


def test_call_of_unknown_outcome_is_not_forgotten(session):
    seq = session.last_seq
    with pytest.raises(KeyboardInterrupt), session.run("x") as run:
        ask(run, "c")
        with run.tool("c"):
            raise KeyboardInterrupt
    session.rewind(seq)
    assert [one.call_id for one in session.open_calls] == ["c"]


def test_rewind_behind_more_compactions_than_are_kept_is_refused(session, monkeypatch):
    monkeypatch.setattr("durasess.session.reduce_runs.COMPACTIONS_KEPT", 2)
    for text in ("one", "two", "three"):
        talk(session, text)
        session.compact(text)
    with pytest.raises(EventRejectedError, match="more compactions"):
        session.rewind(3)


def test_b7_saving_twice_without_a_change_makes_nothing(tmp_path):
    store = store_at(tmp_path)
    with store.create("s") as session:
        talk(session, "one")
        session.snapshot()
        session.snapshot()
        seq = session.last_seq
    for _ in range(3):
        with store.open("s") as again:
            assert again.last_seq == seq
    assert [one.name for one in (tmp_path / "store").iterdir() if one.name[0] != "."] == ["s"]
