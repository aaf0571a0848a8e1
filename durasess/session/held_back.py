"""What a streamed reply holds back: the end of what came while it may be the beginning of a secret.

Pieces are a few characters long, so a key that is spread over several would be recognised in none.
Therefore a piece that may be the beginning of a key waits for the next ones, and what is written is
masked whole. Most words wait for nothing. What is held back when the program is killed is lost, as
what comes after it is; every other end of a reply has the whole text.
"""

from __future__ import annotations

import re
from functools import cache

from durasess.session.secret_shapes import NAMED, NAMED_UPPER

LIMIT = 32 * 1024
"""Characters that are held back at most, of a key file."""

WINDOW = 8 * 1024
"""Characters that are held back at most, of any other key. What is longer is written unmasked; what
is looked through for each piece stays bounded."""

_KEY = r"[A-Za-z0-9_.-]*+"
_LITERALS = (
    *(f"{kind}k{rest}" for kind in "srp" for rest in ("_live_", "_test_")),
    *("sk-", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "hf_", "npm_", "glpat-"),
    *("AKIA", "ASIA", "AIza", "xapp-", "eyJ"),
)


def _begun(literal: str, tail: str) -> str:
    """A beginning of the literal, or all of it and the tail: s(?:k(?:-…)?)?"""
    found = tail
    for letter in reversed(literal[1:]):
        found = f"(?:{re.escape(letter)}{found})?"
    return re.escape(literal[0]) + found


@cache
def _plain() -> re.Pattern[str]:
    """Keys, `Bearer …`, user:password@ and the first line of a key file, unfinished at the end."""
    keys = [_begun(literal, _KEY) for literal in _LITERALS]
    keys += [r"x(?:o(?:x(?:[a-z](?:-[A-Za-z0-9-]*+)?)?)?)?"]
    bearer = "[Bb]" + rf"(?:{_begun('earer ', '[A-Za-z0-9._~+/=-]*+')})?"
    words = "|".join([*keys, bearer])
    address = r":(?:/(?:/[^\s/@\"'`]{0,330})?)?"
    return re.compile(
        rf"(?:(?<![A-Za-z0-9])(?:{words})|{address}|{_begun('-----BEGIN ', '[A-Z0-9 -]{0,60}')})\Z"
    )


@cache
def _named() -> re.Pattern[str]:
    """`"api_key": "…` and `API_KEY=…`, unfinished at the end: a name, and what follows it."""
    value = r"\"\s{0,8}(?::\s{0,8}(?:\\*+(?:\"[^\"\\]*+)?)?)?"
    # A quote at the end may close the value, which only with it has the shape of a secret.
    given = r"=(?:\"[^\"\n]*+\"?|'[^'\n]*+'?|[^\s\"'\\$;&|<>(){}\[\],`]*+)"
    return re.compile(
        rf"(?:\"(?P<key>[\w-]{{0,64}})(?P<said>\\*+(?:{value})?)?"
        rf"|(?P<name>[A-Z][A-Z0-9_]{{0,80}})(?P<given>{given})?)\Z"
    )


_HEADER = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_CREDENTIAL = re.compile(NAMED, re.I)
_CREDENTIAL_UPPER = re.compile(NAMED_UPPER)


class HeldBack:
    """Of one reply: of each piece write what is `ready`, then `keep` the rest."""

    def __init__(self) -> None:
        self._held = ""

    def ready(self, piece: str) -> str:
        """What may be written with this piece, "" for nothing. Changes nothing: a piece that could
        not be written may come again."""
        text = self._held + piece
        at = _unfinished(text)
        return text if len(text) - at > LIMIT else text[:at]

    def keep(self, piece: str, written: str) -> None:
        """This piece came, and so much was written."""
        self._held = (self._held + piece)[len(written) :]


def _unfinished(text: str) -> int:
    """Where the end of a text begins that may be the beginning of a secret; its length when none
    does."""
    tail = text[-WINDOW:]
    begin = len(text) - len(tail)
    found = _plain().search(tail)
    at = found.start() if found is not None else len(tail)
    return min(begin + min(at, _unfinished_value(tail)), _unfinished_file(text))


def _unfinished_value(text: str) -> int:
    begin = 0
    while (found := _named().search(text, begin)) is not None:
        key, name = found["key"], found["name"]
        is_whole = found["said"] if key is not None else found["given"]
        kind = _CREDENTIAL if key is not None else _CREDENTIAL_UPPER
        if not is_whole or kind.search(key if key is not None else name):
            return found.start()
        begin = found.start() + 1
    return len(text)


def _unfinished_file(text: str) -> int:
    ended = max(text.rfind("-----END"), len(text) - LIMIT, 0)
    found = _HEADER.search(text, ended)
    return found.start() if found is not None else len(text)
