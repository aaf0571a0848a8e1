"""The program's own events and state: reducers, versions, migrations."""

import datetime

import pytest

from durasess import EventRejectedError, FormatVersionError, Migration
from durasess.session.custom import MOST_PASSED_OVER
from tests.support.harness import crash, store_at, types


def count(state, event):
    state["n"] = state.get("n", 0) + event.data["by"]


def count_twice(state, event):
    return {**state, "n": state.get("n", 0) + 2 * event.data["amount"], "new": True}


def renamed(event):
    if event.type != "counted":
        return event
    return type(event)(
        seq=event.seq, ts=event.ts, type="counted", data={"amount": event.data["by"]}
    )


SECOND = Migration(state=lambda state: {**state, "second": True}, event=renamed)


def old_store(path):
    return store_at(path, reducers={"counted": count})


def new_store(path, **more):
    more.setdefault("custom_migrations", {1: SECOND})
    return store_at(path, reducers={"counted": count_twice}, custom_version=2, **more)


def made_by_the_old_program(path):
    session = old_store(path).create("s")
    session.emit("counted", {"by": 1})
    return session


def test_reducer_changes_the_custom_state(tmp_path):
    with made_by_the_old_program(tmp_path) as session:
        session.emit("counted", {"by": 4})
        assert session.custom_state == {"n": 5}


def test_reducer_changes_nothing_of_the_state_before(tmp_path):
    with made_by_the_old_program(tmp_path) as session:
        before = session.state
        session.emit("counted", {"by": 4})
        assert before.custom_state == {"n": 1}


@pytest.mark.parametrize("given", [{"by": (1, [2])}, {"by": [1, (2,)]}])
def test_p10_reducer_gets_what_is_read_back_and_never_the_callers_objects(tmp_path, given):
    seen = []
    reducer = {"counted": lambda state, event: seen.append(event.data)}
    with store_at(tmp_path, reducers=reducer).create("s") as session:
        session.emit("counted", given)
        [*_, event] = session.events()
    assert seen == [event.data] * len(seen) and seen
    assert event.data == {"by": [1, [2]]}


def raises(state, event):
    raise ValueError("no such thing")


def grows(state, event):
    state["o"] = object()


@pytest.mark.parametrize(
    "reducer",
    [raises, grows, lambda state, event: [1], lambda state, event: 7, lambda s, e: {1: 2}],
)
def test_reducer_that_fails_is_refused_before_anything_is_written(tmp_path, reducer):
    with store_at(tmp_path, reducers={"odd": reducer}).create("s") as session:
        before = session.last_seq
        with pytest.raises(EventRejectedError, match="reducer"):
            session.emit("odd", {})
        assert session.last_seq == before
        session.note("the handle lives")


MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "returned",
    [{"a": (1, 2)}, {"a": MOMENT}, {"a": {3, 1}}, {"a": b"x"}, {"a": float("nan")}, {"a": 10**30}],
)
@pytest.mark.parametrize("snapshot", [False, True])
def test_state_of_a_reducer_is_what_a_restart_gives(tmp_path, returned, snapshot):
    store = store_at(tmp_path, reducers={"odd": lambda state, event: returned})
    session = store.create("s")
    session.emit("odd", {})
    live = session.custom_state
    if snapshot:
        session.snapshot()
    crash(session)
    with store.open("s") as again:
        assert again.custom_state == live
        assert {type(one) for one in live.values()} == {
            type(one) for one in again.custom_state.values()
        }


def test_type_without_a_reducer_changes_nothing(tmp_path):
    with old_store(tmp_path).create("s") as session:
        session.emit("weather", {"rain": True})
        assert session.custom_state == {}


@pytest.mark.parametrize("snapshot", [False, True])
def test_upgrade_migrates_state_and_says_so_once(tmp_path, snapshot):
    session = made_by_the_old_program(tmp_path)
    if snapshot:
        session.snapshot()
    crash(session)
    for _ in range(3):
        with new_store(tmp_path).open("s") as again:
            assert types(again).count("custom_schema_changed") == 1
            assert again.state.custom_version == 2
            assert again.custom_state["second"]
            assert again.custom_state["n"] == (1 if snapshot else 2)


