"""Bytes ↔ values: lines that come back, checksums that notice, and bytes that are refused."""

import gc
import hashlib
import json
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durasess.engine import codec
from durasess.engine.codec import Head
from durasess.engine.types import Event
from tests.support.lines import START, TS, UNHURRIED, body, flips, json_values, line, texts
from tests.support.sessions import refused

PREFIX = b'{"seq":1,"ts":"2026-01-01T00:00:00.000000Z"'
CHAINS = st.integers(0, 2**32 - 1)


class Counter(msgspec.Struct):
    count: int
    tags: list[Any] = []


def event_text(members: bytes) -> bytes:
    """An event line without its line feed whose members behind ts are these; the crc agrees."""
    text = PREFIX + members
    return text + b',"crc":"%08x"}' % zlib.crc32(text)


# encode and decode


@given(json_values)
@UNHURRIED
def test_json_value_comes_back_equal(value: Any) -> None:
    assert repr(codec.decode(codec.encode(value))) == repr(value)


@given(json_values)
@UNHURRIED
def test_encoded_value_is_one_line_for_every_reader_and_json_for_others(value: Any) -> None:
    data = codec.encode(value)
    text = data.decode()
    assert len(text.splitlines()) == 1
    assert repr(json.loads(text)) == repr(value)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"a": [1, True, None]}, b'{"a":[1,true,null]}'),
        ("é😀", '"é😀"'.encode()),
        ("a\x85b", b'"a\\u0085b"'),
        ("\u2028\u2029", b'"\\u2028\\u2029"'),
        ("\ud800", b'"\\ud800"'),
        ({"\udfff": "é\u2028"}, b'{"\\udfff":"\\u00e9\\u2028"}'),
        ("a\0b\n", b'"a\\u0000b\\n"'),
        (2**64, b"18446744073709551616"),
        (-(10**400), b"-1" + b"0" * 400),
        ([2**64, "\ud800"], b'[18446744073709551616,"\\ud800"]'),
        (1.0, b"1.0"),
        (5e-324, b"5e-324"),
    ],
)
def test_value_has_these_bytes(value: Any, data: bytes) -> None:
    assert codec.encode(value) == data
    assert codec.decode(data) == value


def test_bytes_that_look_like_a_line_separator_inside_other_characters_stay() -> None:
    for text in ("\u00e2\u0080\u00a8", "\u0285", "\u2027\u202a", "\U00012028"):
        assert codec.decode(codec.encode(text)) == text


# timestamp


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (999, "1970-01-01T00:00:00.000000Z"),
        (1_000, "1970-01-01T00:00:00.000001Z"),
        (1_767_225_599_999_999_999, "2025-12-31T23:59:59.999999Z"),
        (1_767_225_600_000_000_000, "2026-01-01T00:00:00.000000Z"),
        (253_402_300_799_999_999_999, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_timestamp_has_microseconds_and_27_characters(nanoseconds: int, text: str) -> None:
    assert codec.timestamp(nanoseconds) == text
    assert len(text) == 27


def test_clock_before_1970_still_gives_a_timestamp_that_readers_take() -> None:
    text = codec.event_line(1, codec.timestamp(-(10**18)), None, body(), 0)[0]
    assert codec.head(text).seq == 1


# decode


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1,]",
        b"{'a':1}",
        b"1 2",
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"1e400",
        b"[-1e999]",
        b'["\\ud800",1e400]',
        b'"a\0b"',
        b'"a\nb"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'\xef\xbb\xbf"a"',
        '"a"'.encode("utf-16"),
        '"a"'.encode("utf-32"),
    ],
)
def test_bytes_that_are_no_utf_8_json_are_refused(data: bytes) -> None:
    error = refused(codec.decode, data)
    assert error.rule == "json" and error.reason.startswith("this is not JSON: ")


@pytest.mark.parametrize("call", [codec.decode, lambda data: codec.typed(data, list)])
@pytest.mark.parametrize("data", [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000])
def test_json_nested_too_deeply_to_be_read_is_refused(call: Any, data: bytes) -> None:
    assert refused(call, data).rule == "json"


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'["\\ud800", 1.5, 2, -0.0]', ["\ud800", 1.5, 2, -0.0]),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b" [ 1 ] ", [1]),
    ],
)
def test_json_of_another_writer_is_read(data: bytes, value: Any) -> None:
    assert codec.decode(data) == value


