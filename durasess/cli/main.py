"""The entry point of the `durasess` command: options, the verb, errors as messages and statuses.

Exit status: 0 sound, 1 damage (or a drill that failed), 2 usage, 3 not readable or locked.
"""

from __future__ import annotations

import argparse
import importlib
import keyword
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TextIO, cast

from durasess import __version__
from durasess.cli.options import UsageError, described
from durasess.cli.output import DAMAGE, UNREADABLE, USAGE, Output
from durasess.cli.printed import Nowhere, OutputLost, Printed
from durasess.errors import CorruptionError, DurasessError

INTERRUPTED = 130
BROKEN_PIPE = 141
"""What shells report for a command that Ctrl-C or a closed pipe ended."""

VERBS = (
    "inspect",
    "verify",
    "repair",
    "tail",
    "prune",
    "export",
    "import",
    "list",
    "search",
    "runs",
    "fork",
    "rewind",
    "rename",
    "archive",
    "pin",
    "delete",
    "gc",
    "move",
    "pack",
    "unpack",
    "doctor",
    "drill",
    "completion",
)
"""In the order of the help. The module of a verb has its name, with a line below behind a word of
Python's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (by default the process's) and return its status."""
    _make_printable()
    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        options = _parser(given[0] if given else "").parse_args(given)
        status = _run(options)
        sys.stdout.flush()
    except SystemExit as end:
        return int(end.code or 0)
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        _discard_output()
        return BROKEN_PIPE
    except (OSError, OutputLost) as error:
        _discard_output()
        print(f"durasess: the output could not be written: {error}.", file=sys.stderr)
        return UNREADABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _run(options: argparse.Namespace) -> int:
    stream = cast(TextIO, Printed(sys.stdout))
    output = Output(stream, as_json=options.json, as_lines=options.json_lines)
    try:
        status: int = options.run(options, output)
    except UsageError as error:
        output.failure(error, str(error))
        return USAGE
    except CorruptionError as error:
        output.failure(error, str(error))
        return DAMAGE
    except DurasessError as error:
        output.failure(error, str(error))
        return UNREADABLE
    except BrokenPipeError:
        raise
    except OSError as error:
        output.failure(error, f"{error}. Nothing was changed.")
        return UNREADABLE
    return status


def _discard_output() -> None:
    """The interpreter's own flush at the end must not complain."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _make_printable() -> None:
    """A character that the output cannot show is escaped, never a traceback; what is printed where
    the caller closed the output is for nobody."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Nowhere())
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _parser(verb: str = "") -> argparse.ArgumentParser:
    """Of a verb that is known and needs no other one, that one alone: the others' modules cost more
    time than most of what is asked."""
    parser = described(
        argparse.ArgumentParser,
        prog="durasess",
        summary="Look at, check and repair durable sessions of long-running agents.",
        example="durasess inspect ~/.myagent/sessions/a1",
    )
    parser.add_argument("--version", action="version", version=f"durasess {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name in (verb,) if verb in VERBS and verb != "completion" else VERBS:
        _module(name).add_to(verbs)
    # For `completion`, which describes it.
    parser.set_defaults(parser=parser)
    return parser


def _module(name: str) -> Any:
    own = f"{name}_" if keyword.iskeyword(name) else name
    return importlib.import_module(f"durasess.cli.{own}")


if __name__ == "__main__":
    sys.exit(main())
