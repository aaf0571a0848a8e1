"""The live state: what a recovery would find, whoever wrote the events, and told to followers."""

import msgspec
import pytest

from durasess import FormatVersionError, SessionFailedError
from durasess.engine import codec, recovery
from durasess.engine.admission import encode_batch
from durasess.engine.drafting import Drafting
from durasess.engine.feeds import Published
from durasess.engine.fold import Fold
from durasess.engine.live import Live
from durasess.engine.records import Record
from durasess.engine.types import Draft, Migration
from tests.support.lines import TS
from tests.support.sessions import SIM_PATH, collect, open_sim, sim_disk


def fold_of(apply=collect, **more):
    return Fold(initial=list, apply=apply, **more)


def recovered(fold, events=2):
    """What recovery finds in a session whose events carry 1, 2 …, with ids e1, e2 …"""
    files = sim_disk()
    with open_sim(files, snapshot_every=10**9) as engine:
        for n in range(1, events + 1):
            engine.append("t", n, event_id=f"e{n}")
    return recovery.recover(files, SIM_PATH, fold, writer=False)


class Case:
    """A live state after two events, what grew, and batches that follow it."""

    def __init__(self, apply=collect, **more):
        self.grown = (0, 0)
        self.live = Live(recovered(fold_of()), fold_of(apply, **more), self.grew)
        self.feed = self.live.feeds.open()

    def grew(self, events, size):
        self.grown = (self.grown[0] + events, self.grown[1] + size)

    def batch(self, *data):
        items = [
            Drafting().prepared(Draft("t", value, event_id=f"e{value}" if value else None))
            for value in data
        ]
        return encode_batch(items, self.live.place, TS)

    def records(self, *data):
        """The same batch as another writer's log has it."""
        made = self.batch(*data)
        return [
            Record(0, line[:-1], place.seq, None, place.chain)
            for line, place in zip(made.lines, made.places, strict=True)
        ]

    def offered(self):
        return [one.seq for one in self.feed.take(0)]


@pytest.fixture
def case():
    return Case()


# publish and take


def test_own_batch_moves_state_place_ids_and_followers(case):
    made = case.batch(3, 4)
    case.live.publish(made)
    assert (case.live.state, case.live.place) == ([1, 2, 3, 4], made.places[-1])
    assert list(case.live.event_ids) == ["e1", "e2", "e3", "e4"]
    assert case.feed.take(0) == [
        Published(seq, line[:-1], 1) for seq, line in zip((3, 4), made.lines, strict=True)
    ]
    assert case.grown == (2, sum(map(len, made.lines)))


def test_batch_of_another_writer_moves_everything_as_an_own_one_does():
    own, others = Case(), Case()
    own.live.publish(own.batch(3, None, 5))
    others.live.take(others.records(3, None, 5), 1)
    assert others.live.state == own.live.state == [1, 2, 3, None, 5]
    assert others.live.place == own.live.place
    assert others.live.event_ids == own.live.event_ids
    assert others.grown == own.grown
    assert others.feed.take(0) == own.feed.take(0)


def test_what_was_published_is_what_a_recovery_finds():
    case = Case()
    case.live.publish(case.batch(3))
    again = recovered(fold_of(), 3)
    assert (case.live.state, case.live.place.seq) == (again.state, again.place.seq)
    assert [one.digest for one in case.live.event_ids.values()] == [
        one.digest for one in again.event_ids.values()
    ]


def test_reducer_may_return_a_new_state():
    case = Case(lambda state, event: [*state, event.data])
    before = case.live.state
    case.live.publish(case.batch(3))
    assert (before, case.live.state) == ([1, 2], [1, 2, 3])


# Events that cannot be taken


@pytest.mark.parametrize("how", ["publish", "take"])
@pytest.mark.parametrize("error", [ValueError("no"), KeyError("x"), RecursionError()])
def test_reducer_that_raises_ends_the_handle_and_names_the_seq(how, error):
    def picky(state, event):
        if event.data == 4:
            raise error
        state.append(event.data)

    case = Case(picky)
    work = {
        "publish": lambda: case.live.publish(case.batch(3, 4, 5)),
        "take": lambda: case.live.take(case.records(3, 4, 5), 1),
    }
    with pytest.raises(SessionFailedError, match="apply raised") as caught:
        work[how]()
    assert (caught.value.seq, caught.value.path) == (4, SIM_PATH)
    assert caught.value.__cause__ is error
    assert (case.live.state, case.live.place.seq, case.offered()) == ([1, 2, 3], 3, [3])


def test_batch_of_a_newer_schema_is_not_taken(case):
    with pytest.raises(FormatVersionError, match=r"schema version 2.*newer.*1") as caught:
        case.live.take(case.records(3), 2)
    assert (caught.value.seq, caught.value.path) == (2, SIM_PATH)
    assert (case.live.state, case.live.place.seq, case.offered()) == ([1, 2], 2, [])


def test_batch_of_an_older_schema_is_migrated_and_followers_get_the_line_as_it_is():
    case = Case(schema_version=2, migrations={1: Migration(event=times_ten)})
    case.live.take(case.records(3), 1)
    assert case.live.state == [1, 2, 30]
    (published,) = case.feed.take(0)
    assert published.version == 1
    assert codec.event(published.line).data == 3


def times_ten(event):
    return msgspec.structs.replace(event, data=event.data * 10)


def test_migration_that_raises_ends_the_handle_and_names_the_seq():
    """Else the state would lack an event that the log's place is already behind."""

    def refuse(event):
        raise ValueError("no such thing")

    case = Case(schema_version=2, migrations={1: Migration(event=refuse)})
    with pytest.raises(SessionFailedError) as caught:
        case.live.take(case.records(3), 1)
    assert caught.value.seq == 3
    assert (case.live.state, case.live.place.seq) == ([1, 2], 2)


def test_missing_migration_is_said():
    case = Case(schema_version=2)
    with pytest.raises(FormatVersionError, match=r"migrations\[1\] is missing"):
        case.live.take(case.records(3), 1)


# restart


def test_restart_takes_what_a_new_recovery_found_and_wakes_the_followers(case):
    found = recovered(fold_of(), 5)
    case.live.restart(found)
    assert case.live.state == [1, 2, 3, 4, 5]
    assert case.live.place == found.place
    assert list(case.live.event_ids) == ["e1", "e2", "e3", "e4", "e5"]
    assert case.feed._arrived.is_set()
    assert case.offered() == [], "they read what they missed from disk"


def test_line_that_is_no_event_ends_the_handle_and_names_the_seq(case):
    """Its crc agrees, so another program wrote it on purpose."""
    line = case.batch(3).lines[0].replace(b',"data":3', b"")[:-1]
    with pytest.raises(SessionFailedError, match="is no event") as caught:
        case.live.take([Record(0, line, 3, None, 7)], 1)
    assert caught.value.seq == 3
    assert (case.live.state, case.live.place.seq) == ([1, 2], 2)