@pytest.mark.parametrize("digits", [3_999, 4_000, 4_300, 4_301, 20_000])
def test_integer_of_any_length_is_read_exactly(digits: int) -> None:
    found = codec.decode(b'[-%s,"\\ud800"]' % (b"9" * digits))
    assert found == [-(10**digits) + 1, "\ud800"]
    assert codec.decode(b"9" * digits) == 10**digits - 1


@pytest.mark.parametrize("sign", [b"", b"-"])
def test_integer_of_so_many_digits_that_reading_it_is_an_attack_is_refused(sign: bytes) -> None:
    number = sign + b"9" * (codec.MAX_DIGITS + 1)
    for data in (number, b'{"a":[%s,"\\ud800"]}' % number):
        assert "an integer of " in refused(codec.decode, data).reason


# typed


def test_typed_bytes_that_do_not_fit_are_refused_with_the_type() -> None:
    assert codec.typed(b'{"count":1}', Counter) == Counter(1)
    error = refused(codec.typed, b'{"count":"1"}', Counter)
    assert error.rule == "json"
    assert error.reason == "not a Counter: Expected `int`, got `str` - at `$.count`"


def test_bytes_that_do_not_fit_a_union_are_refused() -> None:
    assert codec.typed(b"null", Counter | None) is None
    assert refused(codec.typed, b"7", Counter | None).rule == "json"


# body and event_line


def test_body_has_its_members_in_order_and_no_absent_ids() -> None:
    assert body({"x": 1}) == b',"type":"note","data":{"x":1}'
    assert body(None, type="t", event_id="e", call_id="c", run_id="r") == (
        b',"type":"t","run_id":"r","call_id":"c","event_id":"e","data":null'
    )


@pytest.mark.parametrize("absent", ["run_id", "call_id", "event_id"])
def test_body_leaves_out_an_absent_id_alone(absent: str) -> None:
    ids = {"run_id": "r", "call_id": "c", "event_id": "e"}
    del ids[absent]
    members = b"".join(b',"%s":"%s"' % (name.encode(), ids[name].encode()) for name in ids)
    assert body(1, **ids) == b',"type":"note"%s,"data":1' % members


def test_body_takes_the_encoded_data_as_it_is() -> None:
    fields = {"type": "%s", "run_id": None, "call_id": "%d", "event_id": None}
    assert codec.body(**fields, data=b'"%s"') == b',"type":"%s","call_id":"%d","data":"%s"'


@pytest.mark.parametrize(
    ("b", "member"), [(None, b""), (0, b',"b":0'), (3, b',"b":3'), (100_000, b',"b":100000')]
)
def test_event_line_is_prefix_body_and_crc(b: int | None, member: bytes) -> None:
    text, crc = codec.event_line(17, TS, b, body(1), 0x01020304)
    begin = b'{"seq":17,"ts":"2026-01-01T00:00:00.000000Z"%s,"type":"note","data":1' % member
    assert crc == zlib.crc32(begin, 0x01020304)
    assert text == begin + b',"crc":"%08x"}\n' % crc


events = st.builds(
    Event,
    seq=st.integers(1, 10**18 - 1),
    ts=st.just(TS),
    type=texts.filter(bool),
    data=json_values,
    run_id=st.none() | texts,
    call_id=st.none() | texts,
    event_id=st.none() | texts,
)
batches = st.none() | st.just(0) | st.integers(2, 10**9 - 1)


@given(event=events, b=batches, chain=CHAINS)
@UNHURRIED
def test_event_comes_back_from_its_line(event: Event, b: int | None, chain: int) -> None:
    fields = {name: getattr(event, name) for name in ("type", "run_id", "call_id", "event_id")}
    encoded = codec.body(**fields, data=codec.encode(event.data))
    text, crc = codec.event_line(event.seq, TS, b, encoded, chain)
    assert text.count(b"\n") == 1 and text.endswith(b"}\n")
    assert codec.check(text[:-1], chain) == crc == codec.stored_crc(text[:-1])
    assert codec.head(text) == Head(event.seq, b)
    expected = msgspec.structs.replace(event, crc=codec.hexed(crc))
    assert repr(codec.event(text[:-1])) == repr(expected)


# control_line


def test_control_line_ends_in_its_crc_and_advances_no_chain() -> None:
    for chain in (0, 0xFFFFFFFF):
        text = codec.control_line({"seal": 1, "last_seq": 2}, chain)
        begin = b'{"seal":1,"last_seq":2'
        assert text == begin + b',"crc":"%08x"}\n' % zlib.crc32(begin, chain)
        assert codec.control(text[:-1])["last_seq"] == 2
    assert codec.control_line({"a": 1}) == codec.control_line({"a": 1}, codec.CHAIN_START)


