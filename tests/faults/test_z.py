"""FAULTS Z: usage counters, clocks, time zones."""

import os
import time
from types import SimpleNamespace

import pytest

from durasess.session.state import Usage
from tests.support.harness import crash, store_at


@pytest.fixture
def store(tmp_path):
    return store_at(tmp_path)


@pytest.mark.parametrize("end", ["close", "crash", "snapshot"])
def test_z1_usage_is_the_sum_over_all_openings(store, end):
    session = store.create("s")
    for _ in range(3):
        with session.run("x") as run:
            run.assistant("a", usage={"prompt_tokens": 10, "completion_tokens": 1})
        if end == "snapshot":
            session.snapshot()
        crash(session) if end == "crash" else session.close()
        session = store.open("s")
    assert session.usage == Usage(30, 3, 33)
    assert [one.usage for one in session.runs] == [Usage(10, 1, 11)] * 3
    session.close()


@pytest.mark.parametrize(
    ("reports", "total"),
    [([100, 200, 10], 210), ([5], 5), ([0, 7, 7], 7), ([3, 2, 1], 6), ([1, 5, 2, 9], 14)],
)
@pytest.mark.parametrize("reopened", [False, True])
def test_z2_cumulative_counter_that_starts_again_is_stored_as_deltas(
    store, reports, total, reopened
):
    session = store.create("s")
    for reported in reports:
        session.record_usage({"prompt_tokens": reported}, counter="provider")
        if reopened:
            session.close()
            session = store.open("s")
    assert session.usage.prompt == total
    deltas = [one.data["usage"].get("prompt", 0) for one in session.events() if "usage" in one.data]
    assert sum(deltas) == total
    session.close()


def test_z2_counters_of_two_sources_do_not_mix(store):
    with store.create("s") as session:
        for name, reported in (("a", 10), ("b", 3), ("a", 12), ("b", 4)):
            session.record_usage({"prompt": reported}, counter=name)
        assert session.usage.prompt == 12 + 4


SHAPES = [
    ({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}, Usage(5, 3, 8)),
    ({"input_tokens": 5, "output_tokens": 3}, Usage(5, 3, 8)),
    (
        {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 1},
        Usage(13, 0, 13),
    ),
    ({"prompt": 5, "completion": 3, "cost": 0.25}, Usage(5, 3, 8, 0.25)),
    ({"total_tokens": 9}, Usage(0, 0, 9)),
    (
        {"input_tokens": 5, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 2}},
        Usage(5, 3, 8),
    ),
    (SimpleNamespace(prompt_tokens=5, completion_tokens=3, total_tokens=None), Usage(5, 3, 8)),
    (Usage(1, 2, 3), Usage(1, 2, 3)),
    ({"prompt_tokens": None}, Usage()),
    ({}, Usage()),
    (None, Usage()),
]


@pytest.mark.parametrize(("reported", "counted"), SHAPES)
def test_usage_of_any_provider_is_counted_alike(store, reported, counted):
    with store.create("s") as session, session.run("x") as run:
        run.assistant("a", usage=reported)
        run.usage(reported)
        twice = Usage(*(2 * getattr(counted, one) for one in Usage.__struct_fields__))
        assert session.usage == twice


def test_z4_reading_and_touching_do_not_change_the_order(store, tmp_path):
    for name in ("old", "new"):
        store.create(name).close()
    os.utime(tmp_path / "store" / "old" / "meta.json", (2**32, 2**32))
    store.open("old", mode="read").close()
    with store.latest() as found:
        assert found.session_id == "new"


@pytest.mark.parametrize("step", [0, -3_600_000_000_000])
def test_z5_order_is_by_seq_whatever_the_clock_says(tmp_path, step):
    now = [1_800_000_000_000_000_000]

    def clock():
        now[0] += step
        return now[0]

    store = store_at(tmp_path, clock=clock)
    with store.create("s") as session:
        for n in range(5):
            session.note(str(n))
    with store.open("s") as again:
        assert [one.data["text"] for one in again.events() if one.type == "note"] == list("01234")


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_z7_no_local_time_in_names_and_records(tmp_path, monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        with store_at(tmp_path, clock=lambda: 1_800_000_000_000_000_000).create() as session:
            assert session.session_id.startswith("20270115-080000-")
            assert session.state.meta.created_at == "2027-01-15T08:00:00.000000Z"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_z8_a_hundred_events_of_one_second_keep_their_order(tmp_path):
    store = store_at(tmp_path, clock=lambda: 1_800_000_000_000_000_000)
    with store.create("s") as session, session.run("x") as run:
        for n in range(100):
            run.user(str(n))
    with store.open("s") as again:
        assert [one.content for one in again.history()][1:] == [str(n) for n in range(100)]
