"""The engine's words as values: what they say in messages, that they do not change."""

import msgspec
import pytest

from durasess.engine.types import (
    Damage,
    Draft,
    Event,
    Holder,
    LineError,
    Migration,
    Recovery,
    SegmentInfo,
    TornTail,
)

HOLDER = Holder(4121, "build-7", "", "2026-01-01T10:11:12.000000Z", "python harness.py")
TORN = TornTail(path="/s1/events_0003.jsonl", offset=400, size=43, reason="no line feed")


def damage(**fields: object) -> Damage:
    return Damage(path="/s1/events_0003.jsonl", rule="crc", reason="stored 1, computed 2", **fields)


def test_line_error_names_the_rule_and_the_reason() -> None:
    error = LineError("crc", "stored 1, computed 2")
    assert (error.rule, error.reason) == ("crc", "stored 1, computed 2")
    assert str(error) == "stored 1, computed 2"


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (Event(seq=1, ts="", type="note", data=None), "seq"),
        (Draft("note"), "type"),
        (Migration(), "state"),
        (HOLDER, "pid"),
        (damage(), "path"),
        (TORN, "size"),
        (
            SegmentInfo(
                path="", number=1, bytes=0, events=0, first_seq=1, last_seq=0, sealed=False
            ),
            "number",
        ),
    ],
)
def test_value_cannot_be_changed(value: msgspec.Struct, field: str) -> None:
    with pytest.raises(AttributeError):
        setattr(value, field, 7)


def test_event_is_proven_unless_said_otherwise() -> None:
    event = Event(seq=1, ts="", type="note", data=None)
    assert (event.proven, event.run_id, event.call_id, event.event_id) == (True, None, None, None)


def test_holder_says_process_host_time_and_command() -> None:
    assert str(HOLDER) == (
        "process 4121 on host build-7 since 2026-01-01T10:11:12.000000Z (python harness.py)"
    )


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({}, ""),
        ({"offset": 0}, " at byte 0"),
        ({"offset": 512, "first_seq": 3}, " at byte 512 (seq 3)"),
        ({"offset": 512, "first_seq": 3, "last_seq": 3}, " at byte 512 (seq 3)"),
        ({"first_seq": 3, "last_seq": 5}, " (seq 3 to 5)"),
        ({"last_seq": 5}, ""),
    ],
)
def test_damage_says_file_offset_seqs_reason_and_rule(fields: dict[str, int], place: str) -> None:
    assert str(damage(**fields)) == f"/s1/events_0003.jsonl{place}: stored 1, computed 2 [crc]"


def test_clean_recovery_says_how_far_it_got() -> None:
    report = Recovery(session_id="s1", snapshot_seq=40, replayed=2, last_seq=42)
    assert str(report) == "session s1: events 1 to 42; snapshot at seq 40, 2 replayed"


def test_recovery_of_a_new_session_counts_no_events() -> None:
    said = str(Recovery(session_id="s1"))
    assert said == "session s1: no events yet; snapshot at seq 0, 0 replayed"


def test_recovery_leaves_nothing_out_that_was_found() -> None:
    report = Recovery(session_id="s1", torn=TORN, notices=["first", "second"], damage=[damage()])
    assert str(report).split("; ")[2:] == [
        "torn tail: 43 bytes of /s1/events_0003.jsonl",
        "notice: first",
        "notice: second",
        "damage: /s1/events_0003.jsonl: stored 1, computed 2 [crc]",
    ]


def test_reports_do_not_share_their_lists() -> None:
    Recovery().notices.append("only here")
    assert Recovery().notices == []
