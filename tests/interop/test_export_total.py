"""Exports are total: whatever events a log holds, each format comes out whole and sound."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from durasess.engine.types import Draft
from durasess.interop import html, jsonl, markdown, provider_messages
from durasess.session.events import TYPES
from tests.support import exported_lines, exports
from tests.support.exports import PageCheck, exported

WORDS = ["c1", "c2", "3.0", "5.0", "succeeded", "failed", "uncertain", "applied", "rerun", "type"]
TEXTS = st.text(max_size=9) | st.sampled_from(WORDS)
NAMES = st.sampled_from(["type", "text", "url", "data", "thinking", "image_url", "summary"]) | TEXTS
SCALARS = st.none() | st.booleans() | st.integers(-5, 50) | TEXTS
JSON = st.recursive(
    SCALARS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(NAMES, inside, max_size=3),
    max_leaves=8,
)
CALLS = st.lists(
    st.fixed_dictionaries({"call_id": st.sampled_from(["c1", "c2"]), "name": TEXTS}), max_size=3
)
LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "tool_calls": CALLS,
    "key": st.sampled_from(["", "3.0", "4.1", "5.0"]),
    "through": st.integers(0, 20),
    "to": st.integers(0, 20),
    "status": st.sampled_from(["succeeded", "failed", "interrupted", "cancelled"]),
    "outcome": st.sampled_from(["uncertain", "not_started", "applied", "abandoned", "rerun"]),
    "text": TEXTS,
}


def data_of(kind: str) -> st.SearchStrategy[Any]:
    """Data that its type may have, or anything."""
    fields = TYPES[kind].__struct_fields__ if kind in TYPES else ("x",)
    return JSON | st.fixed_dictionaries(
        {}, optional={name: LIKELY.get(name, JSON) for name in fields}
    )


DRAFTS = st.sampled_from([*sorted(TYPES), "custom"]).flatmap(
    lambda kind: st.builds(
        Draft,
        st.just(kind),
        data_of(kind),
        st.sampled_from([None, "run_1", "run_2"]),
        st.sampled_from([None, "c1", "c2"]),
    )
)


@settings(max_examples=40, deadline=None)
@given(st.lists(DRAFTS, max_size=25))
def test_any_events_come_out_in_every_format(drafts: list[Draft]) -> None:
    with tempfile.TemporaryDirectory() as below:
        path = exports.unchecked(Path(below), *drafts)
        assert PageCheck(exported(html.write, path)).broken == []
        assert exported(markdown.write, path).endswith(".\n")
        lines = exported(jsonl.write, path).splitlines()
        assert len(list(exported_lines.read(lines))) == len(drafts) + 1
        assert exported(provider_messages.write_openai, path).startswith("{")
