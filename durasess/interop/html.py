"""A session as one HTML page: no network, no scripts, nothing of the session that a browser obeys.

A timeline to look at, runs that fold, filters by style alone; for light and dark, screen and paper.
Written while the log is read, in bounded memory.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator

from durasess.interop.conversation import entries
from durasess.interop.entries import RunFacts
from durasess.interop.html_entries import elements
from durasess.interop.html_picture import RUNS_SHOWN, is_shortened, picture
from durasess.interop.html_shapes import CALLS, RUNS, Look, definitions
from durasess.interop.html_style import STYLE
from durasess.interop.html_text import attribute, icon, text
from durasess.interop.overview import Overview
from durasess.interop.survey import look
from durasess.interop.visible import counted, duration, moment, one_line, seconds_between
from durasess.session.masking import Masker
from durasess.session.view import SessionView

_FILTERS = (
    ("user", "user", True),
    ("assistant", "assistant", True),
    ("calls", "tool calls", True),
    ("marks", "session events", True),
    ("minor", "bookkeeping", False),
    ("hidden", "rewound", True),
    ("trouble", "only what went wrong", False),
)
"""Name, label, whether it is on."""


def write(session: SessionView, send: Callable[[str], object], *, masker: Masker) -> None:
    """Send the page piece by piece. `session` may be open in mode "read", damaged as well: the page
    says what is missing. `masker` takes secrets out, and counts them.

    Raises StorageError when the disk refuses.
    """
    for piece in pieces(session, masker):
        send(piece)


def pieces(session: SessionView, masker: Masker) -> Iterator[str]:
    """The page as pieces of text."""
    overview = look(session, masker)
    yield _head(overview)
    yield from _top(overview)
    yield '<div class="wide layout">\n'
    yield from _list(overview)
    yield '<main id="conversation">\n'
    yield from elements(entries(session, overview, masker), runs=len(overview.runs))
    yield "</main>\n</div>\n"
    if overview.notices and not overview.damage:
        told = "".join(f"<li>{text(one)}</li>" for one in overview.notices[:50])
        yield f'<div class="wide note"><p>Notices of the log</p><ul>{told}</ul></div>\n'
    masked = f"{counted(masker.count, 'secret')} masked. " if masker.count else ""
    yield (
        f'<footer class="wide">{masked}Exported by durasess up to seq {overview.last_seq:,}.'
        "</footer>\n</body>\n</html>\n"
    )


def policy() -> str:
    """What the page allows itself: its own style and images inside of it."""
    made = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{made}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _head(overview: Overview) -> str:
    title = attribute(overview.title or overview.session_id)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title} · durasess</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#conversation">Skip to the conversation</a>\n'
        f"{definitions()}\n"
    )


def _top(overview: Overview) -> Iterator[str]:
    yield '<header class="wide">\n<p class="eyebrow">Agent session</p>\n'
    title = one_line(overview.title or overview.session_id, 300)
    yield f"<h1>{text(title)}</h1>\n"
    yield f'<ul class="chips">{"".join(_chips(overview))}</ul>\n'
    yield from _alert(overview)
    yield f'<dl class="tiles">{"".join(_tiles(overview))}</dl>\n</header>\n'
    drawn = picture(overview)
    if drawn:
        yield (
            f'<div class="wide"><figure><figcaption>{"".join(_legend(overview))}</figcaption>'
            '<div class="scroll" tabindex="0" role="region" aria-label="Timeline">'
            f"{drawn}</div></figure></div>\n"
        )
    boxes = "".join(
        f'<label><input type="checkbox" id="f-{name}"{" checked" * is_on}>{label}</label>'
        for name, label, is_on in _FILTERS
    )
    yield (
        '<div class="filters"><form class="wide"><fieldset><legend>Show</legend>'
        f"{boxes}</fieldset></form></div>\n"
    )


def _chips(overview: Overview) -> Iterator[str]:
    meta = overview.meta
    facts = [
        ("session", overview.session_id),
        ("status", meta.status),
        ("model", overview.model),
        ("workspace", meta.workspace),
        ("user", meta.user_id),
        ("origin", meta.origin),
        ("parent", meta.parent),
        *meta.labels.items(),
    ]
    for name, value in facts:
        if value:
            yield f"<li><b>{text(one_line(name, 60))}</b>{text(one_line(value, 200))}</li>"


def _alert(overview: Overview) -> Iterator[str]:
    if not overview.damage:
        return
    told = "".join(f"<li>{text(one)}</li>" for one in [*overview.damage, *overview.notices][:50])
    yield (
        f'<section class="alert"><h2>{icon("bad")} This session is damaged</h2>'
        f"<p>What follows is what could be read of it.</p><ul>{told}</ul></section>\n"
    )


def _tiles(overview: Overview) -> Iterator[str]:
    usage = overview.usage
    runs = [f"{overview.messages:,} messages"]
    yield _tile("Runs", f"{overview.counted_runs:,}", runs)
    calls = [f"{count:,} {CALLS[name].word}" for name, count in overview.outcomes.items()]
    yield _tile("Tool calls", f"{sum(overview.outcomes.values()):,}", calls)
    tokens = [f"{usage.prompt:,} in", f"{usage.completion:,} out"]
    yield _tile("Tokens", f"{usage.total:,}", tokens)
    if usage.cost:
        yield _tile("Cost", f"{usage.cost:,.4g}", [])
    length = duration(seconds_between(overview.started_at, overview.ended_at))
    yield _tile("From first to last event", length or "0 s", [moment(overview.started_at)])
    events = f"seq {overview.first_seq:,} to {overview.last_seq:,}"
    yield _tile("Events", f"{overview.events:,}", [events])


def _tile(name: str, value: str, notes: list[str]) -> str:
    small = f"<small>{text(', '.join(notes))}</small>" if notes else ""
    return f"<div><dt>{name}</dt><dd>{text(value)}{small}</dd></div>"


def _legend(overview: Overview) -> Iterator[str]:
    newest = f", the newest {RUNS_SHOWN} of {len(overview.runs):,} runs"
    yield f"<strong>Timeline{newest if is_shortened(overview) else ''}</strong>"
    used = [RUNS[run.status] for run in overview.runs[-RUNS_SHOWN:]]
    used += [CALLS[name] for name in overview.outcomes if name in CALLS]
    looks: dict[str, Look] = {}
    for one in used:
        looks.setdefault(one.kind, one)
    for kind, one in looks.items():
        word = "succeeded, completed" if kind == "good" else one.word
        yield f'<span class="{kind}">{icon(kind)}<span>{word}</span></span>'


def _list(overview: Overview) -> Iterator[str]:
    yield '<nav aria-label="Runs"><h2>Runs</h2>\n<ol>\n'
    for run in overview.runs:
        yield _listed(run)
    yield "</ol></nav>\n"


def _listed(run: RunFacts) -> str:
    look = RUNS[run.status]
    length = duration(seconds_between(run.started_at, run.worked_until))
    title = text(run.request[:120] or "continued")
    hidden = ' class="hidden"' if run.is_hidden else ""
    return (
        f'<li{hidden}><a href="#run-{run.number}"><i class="{look.kind}">{icon(look.kind)}</i>'
        f"<span>{run.number}. {title}</span><span>{length}</span></a></li>\n"
    )
