"""Receipts go through JSON and come back; what is none is refused."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durasess.engine import codec
from durasess.engine.receipt import Receipt
from tests.support.lines import UNHURRIED

RECEIPT = Receipt("s1", 17, "0a1b2c3d")
JSON = '{"session_id":"s1","seq":17,"crc":"0a1b2c3d","durable":true}'


def test_receipt_is_durable_unless_said_otherwise() -> None:
    assert RECEIPT.durable is True
    assert Receipt("s1", 17, "0a1b2c3d", False).durable is False


def test_receipt_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        RECEIPT.seq = 18  # type: ignore[misc]


def test_receipt_becomes_one_line_of_json() -> None:
    assert RECEIPT.to_json() == JSON


crcs = st.integers(0, 2**32 - 1).map(codec.hexed)


@given(st.builds(Receipt, st.text(max_size=9), st.integers(0, 10**18 - 1), crcs, st.booleans()))
@UNHURRIED
def test_receipt_comes_back_equal_from_text_and_bytes(receipt: Receipt) -> None:
    assert Receipt.from_json(receipt.to_json()) == receipt
    assert Receipt.from_json(receipt.to_json().encode()) == receipt


def test_members_of_a_newer_writer_are_passed_over() -> None:
    fields = {**json.loads(JSON), "host": "build-7"}
    assert Receipt.from_json(json.dumps(fields)) == RECEIPT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "17",
        JSON[:-1],
        JSON + JSON,
        JSON.replace('"seq":17', '"seq":"17"'),
        JSON.replace('"seq":17', '"seq":17.5'),
        JSON.replace('"seq":17,', ""),
        JSON.replace('"s1"', "null"),
        JSON.replace("true", "1"),
        b"\xff",
        "\ud800",
    ],
)
def test_text_that_is_no_receipt_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError) as caught:
        Receipt.from_json(text)
    assert not isinstance(caught.value, msgspec.MsgspecError)


def test_refusal_says_what_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"not a receipt: .*Expected `int`, got `str`.*\$\.seq"):
        Receipt.from_json(JSON.replace('"seq":17', '"seq":"17"'))
