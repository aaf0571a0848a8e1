"""FAULTS L: line separators inside values."""

import pytest

from tests.support.sessions import lines_of, make_session, open_inline, segment_path, state_of

SEPARATORS = "\u2028 \u2029 \u0085 \x0b \x0c \x1c \x1d \x1e \r \n \r\n"


def test_l1_event_with_every_separator_is_one_line_for_every_reader(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("tool_result", {"out": SEPARATORS, SEPARATORS: 1})
        assert engine.state == [{"out": SEPARATORS, SEPARATORS: 1}]
    data = segment_path(tmp_path / "s1").read_bytes()
    assert len(data.decode().splitlines()) == len(lines_of(segment_path(tmp_path / "s1"))) == 3
    assert state_of(tmp_path / "s1") == [{"out": SEPARATORS, SEPARATORS: 1}]


@pytest.mark.parametrize("separator", SEPARATORS.split(" "))
def test_l2_seq_after_an_event_with_a_separator_is_the_next(tmp_path, separator):
    engine = open_inline(tmp_path / "s1")
    engine.append("t", f"a{separator}b")
    engine.abandon()
    with open_inline(tmp_path / "s1") as engine:
        assert engine.append("t", 2).seq == 2


def test_l4_carriage_returns_in_values_stay_and_crlf_files_are_read(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("t", "a\r\nb\r")
        engine.snapshot()
    assert state_of(tmp_path / "s1") == ["a\r\nb\r"]
    path = make_session(tmp_path / "s2")
    file = segment_path(path)
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert state_of(path) == [1, 2, 3]
