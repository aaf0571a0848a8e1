"""The Markdown export: readable, and deaf to whatever a session says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from durasess.interop import markdown
from durasess.interop.markdown_text import fenced, quoted
from durasess.interop.visible import HIDDEN, visible
from tests.support import exports
from tests.support.exports import HOSTILE, exported

markdown_it = pytest.importorskip("markdown_it", reason="comes with rich")

HTML_OF_A_PAGE = {"<details>", "</details>", ""}


def tokens(text: str) -> list[Any]:
    """What a Markdown reader makes of a page, with what is inside of its lines."""
    found = markdown_it.MarkdownIt("commonmark").enable("table").parse(text)
    return [one for token in found for one in (token, *(token.children or ()))]


def html_in(text: str) -> set[str]:
    """The HTML that a Markdown reader lets through, without summaries."""
    blocks = [one.content for one in tokens(text) if one.type.startswith("html")]
    return {
        re.sub(r"<summary>[^<>]*</summary>", "", block).strip().removeprefix("<details>").strip()
        for block in blocks
    }


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a session with about everything in it."""
    return exported(markdown.write, exports.worked(tmp_path_factory.mktemp("worked")))


def test_page_has_one_title_and_a_heading_for_each_run(page: str) -> None:
    headings = re.findall(r"(?m)^(##?) (.*)", page)
    assert headings[0] == ("#", "Fix \\& release")
    assert [mark for mark, _ in headings[1:]] == ["##"] * 4
    assert headings[1][1].startswith("Run 1 · ✅ succeeded · ")
    assert "840 tokens" in headings[1][1]
    assert headings[2][1].endswith("↩️ rewound")
    assert headings[3][1].startswith("Run 3 · ⚡ interrupted")


def test_calls_stand_with_arguments_results_and_what_became_of_them(page: str) -> None:
    assert "#### 🔧 write · ❌ failed" in page and '"path": "a.py"' in page
    assert "Error:\n\n```text\n" in page and "no space left\n```" in page
    assert "<summary>Traceback</summary>" in page
    assert "outcome unknown: it was started and no result was recorded" in page
    assert "settled: it took effect (by caller)" in page
    assert "#### 🔧 mail · ⭕ never started" in page


def test_compaction_rewind_note_and_bookkeeping_are_told(page: str) -> None:
    assert "**🗜️ Compacted: a summary tells" in page and "> It was fixed." in page
    assert "**↩️ Rewound: what came behind seq" in page
    assert "> looks good" in page
    assert "1 event of bookkeeping left out" in page


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_makes_no_html_no_link_and_no_image(text: str, tmp_path: Path) -> None:
    page = exported(markdown.write, exports.hostile(tmp_path, text))
    assert html_in(page) <= HTML_OF_A_PAGE
    kinds = {one.type for one in tokens(page)}
    assert not kinds & {"link_open", "image", "code_block", "lheading_open"}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_makes_no_heading_list_or_rule(text: str, tmp_path: Path) -> None:
    plain = structure(exported(markdown.write, exports.hostile(tmp_path / "plain", "word")))
    assert structure(exported(markdown.write, exports.hostile(tmp_path / "it", text))) == plain


def structure(page: str) -> dict[str, int]:
    """How many headings, lists, rules and tables a page has."""
    counted = ("heading_open", "list_item_open", "hr", "table_open", "tr_open", "ordered_list_open")
    kinds = [one.type for one in tokens(page)]
    return {kind: kinds.count(kind) for kind in counted}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_page_has_no_character_that_hides(text: str, tmp_path: Path) -> None:
    page = exported(markdown.write, exports.hostile(tmp_path, text))
    assert not HIDDEN.search(page)
    page.encode("utf-8")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_fence_holds_all_of_its_text(text: str) -> None:
    [block] = tokens(fenced(text))
    assert block.type == "fence" and block.content == visible(text) + "\n"


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_quotation_shows_its_text_and_nothing_else(text: str) -> None:
    found = tokens(quoted(text))
    assert {one.type for one in found} <= {
        "blockquote_open",
        "blockquote_close",
        "paragraph_open",
        "paragraph_close",
        "inline",
        "text",
        "text_special",
        "hardbreak",
        "softbreak",
    }
    shown = "".join(one.content for one in found if one.type in ("text", "text_special"))
    assert squeezed(shown) == squeezed(visible(text))


def squeezed(text: str) -> str:
    return "".join(text.split()).replace("\xa0", "")


def test_indented_lines_keep_their_indentation() -> None:
    assert quoted("a\n    b") == "> a\\\n> &nbsp;&nbsp;&nbsp;&nbsp;b"


def test_long_result_is_folded(tmp_path: Path) -> None:
    with exports.store_at(tmp_path).create("long") as session, session.run("list") as run:
        run.assistant("", tool_calls=[exports.call("c1", "ls")])
        with run.tool("c1") as call:
            call.result("\n".join(map(str, range(200))))
    page = exported(markdown.write, session.path)
    assert "<summary>Result, 200 lines: 0 1 2 " in page
