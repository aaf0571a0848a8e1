"""`durasess export`: a session as a page, as JSON lines, as a provider's messages. Reads only."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from durasess.cli import options, stores
from durasess.cli.blocks import Block, Fact, Facts, Notes, count, number
from durasess.cli.export_file import ExportFile
from durasess.cli.masking import Masker
from durasess.cli.output import DAMAGE, SOUND, Output
from durasess.interop import html, jsonl, markdown, provider_messages
from durasess.session.masking import Masker as AnyMasker
from durasess.session.opening import open_core
from durasess.session.options import SessionOptions
from durasess.session.view import SessionView


class Write(Protocol):
    """Sends an export piece by piece."""

    def __call__(
        self, session: SessionView, send: Callable[[str], object], *, masker: AnyMasker
    ) -> None: ...


FORMATS: dict[str, Write] = {
    "markdown": markdown.write,
    "html": html.write,
    "jsonl": jsonl.write,
    "openai": provider_messages.write_openai,
    "anthropic": provider_messages.write_anthropic,
}


class Exported(msgspec.Struct, kw_only=True):
    """What was exported. `bytes` of the file `output`; `damage` says what could not be read."""

    path: str
    session_id: str
    format: str
    output: str
    bytes: int
    last_seq: int
    masked: int
    damage: list[str]


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "export",
        run,
        summary="Write a session as a page for people, as JSON lines, or as a provider's messages.",
        more="Changes nothing and may run beside writers. markdown and html are pages for people;\n"
        "html is one file that needs no network and runs no scripts. jsonl has every event and\n"
        "can be imported again. openai and anthropic are the live conversation as these providers\n"
        "take it. Of a damaged session what can be read is written. Secrets are masked. Exit\n"
        "status: 0 sound, 1 damage, 2 usage, 3 not readable.",
        example="durasess export ~/.myagent/sessions/a1 --format html -o a1.html",
    )
    stores.add_session(parser)
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        choices=tuple(FORMATS),
        default="markdown",
        help="markdown, html, jsonl, openai or anthropic (default: %(default)s)",
    )
    parser.add_argument(
        "-o",
        "--output",
        dest="output",
        metavar="FILE",
        help="write this file, whole or not at all (default, as with a dash: standard output)",
    )
    options.add_show_secrets(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Export a session."""
    if chosen.output == "-":
        chosen.output = None
    if chosen.json and chosen.output is None:
        raise options.UsageError("--json reports on a file that is written; give one: -o FILE.")
    directory = stores.session_directory(chosen)
    # Of the workspace, tools and children nothing is needed to read.
    core, report = open_core(directory, SessionOptions(clock=time.time_ns), mode="read")
    session = SessionView(core, report)
    masker = Masker(show=chosen.show_secrets)
    write = FORMATS[chosen.format]
    if chosen.output is None:
        write(session, _to_standard_output(), masker=masker)
        sys.stdout.flush()
    else:
        with ExportFile(chosen.output) as file:
            write(session, file.send, masker=masker)
    damage = list(dict.fromkeys(map(str, core.engine.damage)))
    if chosen.output is None:
        for one in damage:
            output.remark(f"not all of the session could be read: {one}")
        if masker.count:
            were = "was" if masker.count == 1 else "were"
            output.remark(
                f"{count(masker.count, 'secret')} {were} masked; --show-secrets shows it."
            )
    else:
        done = Exported(
            path=directory,
            session_id=session.session_id,
            format=chosen.format,
            output=file.path,
            bytes=file.bytes,
            last_seq=session.last_seq,
            masked=masker.count,
            damage=damage,
        )
        output.report(done, lambda: _blocks(done, masker))
    return DAMAGE if damage else SOUND


def _to_standard_output() -> Callable[[str], object]:
    """As UTF-8, whatever the terminal's encoding is: a page says itself what it is in."""
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:
        return sys.stdout.write
    sys.stdout.flush()
    return lambda text: raw.write(text.encode("utf-8", "replace"))


def _blocks(done: Exported, masker: Masker) -> Iterator[Block]:
    seqs = f"up to seq {number(done.last_seq)}"
    yield Facts(
        "exported",
        [
            Fact("session", done.session_id, seqs),
            Fact("file", done.output, f"{done.format}, {number(done.bytes)} bytes", "good"),
        ],
    )
    if done.damage:
        yield Notes("not all could be read", done.damage, "bad")
    yield from options.masked_blocks(masker)
