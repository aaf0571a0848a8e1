"""How verbs name a store and a session in it: options and places on the line → a Catalog, an id."""

from __future__ import annotations

import argparse
import datetime
import os
import re
import time

from durasess.cli.blocks import Fact, Facts
from durasess.cli.output import Output
from durasess.engine import paths
from durasess.errors import SessionNotFoundError
from durasess.session.options import SessionOptions
from durasess.store.catalog import Catalog

_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def add_store_place(parser: argparse.ArgumentParser) -> None:
    """Declare the store as a place on the line, which may be left out."""
    parser.add_argument(
        "store",
        metavar="DIR",
        nargs="?",
        help="the store (default: $DURASESS_HOME, else the user's data directory)",
    )


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """Declare the store as an option."""
    parser.add_argument(
        "--store",
        metavar="DIR",
        help="the store (default: $DURASESS_HOME, else the user's data directory)",
    )


def add_session(parser: argparse.ArgumentParser) -> None:
    """Declare the session that the verb is about, and its store."""
    parser.add_argument(
        "session",
        metavar="SESSION",
        help="its directory; or its id, the beginning of that, or its title",
    )
    add_store_option(parser)


def catalog(path: str | None) -> Catalog:
    """The store at a path, or the default one."""
    return Catalog(path, SessionOptions(clock=time.time_ns))


def existing(path: str | None) -> Catalog:
    """The store at a path, which must be there when it was named. SessionNotFoundError."""
    store = catalog(path)
    if path is not None and not os.path.isdir(store.path):
        raise SessionNotFoundError(
            f"there is no store at {store.path}: there is no such directory. Give the directory "
            "that the sessions lie in.",
            path=store.path,
        )
    if os.path.exists(paths.join(store.path, paths.META)):
        raise SessionNotFoundError(
            f"{store.path} is a session, no store. Give the directory that it lies in, "
            f"{paths.parent(store.path)}.",
            path=store.path,
        )
    return store


def session(chosen: argparse.Namespace) -> tuple[Catalog, str]:
    """The store and the id of the session that was named. Raises SessionNotFoundError."""
    text: str = chosen.session
    if chosen.store is None and (os.sep in text or os.path.isdir(text)):
        directory = os.path.realpath(os.path.expanduser(text))
        store = catalog(paths.parent(directory))
        return store, store.required(paths.base(directory))
    store = catalog(chosen.store)
    return store, store.find(text)


def age(text: str) -> datetime.timedelta:
    """An argument type: a span like 90d, 12h, 2w."""
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text.lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"expected a span like 90d, 12h or 2w, found {text!r}")
    try:
        return datetime.timedelta(seconds=int(found[1]) * _SPANS[found[2]])
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is longer than a span may be") from None


def size(text: str) -> int:
    """An argument type: bytes, like 500, 20k, 100M, 2G."""
    found = re.fullmatch(r"(\d{1,15})([kmgt]?)b?", text.lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"expected a size like 20k, 100M or 2G, found {text!r}")
    return int(found[1]) * _UNITS[found[2]]


def day(text: str) -> datetime.datetime:
    """An argument type: a day or a time in RFC 3339, UTC where it has no zone."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a day or a time like 2026-11-29 or 2026-11-29T10:00Z, found {text!r}"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)


def short_time(ts: str) -> str:
    """A time as a list shows it: to the minute."""
    return ts[:16].replace("T", " ")


def short_size(value: int) -> str:
    """Bytes as people read them: 512 B, 1.2 kB, 20 MB."""
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if amount >= 10 or unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} TB"


def said(output: Output, done: dict[str, object], words: str) -> None:
    """One thing that was done: as JSON, or as a line for people."""
    output.report(done, lambda: [Facts("", [Fact(str(done["session_id"]), words)])])
