"""FAULTS V: versions, changed schemas, and that no failed open ever harms anything."""

import errno

import msgspec
import pytest

from durasess import CorruptionError, DurasessError, FormatVersionError, Migration, StorageError
from durasess.engine import codec
from tests.support.harness import ask, begin_run, call_in, crash, start_call, store_at, types
from tests.support.sessions import (
    SIM_PATH,
    collect,
    flip_bit,
    lines_of,
    make_segments,
    make_session,
    make_snapshots,
    open_inline,
    open_session,
    open_sim,
    segment_path,
    sim_disk,
    state_of,
    unchanged,
)
from tests.support.sim_files import SimFiles


def picky(state, event):
    """A reducer that does not take what it finds."""
    state.append(event.data["n"] + 1)


def test_v1_event_that_the_program_cannot_take_never_costs_the_session(tmp_path):
    with open_inline(tmp_path / "s1", snapshot_every=10**9) as engine:
        engine.append("counted", {"n": 1})
        engine.append("counted", {"n": "two"})
        engine.append("counted", {"n": 3})
        engine.abandon()
    with unchanged(tmp_path), pytest.raises(CorruptionError, match="Correct the program") as caught:
        open_inline(tmp_path / "s1", apply=picky)
    assert caught.value.seq == 2
    reader = open_session(tmp_path / "s1", mode="read", apply=picky)
    assert (reader.state, reader.last_seq) == ([2], 1)
    assert [event.seq for event in reader.events()] == [1, 2, 3]
    with open_inline(tmp_path / "s1") as engine:
        assert engine.last_seq == 3


def test_v1_extra_fields_of_a_newer_writer_are_passed_over(tmp_path):
    import zlib

    path = make_session(tmp_path / "s1", 1)
    file = segment_path(path)
    lines = lines_of(file)
    text = lines[1][:-18].replace(b',"data"', b',"new_field":{"x":[1]},"data"')
    crc = zlib.crc32(text)
    file.write_bytes(lines[0] + b"\n" + b'%s,"crc":"%08x"}\n' % (text, crc))
    (tmp_path / "s1" / "lock").write_bytes(b"")
    assert state_of(path) == [1]


@pytest.mark.parametrize("where", ["meta", "header"])
def test_v2_newer_format_is_refused_for_writing_and_nothing_is_changed(tmp_path, where):
    path = make_session(tmp_path / "s1")
    if where == "meta":
        (tmp_path / "s1" / "meta.json").write_bytes(
            codec.control_line({"format": 2, "session_id": "s1"})
        )
    else:
        lines = lines_of(segment_path(path))
        lines[0] = lines[0].replace(b'"format":1', b'"format":2')
        segment_path(path).write_bytes(b"\n".join(lines) + b"\n")
    with unchanged(path), pytest.raises(FormatVersionError, match="Upgrade durasess"):
        open_inline(path)


def test_v2_newer_schema_is_readable_but_not_writable(tmp_path):
    path = make_session(tmp_path / "s1", schema_version=2)
    with unchanged(path), pytest.raises(FormatVersionError, match='mode="read"'):
        open_inline(path)
    reader = open_session(path, mode="read")
    assert (reader.state, reader.recovery.newer_schema) == ([1, 2, 3], True)


def test_v2_newer_schema_is_known_from_the_segments_when_a_crash_brought_old_meta_back():
    files = sim_disk()
    open_sim(files).close()
    old_meta = files.tree()[f"{SIM_PATH}/meta.json"]
    engine = open_sim(files, schema_version=2, migrations={1: Migration()})
    engine.append("of_version_2", 1)
    engine.abandon()
    files = SimFiles.from_tree({**files.tree(), f"{SIM_PATH}/meta.json": old_meta})
    before = files.tree()
    with pytest.raises(FormatVersionError):
        open_sim(files).close()
    assert files.tree() == before


