"""Sessions to be exported, the exports of them, and what a page may consist of."""

from __future__ import annotations

import contextlib
import html.parser
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from durasess.engine.types import Draft
from durasess.session.masking import Masker
from durasess.session.opening import open_core
from durasess.session.options import SessionOptions
from durasess.session.session import Session
from durasess.session.view import SessionView
from durasess.store.store import Store
from tests.support.sessions import clock


def store_at(below: Path, **options: Any) -> Store:
    """A store whose clock moves one millisecond with each look."""
    return Store(below / "store", clock=clock(), **options)


HOSTILE = [
    "</script></style></title></pre></details><script>alert(1)</script>",
    '<img src=x onerror=alert(1)>"><svg/onload=alert(1)>',
    "javascript:alert(1) [a](javascript:alert(1)) ![x](https://evil.example/p.png)",
    "\"' onmouseover='alert(1)' style='background:url(https://evil.example)'",
    "x}body{background:url(https://evil.example/c)}/*",
    "<!-- --> <![CDATA[ ]]> <?php ?> &lt;b&gt; &#x3c; &amp;",
    "left \u202e right \u2066 \u200f \u200b \ufeff \U000e0041 end",
    "nul \x00 bell \x07 escape \x1b[31m del \x7f return \r back",
    "half \ud800 and \udfff other",
    "```\n````\n~~~~\n# Heading\n\n<b>x</b>\n\n---\n\n> [!NOTE]\n> x\n===\n1. a\n* b",
    "| a | b |\n|---|---|\n$x$ :smile: www.example.org",
    "\n\n    indented\n\t<b>tab</b>",
]


def worked(below: Path) -> str:
    """The directory of a session with about everything in it."""
    store = store_at(below)
    with store.create(
        "worked", title="Fix & release", model="m-1", system="Be careful."
    ) as session:
        with session.run("fix it") as run:
            run.assistant(
                [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Reading."}],
                tool_calls=[call("c1", "read"), call("c2", "write", path="a.py")],
                usage={"prompt_tokens": 800, "completion_tokens": 40},
            )
            with run.tool("c1") as one:
                one.result({"lines": ["a", "b"]})
            with contextlib.suppress(OSError), run.tool("c2"):
                raise OSError("no space left")
            run.assistant("Done.\n\n```python\nprint(1)\n```")
        with session.run("a wrong turn") as run:
            run.assistant("Wrong.")
        session.rewind(session.runs[-1].seq - 1)
        session.compact("It was fixed.")
        session.note("looks good")
        session.emit("my_event", {"n": 1})
        run = session.run("deploy").__enter__()
        run.assistant("Deploying.", tool_calls=[call("d1", "deploy"), call("d2", "mail")])
        run.tool("d1").__enter__()
        session.abandon()
    with store.open("worked") as session:
        session.open_calls[0].settle("applied", output="it is there")
        with session.resume_run() as run:
            run.assistant("Deployed.")
    return os.path.join(store.path, "worked")


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"call_id": call_id, "name": name, "arguments": arguments}


def hostile(below: Path, text: str) -> str:
    """The directory of a session that has a text wherever a text can be."""
    store = store_at(below, mask=None)
    parts = [
        {"type": "thinking", "thinking": text},
        {"type": "text", "text": text},
        {"type": "image_url", "image_url": {"url": f"https://evil.example/{text}"}},
        {"type": text, text: text},
    ]
    made = store.create(
        "hostile",
        title=text,
        model=text,
        system=text,
        user_id=text,
        origin=text,
        labels={text: text},
    )
    with made as session:
        session.set_task(goal=text, pending=[text, {text: text}])
        session.note(text)
        session.emit("x", {text: [text], "y": text})
        with session.run(text, code_version=text) as run:
            run.assistant(
                parts,
                tool_calls=[
                    {"call_id": text[:500], "name": text, "arguments": {text: text, "path": text}},
                    {"call_id": "two", "name": "tool", "arguments": json.dumps([text])},
                ],
                model=text,
            )
            with run.tool(text[:500]) as one:
                one.result(parts)
            run.assistant("", tool_calls=[call("four", "fail")])
            with contextlib.suppress(OSError), run.tool("four"):
                raise OSError(text)
            run.ask_approval("two", prompt=text)
            session.deny("two", by=text, comment=text)
            run.assistant(text)
        session.compact(text)
        run = session.run([{"type": "text", "text": text}]).__enter__()
        run.assistant("", tool_calls=[call("three", text)])
        run.tool("three").__enter__()
        session.abandon()
    with store.open("hostile") as session:
        session.open_calls[0].settle("applied", output=text)
    return os.path.join(store.path, "hostile")


