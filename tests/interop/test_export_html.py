"""The HTML export: whole, quiet, and deaf to whatever a session says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from durasess.engine.types import Draft
from durasess.interop import html, html_text
from durasess.interop.html_picture import Axis
from durasess.interop.html_shapes import CALLS, RUNS, SHAPES
from durasess.interop.visible import HIDDEN
from tests.support import exports
from tests.support.exports import HOSTILE, PageCheck, exported

CHROMIUM = next(
    (
        found
        for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> PageCheck:
    """The page of a session with about everything in it."""
    return PageCheck(exported(html.write, exports.worked(tmp_path_factory.mktemp("worked"))))


def test_page_holds_nothing_but_known_elements_and_attributes(page: PageCheck) -> None:
    assert page.broken == []


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_makes_no_element_and_no_attribute(text: str, tmp_path: Path) -> None:
    assert PageCheck(exported(html.write, exports.hostile(tmp_path, text))).broken == []


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_page_has_no_character_that_hides_or_cannot_be_encoded(text: str, tmp_path: Path) -> None:
    page = exported(html.write, exports.hostile(tmp_path, text))
    assert not HIDDEN.search(page)
    page.encode("utf-8")


def test_hidden_characters_are_shown_by_name(tmp_path: Path) -> None:
    page = PageCheck(exported(html.write, exports.hostile(tmp_path, "a\u202eb\x00c\ud800d")))
    assert "a⟨U+202E⟩b␀c\ufffdd" in page.text


def test_hostile_text_is_shown_as_it_is(tmp_path: Path) -> None:
    text = '<img src=x onerror="alert(1)"> & </script>'
    page = PageCheck(exported(html.write, exports.hostile(tmp_path, text)))
    assert page.text.count(text) > 10


def test_style_is_the_one_that_the_policy_names(page: PageCheck) -> None:
    [policy] = [
        attrs["content"]
        for _, attrs in page.elements
        if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    [style] = [data for tag, data in page.texts if tag == "style"]
    assert policy == html.policy() and "default-src 'none'" in policy
    assert style == html.STYLE and "</" not in style


def test_page_loads_nothing(page: PageCheck) -> None:
    assert "://" not in html.STYLE and "@import" not in html.STYLE
    assert not re.search(r"url\((?!#)", html.STYLE)
    assert not [tag for tag, _ in page.elements if tag in ("script", "link", "iframe", "object")]


def test_runs_calls_and_marks_are_there(page: PageCheck) -> None:
    assert page.classes("run-part") == 4
    assert page.classes("call") == 4
    assert page.classes("compaction") >= 1 and page.classes("rewind") == 1
    assert "outcome unknown" in page.text and "never started" in page.text
    assert "settled: applied" in page.text and "looks good" in page.text
    assert "a wrong turn" in page.text


def test_every_link_leads_somewhere(page: PageCheck) -> None:
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    links = {(attrs["href"] or "")[1:] for _, attrs in page.elements if "href" in attrs}
    assert links <= set(ids) and len(ids) == len(set(ids))


def test_every_filter_has_a_box(page: PageCheck) -> None:
    boxes = {attrs["id"] for tag, attrs in page.elements if tag == "input"}
    assert boxes == set(re.findall(r"#(f-\w+):", html.STYLE))


def test_every_status_has_a_shape_and_a_colour_of_its_own() -> None:
    looks = [*CALLS.values(), *RUNS.values()]
    assert {look.kind for look in looks} <= set(SHAPES)
    drawn = [SHAPES[kind] for kind in {look.kind for look in looks}]
    assert len(drawn) == len(set(drawn))
    assert all(f".k-{look.kind}{{" in html.STYLE.replace(",", "") for look in looks)


def test_axis_keeps_order_and_stays_on_the_page() -> None:
    axis = Axis([(0, 10), (1000, 1100), (1100.5, 1200), (9e9, 9e9)])
    places = [axis.at(moment) for moment in (-5, 0, 5, 10, 500, 1000, 1200, 5e8, 9e9, 1e10)]
    assert places == sorted(places)
    assert places[0] == 0 and places[-1] == pytest.approx(100)


def test_session_without_runs_has_a_page_without_a_picture(tmp_path: Path) -> None:
    with exports.store_at(tmp_path).create("empty") as session:
        path = session.path
    page = PageCheck(exported(html.write, path))
    assert page.broken == [] and page.classes("picture") == 0


def test_long_prose_is_folded_and_whole(tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(2000))
    with exports.store_at(tmp_path).create("long") as session, session.run("tell") as run:
        run.assistant(words)
    page = PageCheck(exported(html.write, session.path))
    assert page.classes("more") == 1
    assert re.sub("[0-9,]+ more characters", "", page.text).count("word") == 2000
    assert "word1999" in page.text


def test_image_of_the_session_is_in_the_page(tmp_path: Path) -> None:
    with exports.store_at(tmp_path).create("image") as session, session.run("look") as run:
        run.user([{"type": "image", "source": {"media_type": "image/png", "data": "iVBORw0KGgo="}}])
    page = PageCheck(exported(html.write, session.path))
    assert [tag for tag, _ in page.elements].count("img") == 1 and page.broken == []


def in_a_browser(page: str, below: Path) -> tuple[str, str]:
    """The page as a browser has it when it has loaded, and what the browser had to say."""
    assert CHROMIUM is not None
    path = below / "page.html"
    path.write_text(page, encoding="utf-8")
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={below / 'profile'}",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=True,
    )
    return done.stdout.decode(), done.stderr.decode(errors="replace")


@pytest.mark.skipif(
    CHROMIUM is None,
    reason=(
        "there is no chromium here; optional in CI too: .ci/run installs no browser, and the tests "
        "above check the page's elements without one"
    ),
)
def test_browser_sees_the_same_elements_and_refuses_nothing(tmp_path: Path) -> None:
    page = exported(html.write, exports.hostile(tmp_path, "".join(HOSTILE)))
    seen, said = in_a_browser(page, tmp_path)
    wanted, found = PageCheck(page), PageCheck(seen)
    assert [tag for tag, _ in found.elements] == [tag for tag, _ in wanted.elements]
    assert found.broken == []
    assert "Content Security Policy" not in said and "CONSOLE" not in said


def test_what_is_strong_and_what_is_code_is_shown_so() -> None:
    said = "**all of `a` is** `**x**` and **b**, not 2**3**4, **\\n** or ** c **; **<i>**"
    found = html_text.prose(said)
    assert "<strong>b</strong>" in found and "<strong>&lt;i&gt;</strong>" in found
    assert "<code>**x**</code>" in found and "2**3**4" in found and "** c **" in found
    assert "**all of <code>a</code> is**" in found


def test_session_is_told_without_what_is_empty_and_system_parts_as_text(tmp_path: Path) -> None:
    parts = [{"type": "input_text", "text": "Be careful."}, {"type": "text", "text": "<b>"}]
    path = exports.unchecked(tmp_path, Draft("system_message", {"name": "p", "content": parts}))
    found = exported(html.write, path)
    assert "Be careful." in found and "input_text" not in found and "&lt;b&gt;" in found
    assert "custom_version" not in found and PageCheck(found).broken == []
