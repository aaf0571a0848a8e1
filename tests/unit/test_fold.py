"""Events become state: the reducer's two ways, migrations step by step, the window of event ids."""

import contextlib
from typing import Any

import msgspec
import pytest

from durasess.engine import codec, fold
from durasess.engine.fold import Fold
from durasess.engine.records import Record
from durasess.engine.snapshot import RememberedId
from durasess.engine.types import EVENT_ID_WINDOW, Event, LineError, Migration
from durasess.errors import FormatVersionError
from tests.support.lines import START, TS, batch, body, line


class Counter(msgspec.Struct):
    count: int = 0


def event(seq: int = 1, data: Any = None, **ids: str) -> Event:
    return Event(seq=seq, ts=TS, type="note", data=data, **ids)


def folding(**fields: Any) -> Fold:
    return Fold(**{"initial": dict, "apply": lambda state, event: None, **fields})


def raw(state: Any) -> msgspec.Raw:
    return msgspec.Raw(codec.encode(state))


# Fold.step


def test_reducer_that_returns_a_state_gives_the_next_one() -> None:
    summing = folding(apply=lambda state, event: state + event.data)
    assert summing.step(40, event(data=2)) == 42
    assert summing.step(0, event(data=0)) == 0


def test_reducer_that_changes_its_state_and_returns_none_keeps_it() -> None:
    state: list[int] = []
    assert (
        folding(apply=lambda state, event: state.append(event.seq)).step(state, event(7)) is state
    )
    assert state == [7]


def test_reducer_that_returns_something_empty_gives_that_and_not_the_old_state() -> None:
    for empty in ({}, [], 0, "", False):
        assert folding(apply=lambda state, event, empty=empty: empty).step("old", event()) == empty


# stored_state


@pytest.mark.parametrize("version", [3, 4, 99])
def test_state_of_this_version_or_a_newer_one_is_taken_as_it_is(version: int) -> None:
    never = {step: Migration(state=lambda state: 1 / 0) for step in range(1, 9)}
    taken = fold.stored_state(raw({"n": 1}), version, folding(schema_version=3, migrations=never))
    assert taken == {"n": 1}


def test_state_goes_through_every_migration_in_order() -> None:
    def note(name: str) -> Any:
        return lambda state: [*state, name]

    migrations = {1: note("1"), 2: Migration(state=note("2")), 3: Migration(event=lambda e: e)}
    old = folding(schema_version=4, migrations=migrations)
    assert fold.stored_state(raw(["0"]), 1, old) == ["0", "1", "2"]
    assert fold.stored_state(raw(["0"]), 2, old) == ["0", "2"]
    assert fold.stored_state(raw(["0"]), 3, old) == ["0"]


def test_state_is_decoded_into_its_type_before_and_after_migrations() -> None:
    typed = folding(state_type=Counter)
    assert fold.stored_state(raw({"count": 3}), 1, typed) == Counter(3)
    renamed = folding(
        state_type=Counter,
        schema_version=2,
        migrations={1: lambda state: {"count": state["n"]}},
    )
    assert fold.stored_state(raw({"n": 3}), 1, renamed) == Counter(3)


def test_state_that_does_not_fit_its_type_is_refused() -> None:
    with pytest.raises(LineError, match=r"not a Counter: .*\$\.count"):
        fold.stored_state(raw({"count": "3"}), 1, folding(state_type=Counter))


def test_state_with_lone_surrogates_comes_back_and_can_be_migrated() -> None:
    assert fold.stored_state(raw(["\ud800"]), 1, folding()) == ["\ud800"]
    old = folding(schema_version=2, migrations={1: lambda state: [*state, "\udfff"]})
    assert fold.stored_state(raw(["\ud800"]), 1, old) == ["\ud800", "\udfff"]


@pytest.mark.parametrize("migrations", [{}, {1: Migration()}, {2: Migration()}])
def test_missing_migration_is_said_with_its_number(migrations: Any) -> None:
    old = folding(schema_version=3, migrations=migrations)
    missing = 2 if 1 in migrations else 1
    for call in (fold.stored_state, lambda _, version, old: fold.migrated(event(), version, old)):
        with pytest.raises(FormatVersionError) as caught:
            call(raw({}), 1, old)
        assert f"has schema version {missing}, the program 3, and migrations[{missing}] is" in str(
            caught.value
        )
        assert "Nothing was changed" in str(caught.value)


# migrated


def test_event_goes_through_every_migration_in_order() -> None:
    def note(name: str) -> Any:
        return lambda event: msgspec.structs.replace(event, data=[*event.data, name])

    migrations = {
        1: Migration(event=note("1")),
        2: lambda state: state,
        3: Migration(event=note("3")),
    }
    old = folding(schema_version=4, migrations=migrations)
    assert fold.migrated(event(data=[]), 1, old).data == ["1", "3"]
    assert fold.migrated(event(data=[]), 3, old).data == ["3"]


