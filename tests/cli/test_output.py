"""What is printed where: aligned text, panels, one JSON document, never an escape code of data."""

from __future__ import annotations

import io
import json
import re

import pytest

from durasess.cli.blocks import (
    Block,
    Branch,
    Column,
    Fact,
    Facts,
    Listing,
    Notes,
    Row,
    Table,
    Tree,
    Value,
    count,
    printable,
    span,
)
from durasess.cli.output import Items, Output

EVIL = "a\x1b[31mred\r\n\x9b2J\u202e"

BLOCKS: list[Block] = [
    Facts("", [Fact("session", "a1", "format 1"), Fact("path", "/x/[bold]y" + EVIL)]),
    Table(
        "",
        (Column("segment"), Column("bytes", right=True)),
        [Row(("one", "5"), "bad"), Row(("b", "1,200"))],
    ),
    Listing("", (Column("seq", right=True, width=4), Column("data", width=9)), [Row(("7", EVIL))]),
    Notes("damage", ["first", EVIL], "bad"),
    Tree("", Branch("a1/", inside=(Branch("b/", inside=(Branch(EVIL, "x"),)), Branch("c", "y")))),
    Value("event 7", {"text": EVIL, "n": 10**30}),
]


def shown(*, terminal: bool, as_json: bool = False) -> str:
    """What an output prints of the blocks."""
    stream = io.StringIO()
    Output(stream, as_json=as_json, terminal=terminal).report({"n": 1}, lambda: BLOCKS)
    return stream.getvalue()


def test_plain_text_is_aligned_and_has_no_escape_codes() -> None:
    escaped = printable(EVIL)
    assert shown(terminal=False).split("\n") == [
        "session   a1   format 1",
        f"path      /x/[bold]y{escaped}",
        "",
        "segment   bytes",
        "one           5",
        "b         1,200",
        "",
        " seq  data",
        f"   7  {escaped}",
        "",
        "damage",
        "  first",
        f"  {escaped}",
        "",
        "a1/",
        "├── b/",
        f"│   └── {escaped}   x",
        "└── c" + " " * (len(escaped) + 3) + "   y",
        "",
        "event 7",
        "{",
        r'  "text": "a\u001b[31mred\r\n\x9b2J\u202e",',
        f'  "n": {10**30}',
        "}",
        "",
    ]


def test_terminal_gets_colour_but_nothing_that_came_from_a_session_acts_on_it() -> None:
    text = shown(terminal=True)
    assert "\x1b[1;31m" in text and "╭" in text
    assert "\x1b[31mred" not in text and "\x9b" not in text and "\r" not in text
    assert "\u202e" not in text
    assert "[bold]y" in text


def test_json_is_one_document_with_the_items_as_last_member() -> None:
    stream = io.StringIO()
    output = Output(stream, as_json=True, terminal=True)
    items = Items("events", iter([{"n": 1}, {"n": 2}]), lambda: {"total": 2})
    output.report({"a": "é\ud800"}, lambda: BLOCKS, lambda: items)
    found = json.loads(stream.getvalue())
    assert found == {"a": "é\ud800", "events": [{"n": 1}, {"n": 2}], "total": 2}
    assert "\x1b" not in stream.getvalue()


def test_json_without_items_is_an_empty_list() -> None:
    stream = io.StringIO()
    Output(stream, as_json=True).report({"a": 1}, list, lambda: Items("events", []))
    assert json.loads(stream.getvalue()) == {"a": 1, "events": []}


def test_progress_is_shown_on_a_terminal_alone() -> None:
    for terminal, as_json in ((True, False), (False, False), (True, True)):
        stream = io.StringIO()
        with Output(stream, as_json=as_json, terminal=terminal).progress("kill", 2) as step:
            step()
            step()
        assert bool(stream.getvalue()) == (terminal and not as_json)


def test_numbers_as_people_read_them() -> None:
    assert count(1, "event") == "1 event" and count(2000, "event") == "2,000 events"
    assert span(401, 1117) == "401 to 1,117" and span(5, 5) == "5" and span(0, 7) == "up to 7"


def test_following_prints_each_round_at_once_and_json_as_one_line_each() -> None:
    columns = (Column("seq", right=True, width=4), Column("data"))
    rounds = [[(Row(("1", "a")), {"n": 1}), (Row(("2", EVIL)), {"n": 2})], []]
    for as_json, expected in (
        (True, ['{"n": 1}', '{"n": 2}']),
        (False, [" seq  data", "   1  a", f"   2  {printable(EVIL)}"]),
    ):
        stream = io.StringIO()
        Output(stream, as_json=as_json, as_lines=True, terminal=False).follow(columns, rounds)
        assert stream.getvalue().splitlines() == expected


def test_error_in_lines_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    output = Output(stream, as_json=True, as_lines=True)
    output.failure(ValueError("no"), "no")
    assert json.loads(stream.getvalue())["error"]["message"] == "no"
    assert stream.getvalue().count("\n") == 1
    assert capsys.readouterr().err == "durasess: no\n"


def test_table_that_is_too_wide_for_the_terminal_keeps_ids_whole_and_everything_in_sight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "codex-019e9625-802f-7e91-840a-cfe88d14117a"
    columns = (Column("session", whole=True), Column("title"), Column("n", right=True))
    table = Table(
        "", columns, [Row((name, "a long title " * 5, "1,234")), Row(("b", "short", "5"))]
    )
    for width in (40, 50, 60, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        stream = io.StringIO()
        Output(stream, as_json=False, terminal=True).report({}, lambda: [table])
        text = re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue())
        assert name in text or width == 40
        assert "1,234" in text and "short" in text and "5" in text
        assert all(len(line) <= width for line in text.splitlines())
