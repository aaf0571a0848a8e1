"""FAULTS U: invalid UTF-8, lone surrogates, byte order marks."""

import base64

import pytest

from durasess import CorruptionError
from tests.faults.tails import with_and_without_filler, write_on
from tests.support.sessions import (
    make_session,
    make_unclean,
    open_inline,
    open_session,
    segment_path,
    state_of,
    unacknowledged,
    unchanged,
)

BOM = b"\xef\xbb\xbf"


@with_and_without_filler
def test_u1_cut_inside_a_character_is_a_torn_tail(tmp_path, preallocate):
    path = make_unclean(tmp_path / "s1", preallocate=preallocate)
    line = unacknowledged(path, "café")
    write_on(segment_path(path), line[: line.index("é".encode()) + 1])
    assert state_of(path) == [1, 2, 3]
    with open_inline(path) as engine:
        assert engine.append("counted", "é").seq == 4


def test_u1_invalid_utf8_in_the_middle_is_damage_not_a_decode_error(tmp_path):
    path = make_session(tmp_path / "s1")
    data = segment_path(path).read_bytes()
    segment_path(path).write_bytes(data.replace(b'"counted"', b'"count\xff\xfe"', 1))
    with unchanged(path), pytest.raises(CorruptionError):
        open_inline(path)
    assert [event.seq for event in open_session(path, mode="read").events()] == [2, 3]


SURROGATES = ["\udcff", "caf\udce9", "\ud83d", "\udc00\ud800", {"k": ["\ud83d"]}]


@pytest.mark.parametrize("value", SURROGATES)
def test_u2_lone_surrogates_come_back_as_they_were(tmp_path, value):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("t", value)
        assert engine.state == [value]
        assert next(engine.events()).data == value
    assert state_of(tmp_path / "s1") == [value]


def test_u2_raw_bytes_become_base64(tmp_path):
    raw = b"caf\xe9 \xff"
    with open_inline(tmp_path / "s1") as engine:
        engine.append("t", raw)
        assert base64.b64decode(engine.state[0]) == raw


def test_u8_lone_surrogates_in_ids_and_types_come_back(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("t\ud800", 1, event_id="e\udfff")
        engine.snapshot()
    with open_inline(tmp_path / "s1") as engine:
        (event,) = engine.events()
        assert (event.type, event.event_id) == ("t\ud800", "e\udfff")
        assert engine.append("t\ud800", 1, event_id="e\udfff").seq == 1


@pytest.mark.parametrize("name", ["meta.json", "events_0001.jsonl"])
@pytest.mark.parametrize("edit", ["bom", "crlf", "both"])
@pytest.mark.parametrize("make", [make_session, make_unclean])
def test_u7_what_an_editor_puts_there_is_passed_over_and_never_made(tmp_path, name, edit, make):
    path = make(tmp_path / "s1")
    file = tmp_path / "s1" / name
    data = file.read_bytes()
    if edit != "bom":
        data = data.replace(b"\n", b"\r\n")
    if edit != "crlf":
        data = BOM + data
    file.write_bytes(data)
    assert state_of(path) == [1, 2, 3]
    with open_inline(path) as engine:
        assert engine.append("counted", 4).seq == 4
    newest = segment_path(path, 2).read_bytes()
    assert not newest.startswith(BOM)
    assert b"\r" not in newest
    assert state_of(path) == [1, 2, 3, 4]
