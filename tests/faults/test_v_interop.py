"""FAULTS V11: record types that nobody knew yet, in every format that is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from durasess.engine.types import Draft
from durasess.interop import jsonl
from durasess.session.events import TYPES
from durasess.store.store import Store
from tests.support import exports, foreign
from tests.support.foreign import Imported, Lines, assert_nothing_lost, write

NEW = {"type": "from_the_future", "id": "f1", "x": {"y": [1]}}

FORMATS: dict[str, Lines] = {
    "codex": [
        foreign.codex_meta(),
        *foreign.codex_turn("hello", "hi"),
        NEW,
        foreign.codex("from_the_future", x=1),
        foreign.codex("response_item", type="from_the_future", x=1),
        foreign.codex_event("from_the_future", x=1),
        *foreign.codex_turn("more", "yes"),
    ],
    "pi": [
        foreign.PI_HEADER,
        foreign.pi_user("a", None, "hello"),
        NEW,
        foreign.pi_entry("b", "a", type="from_the_future", x=1),
        foreign.pi_entry("c", "b", type="message", message={"role": "oracle", "content": "x"}),
        foreign.pi_reply("d", "c", "hi"),
    ],
    "claude-code": [
        foreign.claude_user("a", None, "hello"),
        NEW,
        foreign.claude("from_the_future", "b", "a", x=1),
        foreign.claude_block("c", "b", "m1", {"type": "from_the_future", "x": 1}),
        foreign.claude_block("d", "c", "m1", foreign.claude_text("hi"), stop="end_turn"),
    ],
}


@pytest.mark.parametrize("name", FORMATS)
def test_v11_record_of_an_unknown_type_is_kept_and_hides_no_other(
    name: str, tmp_path: Path
) -> None:
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "rollout-1.jsonl", FORMATS[name]))
    assert (found.report.format, found.report.is_whole) == (name, True)
    assert_nothing_lost(found)
    with found.open() as session:
        said = [str(one.content) for one in session.history()]
    assert any("hello" in one for one in said) and any("hi" in one for one in said)


@pytest.mark.parametrize("data", [{}, None, 7, [], "x", {"key": 3, "content": {"a": []}}])
def test_v11_every_type_of_ours_and_one_of_a_newer_version_come_through(
    data: Any, tmp_path: Path
) -> None:
    kinds = [*sorted(TYPES), "from_the_future"]
    path = exports.unchecked(tmp_path, *(Draft(kind, data, "run_1", "c1") for kind in kinds))
    file = tmp_path / "export.jsonl"
    file.write_text(exports.exported(jsonl.write, path))
    found = Imported(Store(tmp_path / "store"), file)
    assert not found.report.problem and not found.report.conflict
    assert found.report.lines == len(file.read_text().splitlines())
    assert_nothing_lost(found)
