"""Text for a model: nothing half, nothing that breaks out, counted as documented."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durasess.session.context_text import (
    Cleaner,
    cut,
    estimate_tokens,
    inert,
    is_whole_json,
    quoted,
    read_json,
    section,
)

ANY = st.text(st.characters())


@given(ANY)
def test_cleaned_text_is_strict_utf8_and_keeps_its_other_characters(text):
    cleaned = Cleaner().text(text)
    assert cleaned.encode().decode() == cleaned
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert cleaned.replace("\ufffd", "") == whole.replace("\ufffd", "")


@pytest.mark.parametrize(
    "given_, cleaned, count",
    [
        ("\ud83d\ude00", "\U0001f600", 0),
        ("a\ud800", "a\ufffd", 1),
        ("\udc00\ud800", "\ufffd\ufffd", 2),
        ("nul\0", "nul\0", 0),
        ({"\ud800": ["\udfff"], "b": (1, None)}, {"\ufffd": ["\ufffd"], "b": [1, None]}, 2),
        (dict([("\ud800", 1), ("\ud801", 2)]), {"\ufffd": 1, "\ufffd\ufffd": 2}, 2),
        ([float("inf")], [None], 0),
    ],
)
def test_cleaner_replaces_lone_halves_and_counts_them(given_, cleaned, count):
    cleaner = Cleaner()
    assert cleaner.value(given_) == cleaned
    assert cleaner.replaced == count


@given(ANY, st.integers(0, 30))
def test_cut_text_is_short_enough_and_has_no_half_characters(text, characters):
    short = cut(text, characters)
    assert len(short) <= characters
    short.encode()


def test_six_emoji_fit_into_ten_characters():
    assert cut("\U0001f600" * 6, 10) == "\U0001f600" * 6
    assert cut("\ud83d\ude00" * 6, 10) == "\U0001f600" * 6


def test_cut_text_says_so():
    assert cut("a" * 100, 20) == "a" * 13 + "… (cut)"


@given(ANY)
def test_quoted_value_is_one_line_of_json_without_angle_brackets(text):
    line = quoted({text: text}, 10_000)
    assert len(line.splitlines()) == 1
    assert not {"<", ">"}.intersection(line)
    cleaned = Cleaner().text(text)
    assert json.loads(line) == {cleaned: cleaned}


def test_direction_marks_are_escaped():
    assert inert("a\u202eb\u2028") == "a\\u202eb\\u2028"


def test_section_keeps_delimiters_of_its_own_kind_only():
    assert section("task", "a <b> </TASK>") == "<task>\na <b> &lt;/TASK>\n</task>"


def test_deep_or_broken_json_stays_text():
    deep = "[" * 200 + "]" * 200
    assert read_json(deep) == deep
    assert read_json("{") == "{"
    assert read_json("[1]") == [1]


@pytest.mark.parametrize(
    "text, is_whole",
    [
        ('{"a":"\\ud83d\\ude00"}', True),
        ('"\\ud83d"', False),
        ("{", False),
        ("[" * 200 + "]" * 200, False),
    ],
)
def test_json_is_whole_without_escaped_halves(text, is_whole):
    assert is_whole_json(text) is is_whole


@pytest.mark.parametrize(
    "message, tokens",
    [
        ({"content": ""}, 4),
        ({"content": "abcde"}, 6),
        ({"content": "éé"}, 5),
        ({"content": [{"type": "image", "data": "Q" * 4000, "media_type": "image/png"}]}, 1604),
        ({"content": "", "tool_calls": [{"call_id": "a", "name": "n", "arguments": {}}]}, 5),
        ({"content": "abcd", "raw": {"item": "i" * 40}}, 14),
        ({"content": "", "call_id": "abcde"}, 6),
    ],
)
def test_estimate_is_a_quarter_of_the_bytes_and_four(message, tokens):
    assert estimate_tokens(message) == tokens
