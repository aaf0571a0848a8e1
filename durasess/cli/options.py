"""How the verbs of the command declare their options: long ones only, each help with an example."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from durasess.cli.blocks import Block, Fact, Facts
from durasess.cli.blocks import count as counted

if TYPE_CHECKING:
    from durasess.cli.masking import Masker
    from durasess.cli.output import Output

    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]
    Run = Callable[[argparse.Namespace, Output], int]


class UsageError(Exception):
    """The command was asked for something that makes no sense; the message says what to ask."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help with room for the longest option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


def described(
    make: Callable[..., argparse.ArgumentParser],
    *names: str,
    summary: str,
    example: str,
    more: str = "",
    **settings: Any,
) -> argparse.ArgumentParser:
    """A parser whose help begins with one imperative line and ends with an example."""
    parser = make(
        *names,
        description=f"{summary}\n\n{more}".strip(),
        epilog=f"example:\n  {example}",
        formatter_class=_Help,
        allow_abbrev=False,
        add_help=False,
        **settings,
    )
    parser.add_argument("--help", action="help", help="show this help and exit")
    return parser


def add_verb(
    verbs: Verbs,
    name: str,
    run: Run,
    *,
    summary: str,
    example: str,
    more: str = "",
    json_lines: bool = False,
) -> argparse.ArgumentParser:
    """A verb with its help and `--json`; `run` gets the parsed options and the output. With
    `json_lines` each report is one line."""
    parser = described(
        verbs.add_parser,
        name,
        summary=summary,
        example=example,
        more=more,
        help=summary[0].lower() + summary[1:].rstrip("."),
    )
    what = "one JSON value a line" if json_lines else "one JSON document"
    parser.add_argument("--json", action="store_true", help=f"print {what}")
    parser.set_defaults(run=run, json_lines=json_lines)
    return parser


def add_show_secrets(parser: argparse.ArgumentParser) -> None:
    """Declare that secrets are masked unless told otherwise."""
    parser.add_argument(
        "--show-secrets", action="store_true", help="do not mask what looks like a secret"
    )


def masked_blocks(masker: Masker) -> Iterator[Block]:
    """How many secrets were masked, if any."""
    if masker.count:
        note = "--show-secrets shows them"
        yield Facts("", [Fact("masked", counted(masker.count, "secret"), note, "warn")])


def fields(report: msgspec.Struct) -> dict[str, Any]:
    """A report as plain JSON values."""
    plain: dict[str, Any] = msgspec.to_builtins(report)
    return plain


def positive(text: str) -> int:
    """An argument type: an integer of 1 or more."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, found {value}")
    return value


def count(text: str) -> int:
    """An argument type: an integer of 0 or more."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected 0 or more, found {value}")
    return value
