"""FAULTS B, D5, R and W2 of forks: a session of its own with the parent's events, and no more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from durasess import CorruptionError, DurasessError, EventRejectedError, SessionExistsError, Store
from durasess.engine.files import RealFiles
from durasess.session.forked import NOT_HERE
from durasess.store import forking, lookup
from tests.support import sessions, stores


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return stores.store_at(tmp_path)


def test_b1_original_and_fork_are_both_in_the_list(store: Store) -> None:
    stores.make(store, "a1", title="both")
    store.fork("a1", new_id="f1").close()
    rows = {row.session_id: row for row in store.list().rows}
    assert rows.keys() == {"a1", "f1"}
    assert (rows["f1"].parent, rows["f1"].parent_seq) == ("a1", 4)
    assert [row.session_id for row in store.list(parent="a1").rows] == ["f1"]


def test_b2_fork_from_the_middle_has_no_later_turn_anywhere(store: Store) -> None:
    with store.create("a1") as parent:
        stores.say(parent, "early", "first")
        middle = parent.last_seq
        stores.say(parent, "secret of later", "second")
    with store.fork("a1", at_seq=middle, new_id="f1") as fork:
        assert [one.content for one in fork.history()] == ["early", "first"]
        assert "later" not in str(fork.context().openai())
        assert [event.seq for event in fork.events()] == [*range(1, middle + 1), middle + 1]
        content = b"".join(one.read_bytes() for one in Path(fork.path).iterdir() if one.is_file())
    assert b"secret of later" not in content


def test_b2_copied_events_keep_seq_time_data_and_checksum(store: Store) -> None:
    marks = stores.make_calls(store, "a1")
    store.make_fork("a1", at_seq=marks["answered"], new_id="f1")
    original = stores.events_of(store, "a1")[: marks["answered"]]
    assert stores.events_of(store, "f1")[: marks["answered"]] == original


@pytest.mark.parametrize(
    ("mark", "statuses"),
    [
        ("asked", {"c1": "not_started", "c2": "not_started"}),
        ("started", {"c1": "failed", "c2": "not_started"}),
        ("answered", {"c1": "completed", "c2": "not_started"}),
        ("ended", {"c1": "completed", "c2": "completed"}),
    ],
)
def test_b2_open_calls_at_the_cut_are_closed_as_not_run_in_this_branch(
    store: Store, mark: str, statuses: dict[str, str]
) -> None:
    at = stores.make_calls(store, "a1")[mark]
    with store.fork("a1", at_seq=at, new_id="f1") as fork:
        calls = fork.state.tool_states.values()
        assert {call.call_id: call.status for call in calls} == statuses
        assert fork.state.open_run is None
        assert {call.status for call in fork.open_calls} <= {"not_started"}
        closed = [call for call in calls if call.recovery_seq]
        assert all(call.reason.startswith(NOT_HERE) for call in closed)
        results = [one for one in fork.context().openai() if one["role"] == "tool"]
        assert len(results) == 2, "every call has one result"


def test_b2_started_call_is_never_told_to_have_failed(store: Store) -> None:
    at = stores.make_calls(store, "a1")["started"]
    with store.fork("a1", at_seq=at, new_id="f1") as fork:
        told = next(str(one) for one in fork.context().openai() if one.get("tool_call_id") == "c1")
    assert "may or may not have taken effect" in told and NOT_HERE in told


def test_b2_once_that_was_started_is_not_run_again_by_the_fork(store: Store) -> None:
    with store.create("a1") as parent:
        marks: list[int] = []
        parent.once("pay-1", lambda: marks.append(parent.last_seq))
    with (
        store.fork("a1", at_seq=marks[0], new_id="f1") as fork,
        pytest.raises(DurasessError, match="settle"),
    ):
        fork.once("pay-1", lambda: marks.append(0))
    assert len(marks) == 1


def test_b2_fork_opened_again_adds_nothing(store: Store) -> None:
    at = stores.make_calls(store, "a1")["started"]
    store.make_fork("a1", at_seq=at, new_id="f1")
    before = stores.events_of(store, "f1")
    with store.open("f1") as fork:
        assert not fork.recovery.was_interrupted
    assert stores.events_of(store, "f1") == before


def test_b4_writes_of_a_fork_leave_the_parent_byte_by_byte(store: Store) -> None:
    path = stores.make(store, "a1", runs=3)
    with sessions.unchanged(path), store.fork("a1", at_seq=4) as fork:
        stores.say(fork, "only here", "y" * 100_000)
        fork.snapshot()
        fork.change(title="other")


def test_b4_parent_may_be_open_and_go_on(store: Store) -> None:
    with store.create("a1") as parent:
        stores.say(parent)
        seq = parent.last_seq
        with store.fork("a1", new_id="f1") as fork:
            stores.say(parent, "in the parent")
            assert len(list(fork.history())) == 2
        assert [event.seq for event in parent.events()][-1] == seq + 3


def test_b7_opening_twice_makes_no_branch(store: Store) -> None:
    stores.make(store, "a1")
    for _ in range(3):
        store.open("a1").close()
    assert os.listdir(store.path) == ["a1"]


@pytest.mark.parametrize("at", [0, -1, 99])
def test_fork_at_a_seq_that_is_not_there_leaves_nothing(store: Store, at: int) -> None:
    stores.make(store, "a1")
    with pytest.raises(EventRejectedError, match="seq"):
        store.fork("a1", at_seq=at)
    assert os.listdir(store.path) == ["a1"]


def test_fork_to_an_id_that_is_taken_leaves_that_alone(store: Store) -> None:
    stores.make(store, "a1")
    other = stores.make(store, "a2")
    with sessions.unchanged(other), pytest.raises(SessionExistsError):
        store.fork("a1", new_id="a2")


def test_fork_of_a_damaged_session_leaves_nothing(store: Store) -> None:
    path = Path(stores.make(store, "a1"))
    sessions.flip_bit(path / "events_0001.jsonl", 400)
    with pytest.raises(CorruptionError):
        store.fork("a1")
    assert os.listdir(store.path) == ["a1"]


def test_fork_is_active_and_not_pinned_whatever_its_parent_is(store: Store) -> None:
    stores.make(store, "a1")
    store.pin("a1")
    store.archive("a1")
    with store.fork("a1") as fork:
        assert (fork.status, fork.state.meta.pinned) == ("active", False)
        stores.say(fork)


class Stopping(RealFiles):
    """A disk on which the process dies at the n-th change of a name or file."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt

    def create(self, path: str) -> int:
        self._step()
        return super().create(path)

    def replace(self, source: str, target: str) -> None:
        self._step()
        super().replace(source, target)

    def unlink(self, path: str) -> None:
        self._step()
        super().unlink(path)

    def rmdir(self, path: str) -> None:
        self._step()
        super().rmdir(path)