def test_old_events_reach_the_new_reducer_as_new_ones(tmp_path):
    crash(made_by_the_old_program(tmp_path))
    with new_store(tmp_path).open("s") as session:
        session.emit("counted", {"amount": 10})
        assert session.custom_state["n"] == 2 * 1 + 2 * 10


def test_state_that_was_set_is_migrated_with_the_rest(tmp_path):
    session = old_store(tmp_path).create("s")
    session.set_state("a", 1)
    session.snapshot()
    session.close()
    with new_store(tmp_path).open("s") as again:
        assert again.custom_state == {"a": 1, "second": True}
        again.set_state("b", 2)
        assert again.custom_state == {"a": 1, "second": True, "b": 2}


def test_session_of_the_new_program_needs_no_migration(tmp_path):
    with new_store(tmp_path).create("s") as session:
        session.emit("counted", {"amount": 1})
        assert session.custom_state == {"n": 2, "new": True}
        assert "custom_schema_changed" not in types(session)


def test_older_program_may_read_and_not_write(tmp_path):
    with new_store(tmp_path).create("s") as session:
        session.emit("counted", {"amount": 1})
        seq = session.last_seq
    with pytest.raises(FormatVersionError, match="version 2 here, this program knows 1"):
        old_store(tmp_path).open("s")
    with old_store(tmp_path).open("s", mode="read") as seen:
        assert seen.last_seq == seq


def test_upgraded_session_is_not_written_by_the_older_program(tmp_path):
    made_by_the_old_program(tmp_path).close()
    new_store(tmp_path).open("s").close()
    with pytest.raises(FormatVersionError):
        old_store(tmp_path).open("s")


def broken(state):
    raise KeyError("second")


@pytest.mark.parametrize(
    "migrations", [{}, {1: Migration(state=broken)}, {1: Migration(state=lambda state: [state])}]
)
def test_missing_or_broken_migration_changes_nothing(tmp_path, migrations):
    session = old_store(tmp_path).create("s")
    session.set_state("a", 1)
    session.snapshot()
    seq = session.last_seq
    session.close()
    with pytest.raises(FormatVersionError, match="custom_migrations"):
        new_store(tmp_path, custom_migrations=migrations).open("s")
    with new_store(tmp_path).open("s") as again:
        assert types(again, seq) == ["custom_schema_changed"]


@pytest.mark.parametrize("version", [0, -1])
def test_version_that_is_none_is_refused(tmp_path, version):
    with pytest.raises(ValueError, match="custom_version"):
        store_at(tmp_path, custom_version=version)


def test_migration_may_run_again_after_a_crash_in_the_upgrade(tmp_path):
    crash(made_by_the_old_program(tmp_path))
    crash(new_store(tmp_path).open("s"))
    with new_store(tmp_path).open("s") as again:
        assert types(again).count("custom_schema_changed") == 1
        assert again.custom_state == {"n": 2, "new": True, "second": True}


# Programs that know different reducers


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_snapshot_of_a_program_without_a_reducer_loses_nothing_of_the_custom_state(tmp_path, mode):
    """It held the state without what these events said, and went for the whole of it."""
    crash(made_by_the_old_program(tmp_path))
    with store_at(tmp_path).open("s", mode=mode) as session:
        session.emit("counted", {"by": 4})
        session.snapshot()
        assert session.custom_state == {}
    with old_store(tmp_path).open("s", mode="read") as session:
        assert session.custom_state == {"n": 5}
    with old_store(tmp_path).open("s", mode=mode) as session:
        assert session.custom_state == {"n": 5}
        assert any("knows less" in one for one in session.recovery.log.notices)
        assert session.snapshot() == session.last_seq
        session.note("one more, and so a snapshot of this program")
        session.snapshot()
    with old_store(tmp_path).open("s") as session:
        assert session.custom_state == {"n": 5} and not session.recovery.log.notices


