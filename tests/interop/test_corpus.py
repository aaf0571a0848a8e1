"""Files that the other tools really wrote, where they are at hand: nothing is lost, and the numbers
are those of a count made straight from the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from durasess.interop.importing import import_file
from durasess.store.store import Store
from tests.support.foreign import Imported, Values, assert_nothing_lost

CORPUS = Path(os.environ.get("DURASESS_CORPUS", Path(__file__).parents[3] / "shared/corpus"))
FILES = sorted(CORPUS.glob("*.jsonl"))

pytestmark = pytest.mark.skipif(
    not FILES, reason="the real session files are no part of the project; set $DURASESS_CORPUS"
)


class Counted(NamedTuple):
    """What is in a file."""

    messages: int
    calls: int
    results: int
    tokens: int


def count(path: Path) -> Counted:
    """Counted by another way than the importers go."""
    lines = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]
    if path.name.startswith("pi"):
        return _count_pi([one["message"] for one in lines if one["type"] == "message"])
    if path.name.startswith("codex"):
        return _count_codex([one["payload"] for one in lines])
    return _count_claude([one["message"] for one in lines if one["type"] in ("user", "assistant")])


def _count_pi(messages: list[dict[str, Any]]) -> Counted:
    roles = [one["role"] for one in messages]
    blocks = [b for one in messages if one["role"] == "assistant" for b in one["content"]]
    used = [one["usage"] for one in messages if "usage" in one]
    kinds = ("input", "output", "cacheRead", "cacheWrite")
    return Counted(
        roles.count("user") + roles.count("assistant"),
        sum(block["type"] == "toolCall" for block in blocks),
        roles.count("toolResult"),
        sum(one[kind] for one in used for kind in kinds),
    )


def _count_codex(payloads: list[dict[str, Any]]) -> Counted:
    kinds = [one.get("type") for one in payloads]
    said = [one for one in payloads if one.get("role") in ("user", "assistant")]
    infos = [one["info"] for one in payloads if one.get("type") == "token_count" and one["info"]]
    tokens = infos[-1]["total_token_usage"]["total_tokens"] if infos else 0
    return Counted(
        len(said), kinds.count("function_call"), kinds.count("function_call_output"), tokens
    )


def _count_claude(messages: list[dict[str, Any]]) -> Counted:
    replies = {one["id"]: one["usage"] for one in messages if "id" in one}
    blocks = [b for one in messages if isinstance(one["content"], list) for b in one["content"]]
    types = [block["type"] for block in blocks]
    asked = [one for one in messages if one["role"] == "user"]
    results = types.count("tool_result")
    kinds = (
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    )
    tokens = sum(usage.get(kind, 0) for usage in replies.values() for kind in kinds)
    return Counted(len(asked) - results + len(replies), types.count("tool_use"), results, tokens)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_numbers_are_those_of_the_file(path: Path, tmp_path: Path) -> None:
    report = import_file(Store(tmp_path), str(path))
    found = Counted(report.messages, report.calls, report.results, report.usage.total)
    assert found == count(path)
    assert report.uncertain == report.calls - report.results


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_line_is_in_the_session(path: Path, tmp_path: Path) -> None:
    found = Imported(Store(tmp_path, mask=None), path)
    assert_nothing_lost(found)
    assert found.report.is_whole


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_session_opens_without_anything_to_recover(path: Path, tmp_path: Path) -> None:
    store = Store(tmp_path)
    report = import_file(store, str(path))
    with store.open(report.session_id) as session:
        assert not session.recovery.was_interrupted
        assert session.usage.total == report.usage.total
        assert session.state.counts.messages >= report.messages
        assert (session.state.counts.orphans, session.state.counts.unreadable) == (0, 0)
        session.context(max_tokens=8000).anthropic()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_reducer_gets_what_is_read_back(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = Values(monkeypatch)
    import_file(Store(tmp_path), str(path))
    values.assert_read_back()
