"""Trees that were gone back and forth in say what their last branch says, and count every line
once: at once, in two imports, and as an export that is imported again."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durasess.engine import paths
from durasess.interop import jsonl, survey, tree
from durasess.interop.importing import import_file
from durasess.session.masking import Masker
from durasess.store.store import Store
from tests.support import foreign_trees as trees
from tests.support.exports import exported
from tests.support.foreign import (
    PI_HEADER,
    Imported,
    Lines,
    assert_nothing_lost,
    claude_user,
    pi_user,
    write,
)
from tests.support.foreign_trees import Expected

SEEDS = range(20)

FORMATS: dict[str, tuple[Callable[[random.Random, int], Lines], Callable[[Lines], Expected]]] = {
    "pi": (trees.pi_tree, trees.pi_expected),
    "claude-code": (trees.claude_tree, trees.claude_expected),
}


def look(store: Store, session_id: str) -> tuple[list[tuple[str, str]], Expected]:
    """What was said, in messages as they are; and what lists and pages count, which must agree."""
    [row] = [one for one in store.list() if one.session_id == session_id]
    with store.open(session_id, mode="read") as session:
        said = [(one.role, _text(one.content)) for one in session.history() if one.role != "tool"]
        page = survey.look(session, Masker())
    assert page.messages == row.messages and page.counted_runs == row.runs
    assert len(store.runs(limit=10_000)) == row.runs and sum(page.outcomes.values()) == row.calls
    assert page.outcomes.get("uncertain", 0) == row.open_calls
    found = Expected(
        said, row.messages, row.calls, row.open_calls, int(row.usage.get("completion", 0))
    )
    return said, found


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content.replace("\n", "")
    return "".join(part.get("text", "") for part in content)


@pytest.mark.parametrize("few", [tree.FEW, 0], ids=["said", "unsaid"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", SEEDS)
def test_tree_says_its_last_branch_and_counts_every_line_once(
    format: str, seed: int, few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "FEW", few)
    monkeypatch.setattr(tree, "TIMES", tree.TIMES if few else 0)
    chance = random.Random(seed)
    make, expect = FORMATS[format]
    lines = make(chance, chance.choice([12, 40, 90]))
    expected = expect(lines)
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "s.jsonl", lines))
    assert_nothing_lost(found)
    report = found.report
    assert report.messages == expected.messages and report.calls == expected.calls
    assert look(found.store, report.session_id)[1] == expected
    assert found.again().lines == 0
    _check_export(found, expected, tmp_path)
    _check_grown(lines, chance.randrange(2, len(lines)), expected, tmp_path)


def _check_export(found: Imported, expected: Expected, tmp_path: Path) -> None:
    session_id = found.report.session_id
    path = tmp_path / "export.jsonl"
    path.write_text(exported(jsonl.write, paths.join(found.store.path, session_id)))
    other = Store(tmp_path / "other")
    report = import_file(other, str(path))
    assert report.messages == expected.messages and report.calls == expected.calls
    assert look(other, report.session_id)[1] == expected


def _check_grown(lines: Lines, cut: int, expected: Expected, tmp_path: Path) -> None:
    """A reply that an import ends in stays in two messages, which count as one."""
    path = write(tmp_path / "grown.jsonl", lines[:cut])
    grown = Imported(Store(tmp_path / "grown"), path)
    first = grown.report
    write(path, lines)
    second = grown.again()
    assert first.messages + second.messages == expected.messages
    said, found = look(grown.store, second.session_id)
    assert "".join(text for _, text in said) == "".join(text for _, text in expected.said)
    assert found._replace(said=[]) == expected._replace(said=[])


@pytest.mark.parametrize("format", FORMATS)
def test_two_programs_that_write_one_file_in_turns_make_no_log_that_grows_by_squares(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "FEW", 100)
    user = {"pi": pi_user, "claude-code": claude_user}[format]
    lines: Lines = [PI_HEADER] if format == "pi" else []
    lines.append(user("first", None, "first"))
    for number in range(150):
        for name in "ab":
            parent = f"{name}{number - 1}" if number else "first"
            lines.append(user(f"{name}{number}", parent, f"{name}{number}"))
    found = Imported(Store(tmp_path / "store"), write(tmp_path / "s.jsonl", lines))
    assert [text for _, text in found.said()][-3:] == ["b147", "b148", "b149"]
    said, counts = look(found.store, found.report.session_id)
    assert said == [("user", one) for one in ("first", *(f"b{number}" for number in range(150)))]
    assert counts.messages == 301
    # All of the other branch with each line would be 45,000.
    assert len(found.types()) < 20 * len(lines)