def test_fork_cut_short_at_any_step_is_there_whole_or_not_at_all(store: Store) -> None:
    at = stores.make_calls(store, "a1")["started"]
    whole = 0
    for left in range(60):
        try:
            forking.fork(
                Stopping(left),
                store.path,
                "a1",
                store._options,
                at_seq=at,
                new_id=f"f{left}",
                token="t",
            )
        except KeyboardInterrupt:
            pass
        rows = {row.session_id: row for row in store.list(limit=None).rows}
        assert not any(row.problem for row in rows.values())
        if f"f{left}" in rows:
            whole += 1
            assert rows[f"f{left}"].parent == "a1"
            assert types(store, f"f{left}", at)[0] == "session_changed"
    assert 0 < whole < 60


def types(store: Store, session_id: str, after: int) -> list[str]:
    """The types of a fork's own events."""
    return stores.types_of(store, session_id, after)


def test_d5_fork_of_a_fork_has_one_header_in_each_segment(store: Store) -> None:
    stores.make(store, "a1", runs=2)
    store.make_fork("a1", new_id="f1")
    store.make_fork("f1", new_id="f2")
    with store.open("f2") as fork:
        stores.say(fork)
    for segment in Path(store.path, "f2").glob("events_*"):
        lines = segment.read_bytes().split(b"\n")
        assert sum(b'"first_seq":' in line for line in lines) == 1
    assert types(store, "f2", 0).count("session_created") == 1
    assert not stores.verified(f"{store.path}/f2").damage


def test_r1_lineage_of_a_thousand_forks_is_walked_without_recursion() -> None:
    found = lookup.lineage("s1000", lambda one: f"s{int(one[1:]) - 1}" if one != "s0" else "")
    assert len(found.ids) == 1001 and not found.problem


def test_r1_forks_of_forks_go_deep(store: Store) -> None:
    stores.make(store, "f0")
    for depth in range(1, 30):
        store.make_fork(f"f{depth - 1}", new_id=f"f{depth}")
    assert len(store.lineage("f29").ids) == 30
    with store.open("f29") as fork:
        assert [one.content for one in fork.history()] == ["hello 0", "done"]


def test_r2_circle_of_parents_is_cut_at_the_repeated_session() -> None:
    parents = {"a": "b", "b": "a"}
    found = lookup.lineage("a", parents.get)
    assert found.ids == ("a", "b") and "circle" in found.problem


def test_w2_lock_of_a_fork_is_its_own(store: Store) -> None:
    stores.make(store, "a1")
    code = "import sys, durasess; durasess.Store(sys.argv[1]).open('a1').close()"
    with store.fork("a1"):
        done = stores.in_another_process(code, store.path)
    assert (done.returncode, done.stderr.count("Error")) == (0, 0)