# check


def test_crc_follows_the_zlib_rule_over_a_chain() -> None:
    first, chain = codec.event_line(1, TS, None, body(1), codec.CHAIN_START)
    second, end = codec.event_line(2, TS, None, body(2), chain)
    assert end == zlib.crc32(first[: -codec.CRC_SUFFIX - 1] + second[: -codec.CRC_SUFFIX - 1])


def test_every_flipped_bit_of_a_line_is_noticed() -> None:
    text = line(START, {"text": "  @@  "})[:-1]
    for flipped in flips(text):
        assert refused(codec.check, flipped, codec.CHAIN_START).rule in ("crc", "line")


def test_line_of_another_chain_is_refused_with_both_values() -> None:
    text = line(START)[:-1]
    stored, computed = codec.stored_crc(text), zlib.crc32(text[: -codec.CRC_SUFFIX], 1)
    error = refused(codec.check, text, 1)
    assert error.rule == "crc"
    assert error.reason == f"checksum: stored {stored:08x}, computed {computed:08x}"


# stored_crc


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"}",
        b'"crc":"0a1b2c3d"}',
        b'x,"crc":"0a1b2c3d"}\n',
        b'x,"crc":"0a1b2c3d"} ',
        b'x,"crc":"0A1B2C3D"}',
        b'x,"crc":"0a1b2c3"}',
        b'x,"crc": "0a1b2c3d"}',
        b'x,"crc":"0a1b2c3d"]',
        b'x, "crc":"0a1b2c3d"}'[:-1],
    ],
)
def test_line_that_does_not_end_in_a_crc_is_refused(text: bytes) -> None:
    assert refused(codec.stored_crc, text).rule == "line"
    assert refused(codec.check, text, 0).reason == (
        'the line does not end in ,"crc":"<8 hex digits>"}'
    )


def test_only_the_crc_at_the_end_counts() -> None:
    assert codec.stored_crc(b',"crc":"00000001"},"crc":"00000002"}') == 2
    assert codec.stored_crc(b',"crc":"0000000f"}') == 15


# head


@pytest.mark.parametrize(
    ("members", "head"),
    [
        (b',"type":"n","data":1', Head(1, None)),
        (b',"b":0,"type":"n","data":1', Head(1, 0)),
        (b',"b":2,"type":"n","data":1', Head(1, 2)),
        (b',"b":999999999,"type":"n"', Head(1, 999_999_999)),
        (b',"type":"n","b":7', Head(1, None)),
    ],
)
def test_head_tells_seq_and_batch(members: bytes, head: Head) -> None:
    assert codec.head(PREFIX + members) == head


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        PREFIX,
        PREFIX + b"}",
        PREFIX + b',"type":7',
        PREFIX + b',"type":""',
        PREFIX + b',"data":1,"type":"n"',
        PREFIX + b',"b":01,"type":"n"',
        PREFIX + b',"b":1,"type":"n"',
        PREFIX + b',"b":-1,"type":"n"',
        PREFIX + b',"b":null,"type":"n"',
        PREFIX + b',"b":1000000000,"type":"n"',
        PREFIX + b', "type":"n"',
        PREFIX[:-2] + b'","type":"n"',
        PREFIX[:-1] + b'0","type":"n"',
        PREFIX[:-3] + b'\\"","type":"n"',
        b" " + PREFIX + b',"type":"n"',
        PREFIX.replace(b":1,", b":0,") + b',"type":"n"',
        PREFIX.replace(b":1,", b":01,") + b',"type":"n"',
        PREFIX.replace(b":1,", b":-1,") + b',"type":"n"',
        PREFIX.replace(b":1,", b':"1",') + b',"type":"n"',
        PREFIX.replace(b":1,", b":1.0,") + b',"type":"n"',
        PREFIX.replace(b":1,", b":1000000000000000000,") + b',"type":"n"',
        PREFIX.replace(b"seq", b"seal") + b',"type":"n"',
    ],
)
def test_line_that_does_not_begin_like_an_event_is_refused(text: bytes) -> None:
    error = refused(codec.head, text)
    assert error.rule == "line"
    assert error.reason == f"no event line begins with {text[:40]!r}"


# event


def test_members_of_a_newer_writer_are_passed_over() -> None:
    for data in (b"1", b'"\\ud800"'):
        text = event_text(b',"type":"n","data":%s,"host":{"a":1}' % data)
        assert codec.event(text).type == "n"


