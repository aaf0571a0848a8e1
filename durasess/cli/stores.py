"""How every verb names a store and a session in it: what stands on the line → a Catalog, an id.

A store is `--store DIR`, else $DURASESS_HOME, else the user's data directory; verbs about a whole
store take DIR alone too. A session is its directory, or what `Catalog.find` understands.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import time

from durasess.cli.blocks import Fact, Facts
from durasess.cli.options import UsageError
from durasess.cli.output import Output
from durasess.engine import paths
from durasess.errors import SessionNotFoundError
from durasess.session.options import SessionOptions
from durasess.store.catalog import Catalog
from durasess.store.listing import last_moment

_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def add_store(parser: argparse.ArgumentParser, *, place: bool = False, also: str = "") -> None:
    """Declare the store: an option, with `place` also a place on the line, for a verb that is about
    all of it. `also` is another name of the option."""
    names = ["--store", also] if also else ["--store"]
    parser.add_argument(
        *names,
        dest="store",
        metavar="DIR",
        help="the store (default: $DURASESS_HOME, else the user's data directory)",
    )
    parser.set_defaults(place=None)
    if place:
        parser.add_argument("place", metavar="DIR", nargs="?", help="the store, as with --store")


def add_session(parser: argparse.ArgumentParser) -> None:
    """Declare the session that the verb is about, and its store."""
    parser.add_argument(
        "session",
        metavar="SESSION",
        help="its directory; or its id, the beginning of that, or its title",
    )
    add_store(parser)


def named(chosen: argparse.Namespace) -> str | None:
    """The store that was named, None when none was. UsageError when two were."""
    option: str | None = chosen.store
    place: str | None = chosen.place
    if option is not None and place is not None and option != place:
        raise UsageError(f"two stores are named, {place} and --store {option}. Give one.")
    return option if place is None else place


def catalog(chosen: argparse.Namespace) -> Catalog:
    """The store that was named, or the default one."""
    return _at(named(chosen))


def _at(path: str | None) -> Catalog:
    return Catalog(path, SessionOptions(clock=time.time_ns))


def existing(chosen: argparse.Namespace) -> Catalog:
    """The store, which must be there when it was named. SessionNotFoundError."""
    store = catalog(chosen)
    if named(chosen) is not None and not os.path.isdir(store.path):
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
    found = directory(chosen)
    store = _at(paths.parent(found))
    return store, store.required(paths.base(found))


def session_directory(chosen: argparse.Namespace) -> str:
    """The directory of the session that was named, which holds one. SessionNotFoundError."""
    found = directory(chosen)
    if not is_session(found):
        raise not_there(found)
    return found


def directory(chosen: argparse.Namespace) -> str:
    """The directory that was named: of a session, or what is at the path that was given."""
    return directory_of(chosen.session, named(chosen))


def directory_of(text: str, store: str | None) -> str:
    """The directory that `text` means, links resolved, so that its last part is the session's id.
    What looks like a path is one; so is what is the name of a session here, unless a store was
    named. Else the store is asked. SessionNotFoundError when it knows none."""
    path = os.path.realpath(os.path.expanduser(text))
    separators = [one for one in (os.sep, os.altsep) if one]
    if any(one in text for one in separators) or text in (os.curdir, os.pardir):
        return path
    if store is None and is_session(path):
        return path
    there = _at(store)
    try:
        return os.path.realpath(paths.join(there.path, there.find(text)))
    except SessionNotFoundError as error:
        if store is not None:
            raise
        if os.path.lexists(path):
            return path
        raise SessionNotFoundError(
            f"there is no session at {path}, and none in the store: {error}", path=path
        ) from None


def not_there(path: str) -> SessionNotFoundError:
    """The error for a path where there is no session."""
    return SessionNotFoundError(
        f"there is no session at {path}. Give the path of its directory, or its id with --store.",
        path=path,
    )


def is_session(path: str) -> bool:
    """Whether a directory holds a file that only a session has; False for no directory."""
    try:
        names = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(paths.parse(name).kind in _OF_A_SESSION for name in names)


_OF_A_SESSION = frozenset(["meta", "snapshot", "previous", "segment", "owner", "lock"])


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


def end_of_day(text: str) -> datetime.datetime:
    """The same; of a day its end."""
    return last_moment(text) or day(text)


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