@pytest.mark.parametrize("version", [2, 3])
def test_event_of_this_version_or_a_newer_one_is_taken_as_it_is(version: int) -> None:
    same = event()
    assert fold.migrated(same, version, folding(schema_version=2)) is same


# events_of


def records(count: int, data: Any = None) -> list[Record]:
    """The records of a batch of this many events."""
    lines = batch(START, count, data).split(b"\n")[:-1] if count else []
    return [Record(0, text, seq, None, 0) for seq, text in enumerate(lines, 1)]


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 100])
@pytest.mark.parametrize("data", [None, "\ud800", "x" * 20_000])
def test_events_of_a_batch_are_those_of_its_lines(count: int, data: Any) -> None:
    lines = [record.line for record in records(count, data)]
    assert list(fold.events_of(records(count, data))) == list(map(codec.event, lines))


@pytest.mark.parametrize("at", [0, 1, 40, 69])
@pytest.mark.parametrize("odd", [b'"type":7,"data"', b'"seq":900,"data"', b'"proven":1,"data"'])
def test_line_that_is_no_event_is_refused_behind_those_before_it(at: int, odd: bytes) -> None:
    found, given = [], records(70)
    given[at] = given[at]._replace(line=given[at].line.replace(b'"data"', odd))
    with contextlib.suppress(LineError):
        for one in fold.events_of(given):
            found.append(one.seq)
    is_event = b"proven" in odd
    assert found == list(range(1, 71 if is_event else at + 1))


@pytest.mark.parametrize("at", [0, 1, 31, 32, 69])
@pytest.mark.parametrize("between", [b"", b" ", b"\r"])
def test_line_with_two_objects_is_refused_behind_those_before_it(at: int, between: bytes) -> None:
    found, given = [], records(70)
    text = given[at].line
    given[at] = given[at]._replace(line=text + between + text)
    with pytest.raises(LineError):
        for one in fold.events_of(given):
            found.append(one.seq)
    assert found == list(range(1, at + 1))


# remember


def remembered(*names: str | None) -> dict[str, RememberedId]:
    """The window after events with these ids."""
    window: dict[str, RememberedId] = {}
    for seq, name in enumerate(names, 1):
        ids = {} if name is None else {"event_id": name}
        text = line(START, {"n": seq}, seq=seq, **ids)[:-1]
        fold.remember(window, text, event(seq, crc=f"{0x0A00 + seq:08x}", **ids))
    return window


def test_event_without_an_id_is_not_remembered() -> None:
    assert remembered(None) == {}


def test_event_with_an_id_is_remembered_with_place_and_digest_of_what_it_was() -> None:
    digest = codec.digest(body({"n": 2}, event_id="e1"))
    assert remembered(None, "e1") == {"e1": RememberedId("e1", 2, "00000a02", digest)}


@pytest.mark.parametrize("b", [None, 0, 3])
def test_digest_does_not_depend_on_seq_time_batch_and_chain(b: int | None) -> None:
    window: dict[str, RememberedId] = {}
    data = {"type": "x", "a": ',"type":"y"'}
    text = line(START, data, seq=77, b=b, event_id="e1")[:-1]
    fold.remember(window, text, event(77, event_id="e1"))
    assert window["e1"].digest == codec.digest(body(data, event_id="e1"))


@pytest.mark.parametrize("data", [None, {"crc": "0a1b2c3d"}, {"x": 1, "crc": '","crc":"'}])
def test_line_may_have_its_line_feed_and_a_crc_in_its_data(data: Any) -> None:
    """A writer remembers what it wrote, recovery and verify what they read."""
    text = line(START, data, event_id="e1")
    with_feed: dict[str, RememberedId] = {}
    without: dict[str, RememberedId] = {}
    fold.remember(with_feed, text, event(event_id="e1"))
    fold.remember(without, text[:-1], event(event_id="e1"))
    assert with_feed == without
    assert with_feed["e1"].digest == codec.digest(body(data, event_id="e1"))


def test_ids_stand_in_the_order_of_their_newest_use() -> None:
    window = remembered("e1", "e2", "e1")
    assert list(window) == ["e2", "e1"]
    assert (window["e2"].seq, window["e1"].seq) == (2, 3)


def test_only_the_newest_1024_ids_are_remembered() -> None:
    assert EVENT_ID_WINDOW == 1024
    assert len(remembered(*map(str, range(1024)))) == 1024
    window = remembered(*map(str, range(1030)))
    assert list(window) == [str(number) for number in range(6, 1030)]