STEPS = {
    1: Migration(
        state=lambda state: [n * 10 for n in state],
        event=lambda event: msgspec.structs.replace(event, data=event.data * 10),
    ),
    2: lambda state: [n + 1 for n in state],
}


@pytest.mark.parametrize("snapshot", [False, True])
def test_v2_state_and_events_of_an_older_schema_are_migrated_in_memory(tmp_path, snapshot):
    make = make_snapshots if snapshot else make_session
    path = make(tmp_path / "s1", 3)
    with unchanged(path):
        reader = open_session(path, mode="read", schema_version=2, migrations=STEPS)
        assert reader.state == [10, 20, 30]
    with open_inline(path, schema_version=2, migrations=STEPS) as engine:
        engine.append("counted", 40)
        assert [event.data for event in engine.events()] == [10, 20, 30, 40]
        engine.snapshot()
    with open_inline(path, schema_version=2, migrations=STEPS) as engine:
        assert engine.state == [10, 20, 30, 40]


def test_v2_migrations_are_taken_in_steps(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    assert state_of(path, schema_version=3, migrations=STEPS) == [11, 21]


def test_v2_missing_step_is_refused(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    with unchanged(path), pytest.raises(FormatVersionError, match=r"migrations\[2\] is missing"):
        open_inline(path, schema_version=3, migrations={1: STEPS[1]})


@pytest.mark.parametrize("part", ["state", "event"])
def test_v2_migration_that_raises_changes_nothing_and_lets_go(tmp_path, part):
    def fail(_value):
        raise KeyError("old")

    path = (make_snapshots if part == "state" else make_session)(tmp_path / "s1", 2)
    steps = {1: Migration(**{part: fail})}
    with unchanged(path), pytest.raises(Exception, match="old"):
        open_inline(path, schema_version=2, migrations=steps)
    open_inline(path).close()


def test_v2_migration_of_the_state_that_raises_is_an_error_of_this_library(tmp_path):
    def fail(_value):
        raise KeyError("old")

    path = make_snapshots(tmp_path / "s1", 2)
    with pytest.raises(DurasessError):
        open_inline(path, schema_version=2, migrations={1: fail})


def test_v2_state_that_no_longer_fits_its_type_is_an_error_of_this_library(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    with unchanged(path), pytest.raises(DurasessError):
        open_inline(path, state_type=dict[str, int])


def test_v4_event_of_a_type_that_does_not_exist_now_loads(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("tool_that_was_renamed", {"x": 1})
    assert state_of(tmp_path / "s1") == [{"x": 1}]


def break_meta(path):
    flip_bit(path / "meta.json", 40)


def lose_meta(path):
    (path / "meta.json").unlink()


def empty_meta(path):
    (path / "meta.json").write_bytes(b"")


@pytest.mark.parametrize("harm", [break_meta, lose_meta, empty_meta])
@pytest.mark.parametrize("make", [make_snapshots, make_segments])
def test_v7_broken_or_missing_meta_costs_the_floor_and_nothing_else(tmp_path, harm, make):
    path = make(tmp_path / "s1", 3)
    expected = state_of(path)
    harm(tmp_path / "s1")
    with unchanged(path):
        reader = open_session(path, mode="read")
        assert reader.state == expected
        assert any("floor is lost" in notice for notice in reader.notices)
    with open_inline(path) as engine:
        assert engine.append("counted", "next").seq == len(expected) + 1
    with open_inline(path) as engine:
        assert engine.recovery.notices == []


def test_v7_older_meta_claims_less_and_is_fine(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("counted", 1)
    old = (tmp_path / "s1" / "meta.json").read_bytes()
    with open_inline(tmp_path / "s1") as engine:
        engine.append("counted", 2)
        engine.snapshot()
    (tmp_path / "s1" / "meta.json").write_bytes(old)
    with open_inline(tmp_path / "s1") as engine:
        assert (engine.state, engine.damage) == ([1, 2], ())


def test_v7_meta_of_another_session_is_refused(tmp_path):
    make_session(tmp_path / "s1")
    make_session(tmp_path / "s2")
    (tmp_path / "s1" / "meta.json").write_bytes((tmp_path / "s2" / "meta.json").read_bytes())
    with unchanged(tmp_path), pytest.raises(CorruptionError, match="s2"):
        open_inline(tmp_path / "s1")


def test_v8_log_that_ends_below_what_meta_knows_is_refused(tmp_path):
    path = make_segments(tmp_path / "s1", 3)
    segment_path(path, 3).unlink()
    with unchanged(path), pytest.raises(CorruptionError, match=r"events_0003\.jsonl"):
        open_inline(path)


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EMFILE])
@pytest.mark.parametrize("name", ["meta.json", "snapshot.json.zst", "owner", "lock"])
def test_v10_error_that_passes_is_raised_and_the_next_open_works(code, name):
    files = sim_disk()
    with open_sim(files) as engine:
        engine.append("t", 1)
    before = files.tree()
    files.fail("open", code=code, where=f"{SIM_PATH}/{name}")
    with pytest.raises(StorageError) as caught:
        open_sim(files)
    assert caught.value.errno == code
    assert {path: data for path, data in files.tree().items() if not path.endswith("owner")} == {
        path: data for path, data in before.items() if not path.endswith("owner")
    }
    with open_sim(files) as engine:
        assert engine.state == [1]


# Snapshots that are not what they should be


def snapshot_file(tmp_path, previous=False):
    return tmp_path / "s1" / ("snapshot.prev.json.zst" if previous else "snapshot.json.zst")


def test_bad_snapshot_is_kept_reported_and_replaced(tmp_path):
    path = make_snapshots(tmp_path / "s1", 3)
    flip_bit(snapshot_file(tmp_path), 25)
    bad = snapshot_file(tmp_path).read_bytes()
    with open_inline(path) as engine:
        assert engine.state == [1, 2, 3]
        assert engine.recovery.snapshot_seq == 2
        with open(engine.recovery.quarantined[0], "rb") as kept:
            assert kept.read() == bad
        engine.append("counted", 4)
        engine.snapshot()
    with open_inline(path) as engine:
        assert (engine.recovery.snapshot_seq, engine.recovery.notices) == (4, [])


def test_bad_newest_snapshot_does_not_push_out_the_good_previous_one(tmp_path):
    path = make_snapshots(tmp_path / "s1", 3)
    previous = snapshot_file(tmp_path, previous=True).read_bytes()
    flip_bit(snapshot_file(tmp_path), 25)
    with open_inline(path) as engine:
        engine.append("counted", 4)
        engine.snapshot()
        assert snapshot_file(tmp_path, previous=True).read_bytes() == previous


def test_both_snapshots_bad_means_replay_from_the_beginning(tmp_path):
    path = make_snapshots(tmp_path / "s1", 3)
    for previous in (False, True):
        flip_bit(snapshot_file(tmp_path, previous), 25)
    with open_inline(path) as engine:
        assert (engine.state, engine.recovery.snapshot_seq) == ([1, 2, 3], 0)


def test_snapshot_of_another_session_is_passed_over(tmp_path):
    path = make_snapshots(tmp_path / "s1", 3)
    make_snapshots(tmp_path / "s2", 5)
    other = tmp_path / "s2" / "snapshot.json.zst"
    snapshot_file(tmp_path).write_bytes(other.read_bytes())
    assert state_of(path) == [1, 2, 3]


def test_older_snapshot_put_back_is_replayed_from(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    old = snapshot_file(tmp_path).read_bytes()
    with open_inline(path) as engine:
        for n in (3, 4, 5):
            engine.append("counted", n)
            engine.snapshot()
    snapshot_file(tmp_path).write_bytes(old)
    with open_inline(path) as engine:
        assert engine.state == [1, 2, 3, 4, 5]


def test_bad_newest_snapshot_after_a_prune_loses_nothing(tmp_path):
    path = make_snapshots(tmp_path / "s1", 5)
    with open_inline(path) as engine:
        assert engine.prune().segments == [1, 2, 3, 4]
    flip_bit(snapshot_file(tmp_path), 25)
    with open_inline(path) as engine:
        assert engine.state == [1, 2, 3, 4, 5]


def test_both_snapshots_bad_after_a_prune_is_damage_and_never_an_empty_session(tmp_path):
    path = make_snapshots(tmp_path / "s1", 5)
    with open_inline(path) as engine:
        engine.prune()
    for previous in (False, True):
        flip_bit(snapshot_file(tmp_path, previous), 25)
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path)
    assert [event.data for event in open_session(path, mode="read").events(after=4)] == [5]


def test_reducer_may_mutate_or_return(tmp_path):
    make_session(tmp_path / "s1")
    returned = state_of(tmp_path / "s1", initial=tuple, apply=lambda s, e: (*s, e.data))
    mutated = state_of(tmp_path / "s1", initial=list, apply=collect)
    assert list(returned) == mutated == [1, 2, 3]


# In a session: odd fields, tools that are gone


ODD = [
    {"content": "a", "usage": {"prompt": "12"}},
    {"content": "a", "usage": {"prompt": 12, "of_a_newer_writer": 1}},
    {"content": "a", "usage": {"prompt": 12}, "of_a_newer_writer": {"x": []}},
    {"usage": {"prompt": 12}},
]


def written_by_another(path, *said):
    """Events behind a session's own that no validation of ours saw."""
    with open_session(
        path, initial=dict, apply=lambda state, event: {}, schema_version=2
    ) as engine:
        for type, data in said:
            engine.append(type, data)


@pytest.mark.parametrize("data", ODD)
def test_v1_session_with_odd_fields_is_read_tolerantly(tmp_path, data):
    store = store_at(tmp_path)
    crash(store.create("s"))
    written_by_another(tmp_path / "store" / "s", ("assistant_message", data))
    for snapshot in (tmp_path / "store" / "s").glob("snapshot*"):
        snapshot.unlink()
    with store.open("s") as session:
        assert session.usage.prompt == 12
        assert session.state.counts.unreadable == 0


@pytest.mark.parametrize(
    "data", [None, 7, [], {"content": 1, "usage": "many"}, {"tool_calls": "none"}, {"usage": [1]}]
)
def test_v1_event_that_cannot_be_read_is_counted_and_nothing_is_lost(tmp_path, data):
    store = store_at(tmp_path)
    session = store.create("s", title="kept")
    session.note("before")
    crash(session)
    written_by_another(
        tmp_path / "store" / "s", ("assistant_message", data), ("note", {"text": "x"})
    )
    for snapshot in (tmp_path / "store" / "s").glob("snapshot*"):
        snapshot.unlink()
    for _ in range(2):
        with store.open("s") as again:
            assert (again.title, again.state.counts.unreadable) == ("kept", 1)
            assert types(again)[-2:] == ["assistant_message", "note"]


@pytest.mark.parametrize("status", ["pending", "running", "completed"])
def test_v4_call_of_a_tool_that_is_gone_is_loaded_and_shown(tmp_path, status):
    store = store_at(tmp_path)
    store.tool("renamed", effect="idempotent")
    session = store.create("s")
    run = begin_run(session)
    ask(run, "c", name="renamed")
    if status != "pending":
        call = start_call(run, "c")
        if status == "completed":
            call.result("ok")
    crash(session)
    with store_at(tmp_path).open("s") as again:
        assert call_in(again, "c").name == "renamed"
        assert "renamed" in str(again.context().openai())


def test_v4_events_of_a_reducer_that_is_gone_are_kept(tmp_path):
    store = store_at(tmp_path, reducers={"counted": lambda state, event: {"n": 1}})
    with store.create("s") as session:
        session.emit("counted", {})
    with store_at(tmp_path).open("s") as again:
        assert types(again)[-1] == "counted"
        assert again.custom_state == {"n": 1}
