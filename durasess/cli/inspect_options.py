"""What `durasess inspect` can be asked: its options, and which of them make sense together."""

from __future__ import annotations

import argparse

from durasess.cli import options, session_context, session_runs, stores

CONTEXT = 5
"""Events shown before and behind the one that was asked for."""

MODELS = -1
"""`--context` without a number: the model's."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare them all."""
    stores.add_session(parser)
    parser.add_argument("--events", action="store_true", help="list the events, data shortened")
    parser.add_argument(
        "--around", metavar="SEQ", type=options.positive, help="list the events around this seq"
    )
    _add_session_options(parser)
    parser.add_argument(
        "--at",
        metavar="SEQ",
        type=options.positive,
        help="show the event with this seq in full, and the state after it",
    )
    parser.add_argument(
        "--diff",
        metavar=("A", "B"),
        nargs=2,
        type=options.count,
        help="show how the states after these two seqs differ, as JSON paths",
    )
    parser.add_argument(
        "--reducer",
        metavar="MODULE:NAME",
        help="your apply(state, event): folds events where no snapshot is of exactly that seq",
    )
    parser.add_argument(
        "--initial",
        metavar="MODULE:NAME",
        help="your function that makes the state before the first event (default: dict)",
    )
    options.add_show_secrets(parser)


def check(chosen: argparse.Namespace) -> None:
    """UsageError for options that need another one."""
    if chosen.context not in (None, MODELS) and chosen.around is None:
        raise options.UsageError(
            "--context with a number is for --around; without one it shows what the next model "
            "call would receive."
        )
    if chosen.context != MODELS and (chosen.max_tokens or chosen.format):
        raise options.UsageError("--max-tokens and --format are for --context without a number.")


def beside(context: int | None) -> int:
    """How many events before and behind --around."""
    return CONTEXT if context is None or context == MODELS else context


def _add_session_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--context",
        metavar="N",
        nargs="?",
        type=_context,
        const=MODELS,
        help="what the next model call would receive, after the recovery that the next writer "
        f"would write; with N: so many events before and behind --around (default: {CONTEXT})",
    )
    parser.add_argument(
        "--max-tokens", metavar="N", type=options.positive, help="the budget of --context"
    )
    parser.add_argument(
        "--format",
        choices=session_context.FORMATS,
        help="whose messages --context shows (default: neutral)",
    )
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument(
        "--runs",
        metavar="N",
        type=options.positive,
        default=session_runs.SHOWN,
        help="show the newest N runs (default: %(default)s)",
    )
    limit.add_argument("--all", action="store_true", help="show all runs")


def _context(text: str) -> int:
    """An argument type: a number of events."""
    try:
        return options.count(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a number of events, found {text!r}; for the model's context give --context "
            "behind the path"
        ) from None