def unchecked(below: Path, *said: Draft) -> str:
    """The directory of a session with these events behind its first, whatever they say."""
    store = store_at(below)
    core, _ = store.open_for_import("unchecked")
    core.engine.append_many([Draft("session_created", {}), *said])
    core.engine.close()
    return os.path.join(store.path, "unchecked")


def damaged(below: Path) -> str:
    """A session with one damaged event in the middle of its log."""
    store = store_at(below)
    with store.create("s") as session, session.run("go") as run:
        for number in range(30):
            run.assistant(f"reply {number}.")
    [segment] = Path(session.path).glob("events_*.jsonl")
    data = segment.read_bytes()
    segment.write_bytes(data.replace(b"reply 14.", b"reply 41."))
    for snapshot in Path(session.path).glob("snapshot*"):
        snapshot.unlink()
    return session.path


def reading(path: str) -> SessionView:
    """The session, open in mode "read"."""
    return SessionView(*open_core(path, SessionOptions(clock=clock()), mode="read"))


def exported(write: Callable[..., None], path: str, masker: Masker | None = None) -> str:
    """All of an export."""
    pieces: list[str] = []
    write(reading(path), pieces.append, masker=masker or Masker())
    return "".join(pieces)


def files_of(path: str) -> dict[str, bytes]:
    """Every file of a session."""
    return {str(one): one.read_bytes() for one in sorted(Path(path).rglob("*")) if one.is_file()}


def copy_of(below: Path, lines: str) -> Session:
    """A session that an export was imported into."""
    from tests.support import exported_lines as reader

    store = Store(below / "copies", clock=clock())
    core, _ = store.open_for_import("copy")
    for draft in reader.read(lines.splitlines()):
        core.engine.append_many([core.prepared(draft)])
    core.engine.close()
    return store.open("copy", mode="read")


_ELEMENTS = "html head meta title style body a svg symbol defs pattern use path rect circle g text"
_ELEMENTS += (
    " tspan header main nav section article details summary div span p pre code b i h1 h2 h4"
)
_ELEMENTS += (
    " dl dt dd ul ol li small strong figure figcaption form fieldset legend label input img"
)
_ELEMENTS += " footer"
_ATTRIBUTES = "id class href src alt title lang charset http-equiv content name type checked open"
_ATTRIBUTES += (
    " tabindex aria-label aria-hidden role x y width height rx cx cy r d viewbox overflow"
)
_ATTRIBUTES += " preserveaspectratio patternunits"
ELEMENTS = frozenset(_ELEMENTS.split())
ATTRIBUTES = frozenset(_ATTRIBUTES.split())
VOID = frozenset(["meta", "input", "img"])
_SAFE_HREF = re.compile(r"#[a-z]+(-[a-z0-9]+)?")
_SAFE_SRC = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")


class PageCheck(html.parser.HTMLParser):
    """Parses a page; `broken` says what should not be in it, `texts` has all text by element."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.broken: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        self.broken += [f"<{one}> is not closed" for one in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.broken += [f"<{tag}>"] * (tag not in ELEMENTS)
        for name, value in attrs:
            self.broken += [f"<{tag} {name}>"] * (name not in ATTRIBUTES)
            if name == "href" and not _SAFE_HREF.fullmatch(value or ""):
                self.broken.append(f"href={value}")
            if name == "src" and not _SAFE_SRC.fullmatch(value or ""):
                self.broken.append(f"src={value}")
            if name in ("id", "class") and not re.fullmatch(r"[a-z0-9 -]+", value or ""):
                self.broken.append(f"{name}={value}")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.broken.append(f"</{tag}> closes {self._open[-1:]}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def handle_comment(self, data: str) -> None:
        self.broken.append(f"<!--{data}")

    def handle_decl(self, decl: str) -> None:
        self.broken += [f"<!{decl}>"] * (decl.lower() != "doctype html")

    def handle_pi(self, data: str) -> None:
        self.broken.append(f"<?{data}")

    def unknown_decl(self, data: str) -> None:
        self.broken.append(f"<![{data}")

    @property
    def text(self) -> str:
        """All text but the style."""
        return "".join(data for tag, data in self.texts if tag != "style")

    def classes(self, name: str) -> int:
        """How many elements have a class."""
        return sum(name in (attrs.get("class") or "").split() for _, attrs in self.elements)