@pytest.mark.parametrize("data", [b"1", b'"\\ud800"'])
@pytest.mark.parametrize("member", [b"false", b"5", b"null"])
def test_member_named_proven_is_a_newer_writers_and_passed_over(data: bytes, member: bytes) -> None:
    text = event_text(b',"type":"n","data":%s,"proven":%s' % (data, member))
    assert codec.event(text).proven is True


@pytest.mark.parametrize("data", [b"1", b'"\\ud800"'])
def test_line_behind_damage_gives_an_event_that_is_not_proven(data: bytes) -> None:
    text = event_text(b',"type":"n","data":%s' % data)
    assert codec.event(text).proven is True
    assert codec.event(text, proven=False).proven is False


@pytest.mark.parametrize(
    "members",
    [
        b',"type":"n"',
        b',"type":"n","event_id":7,"data":1',
        b',"type":"n","event_id":7,"data":"\\ud800"',
        b',"type":"n","data":1e400',
        b',"type":"n","data":NaN',
        b',"type":"n","data":{',
        b',"type":"n","data":"\xff"',
        b',"type":"n","data":1,"type":5',
    ],
)
def test_line_without_the_fields_of_an_event_is_refused(members: bytes) -> None:
    assert refused(codec.event, event_text(members)).rule == "json"


@pytest.mark.parametrize("text", [b"7", b'"\\ud800"', b"null", b"[1]", b"{}"])
def test_json_that_is_no_event_object_is_refused(text: bytes) -> None:
    error = refused(codec.event, text)
    assert error.rule == "json" and error.reason.startswith("not the fields of an event: ")


@pytest.mark.parametrize("data", [b"1", b'"\\ud800"'])
def test_line_that_says_its_seq_twice_is_refused(data: bytes) -> None:
    error = refused(codec.event, event_text(b',"type":"n","data":%s,"seq":9' % data))
    assert (error.rule, error.reason) == ("json", "seq stands twice: 1 and 9")


# control and is_event


def test_control_line_is_an_object() -> None:
    assert codec.control(b'{"a":"\\ud800"}') == {"a": "\ud800"}
    for text in (b"[1]", b"7", b"null"):
        assert refused(codec.control, text).reason == "expected an object"


def test_fields_that_fit_a_type_become_it_and_others_are_refused_with_the_rule() -> None:
    assert codec.converted({"count": 1, "more": 2}, Counter, "counter") == Counter(1)
    for fields in ({}, {"count": "1"}, {"count": 1, "tags": {}}, [1], None, "\ud800"):
        error = refused(codec.converted, fields, Counter, "counter")
        assert error.rule == "counter"
        assert error.reason.startswith("not the fields of a counter: ")


def test_line_that_begins_with_seq_is_an_event() -> None:
    assert codec.is_event(line(START))
    assert not codec.is_event(codec.control_line({"seal": 1}))
    assert not codec.is_event(b'{"seq" :1')


# hexed and unhexed


@given(CHAINS)
def test_chain_value_is_eight_digits_and_comes_back(chain: int) -> None:
    assert len(codec.hexed(chain)) == 8
    assert codec.unhexed(codec.hexed(chain)) == chain


@pytest.mark.parametrize(
    "text",
    ["", "0", "0A1B2C3D", "0x1b2c3d", "0a1b2c3d0", "0a1b2c3d\n", " a1b2c3d", 7, None, b"00000000"],
)
def test_text_that_is_no_chain_value_is_refused(text: Any) -> None:
    error = refused(codec.unhexed, text)
    assert (error.rule, error.reason) == ("json", f"expected eight hex digits, found {text!r}")


# hasher and digest


def test_digest_is_blake2b_of_16_bytes_in_hex() -> None:
    expected = hashlib.blake2b(b"abc", digest_size=16).hexdigest()
    running = codec.hasher(b"a")
    running.update(b"bc")
    assert codec.digest(b"abc") == running.hexdigest() == expected
    assert codec.hasher().hexdigest() == codec.digest(b"")


# bulk


@pytest.mark.parametrize("enabled", [True, False])
def test_bulk_puts_the_collector_back_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(KeyError), codec.bulk():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_text_with_half_a_character_is_encoded_and_not_said_to_come_back() -> None:
    """Two halves that were put together would come back as one character."""
    data, comes_back = codec.encoded({"a": "\ud83d" + "\ude00"})
    assert (data, comes_back) == (b'{"a":"\\ud83d\\ude00"}', False)
    assert codec.encoded({"a": "\u2028"}) == (b'{"a":"\\u2028"}', True)