def test_two_programs_of_which_one_has_no_reducer_share_a_session(tmp_path):
    with (
        old_store(tmp_path).create("s", mode="shared") as one,
        store_at(tmp_path).open("s", mode="shared") as other,
    ):
        for number in range(1, 4):
            one.emit("counted", {"by": number})
            other.note("x")
            other.snapshot()
        assert one.custom_state == {"n": 6}
    with old_store(tmp_path).open("s") as session:
        assert session.custom_state == {"n": 6}


def test_custom_state_that_lacks_what_was_pruned_is_told(tmp_path):
    made_by_the_old_program(tmp_path).close()
    with store_at(tmp_path).open("s") as session:
        for number in range(3):
            session.emit("counted", {"by": number})
            session.snapshot()
        assert session.prune().segments
    with old_store(tmp_path).open("s") as session:
        assert any("is not in the state" in one for one in session.recovery.log.notices)


def test_prune_leans_on_no_snapshot_of_a_program_that_knows_less(tmp_path):
    """It deleted the events that only this program knows, and the next opening lacked them."""
    made_by_the_old_program(tmp_path).close()
    with store_at(tmp_path).open("s") as session:
        for number in range(3):
            session.emit("counted", {"by": number})
            session.snapshot()
    with old_store(tmp_path).open("s") as session:
        known = session.custom_state
        with pytest.raises(EventRejectedError, match="knows less of the events"):
            session.prune()
        session.note("one")
        session.snapshot()
        with pytest.raises(EventRejectedError, match=r"snapshot\.prev.* with an event between"):
            session.prune()
    with old_store(tmp_path).open("s") as session:
        assert session.custom_state == known
        session.note("two")
        session.snapshot()
        assert session.prune().segments
    with old_store(tmp_path).open("s") as session:
        assert session.custom_state == known and not was_replayed(session)


def emit_many(session):
    """More types without a reducer than a state names."""
    for number in range(MOST_PASSED_OVER + 9):
        session.emit(f"type_{number}", {})
        session.emit("type_0", {})


def was_replayed(session):
    return any("knows less" in one for one in session.recovery.log.notices)


def test_types_without_a_reducer_are_named_up_to_a_number(tmp_path):
    with store_at(tmp_path).create("s") as session:
        emit_many(session)
        assert len(session.state.passed_over) == MOST_PASSED_OVER + 1
        session.emit("counted", {"by": 2})
        session.snapshot()
    with old_store(tmp_path).open("s") as session:
        assert session.custom_state == {"n": 2} and was_replayed(session)
        session.note("x")
        session.snapshot()
    # Its own snapshot is gone on with, however many types it takes none of.
    with old_store(tmp_path).open("s") as session:
        assert session.custom_state == {"n": 2} and not was_replayed(session)
    with store_at(tmp_path).open("s") as session:
        session.emit("counted", {"by": 3})
        session.snapshot()
    with old_store(tmp_path).open("s") as session:
        assert session.custom_state == {"n": 5} and was_replayed(session)


def test_program_of_an_older_version_beside_a_newer_one_writes_nothing_of_its_own(tmp_path):
    """It wrote events of its own version behind the beginning of the newer one, whose reducer
    raised: the newer program's handle failed, and it could not open the session again."""
    old = old_store(tmp_path).create("s", mode="shared")
    run = old.run("work").start()
    old.emit("counted", {"by": 1})
    new = new_store(tmp_path).open("s", mode="shared")
    for write in (
        lambda: old.emit("counted", {"by": 4}),
        lambda: old.emit("uncounted", {}),
        lambda: old.set_state("k", 1),
    ):
        with pytest.raises(EventRejectedError, match="version 2 here, this program knows 1"):
            write()
    new.set_state("k", 2)
    run.assistant("What the session itself says goes on.")
    run.finish()
    old.snapshot()
    new.emit("counted", {"amount": 2})
    old.close()
    new.close()
    with new_store(tmp_path).open("s") as session:
        # The older program's snapshot is not gone on with: this program's reducer made all of it.
        assert session.custom_state == {"n": 6, "new": True, "second": True, "k": 2}
        assert session.runs[0].status == "succeeded"
