"""Secrets in what is shown: known shapes of keys, and values under keys named like credentials.

For people's eyes only: what is on disk stays as it is. Rather too much is masked than too little;
each place is counted, so that nobody takes `[masked]` for what was stored.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

MASK = "[masked]"

_KEPT = rf"\g<keep>{MASK}"
_SHORTEST = 8
"""Characters of the shortest text that is looked at."""


class Shape(NamedTuple):
    """How a kind of secret looks. `literals`: one of them is in any text that has one (compared in
    lower case), which is far cheaper to look for; of a match the group `keep` stays."""

    literals: tuple[str, ...]
    pattern: re.Pattern[str]


_NAMED = r"(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|token)"
_NAMED_LITERALS = ("passw", "passphrase", "secret", "key", "token")
_NAMED_UPPER = r"(?:PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|TOKEN|CREDENTIAL)"

SHAPES = (
    Shape(
        ("-----begin ",),
        re.compile(
            r"(?P<keep>-----BEGIN [A-Z0-9 ]{1,40}-----).*?(?:-----END [A-Z0-9 ]{1,40}-----|\Z)",
            re.DOTALL,
        ),
    ),
    Shape(("sk-",), re.compile(r"(?<![A-Za-z0-9])(?P<keep>sk-)[A-Za-z0-9_-]{8,}")),
    Shape(
        ("_live_", "_test_"),
        re.compile(r"(?<![A-Za-z0-9])(?P<keep>[srp]k_(?:live|test)_)[A-Za-z0-9]{8,}"),
    ),
    Shape(
        ("ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "hf_", "npm_", "glpat-"),
        re.compile(
            r"(?<![A-Za-z0-9])(?P<keep>gh[psuro]_|github_pat_|hf_|npm_|glpat-)[A-Za-z0-9_-]{12,}"
        ),
    ),
    Shape(
        ("akia", "asia"),
        re.compile(r"(?<![A-Za-z0-9])(?P<keep>AKIA|ASIA)[A-Z0-9]{12,}"),
    ),
    Shape(("aiza",), re.compile(r"(?<![A-Za-z0-9])(?P<keep>AIza)[A-Za-z0-9_-]{30,}")),
    Shape(
        ("xox", "xapp-"),
        re.compile(r"(?<![A-Za-z0-9])(?P<keep>xox[a-z]-|xapp-)[A-Za-z0-9-]{8,}"),
    ),
    Shape(
        ("eyj",),
        re.compile(
            r"(?<![A-Za-z0-9_-])(?P<keep>eyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
        ),
    ),
    Shape(("bearer ",), re.compile(r"(?P<keep>\b[Bb]earer )[A-Za-z0-9._~+/=-]{16,}")),
    Shape(("://",), re.compile(r"(?P<keep>://[^\s/:@]{0,64}:)[^\s/@]{1,256}(?=@)")),
    Shape(
        _NAMED_LITERALS,
        # JSON inside a text, as arguments of tool calls are, with its quotes escaped or not.
        re.compile(
            rf'(?P<keep>"[\w-]{{0,40}}{_NAMED}\\*"\s{{0,8}}:\s{{0,8}}\\*")[^"\\\s][^"\\]*', re.I
        ),
    ),
    Shape(
        (*_NAMED_LITERALS, "credential"),
        re.compile(rf"(?P<keep>\b[A-Z0-9_]*{_NAMED_UPPER}[A-Z0-9_]*=[\"']?)[^\s\"'\\$;&|]{{4,}}"),
    ),
)

_CREDENTIAL = re.compile(
    r"(?:password|passwd|passphrase|secret|apikey|accesskey|accesskeyid|privatekey|credential"
    r"|cookie)s?$|(?:token|authorization|connectionstring)$"
)


class Masker:
    """Masks what is shown and counts in `count`; with `show` it changes nothing."""

    def __init__(self, *, show: bool = False) -> None:
        self._show = show
        self.count = 0

    def value(self, value: Any, *, is_credential: bool = False) -> Any:
        """A JSON value without its secrets; all of it is one when `is_credential`."""
        if self._show:
            return value
        if isinstance(value, str):
            return self._whole(value) if is_credential else self.text(value)
        if isinstance(value, dict):
            return self._object(value, is_credential)
        if isinstance(value, list):
            return [self.value(one, is_credential=is_credential) for one in value]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return self._whole(value) if is_credential and is_number else value

    def text(self, text: str) -> str:
        """A text without the secrets in it."""
        if self._show or len(text) < _SHORTEST:
            return text
        lowered = text.lower()
        # Plain loops: this runs over every text that is shown.
        for literals, pattern in SHAPES:
            for literal in literals:
                if literal in lowered:
                    text, found = pattern.subn(_KEPT, text)
                    self.count += found
                    break
        return text

    def _whole(self, value: Any) -> Any:
        if value in ("", MASK):
            return value
        self.count += 1
        return MASK

    def _object(self, value: dict[str, Any], is_credential: bool) -> dict[str, Any]:
        masked: dict[str, Any] = {}
        for key, inside in value.items():
            shown = self.text(key)
            while shown in masked:
                shown += "'"
            secret = is_credential or (is_credential_name(key) and not _is_a_count(key, inside))
            masked[shown] = self.value(inside, is_credential=secret)
        return masked


@lru_cache(maxsize=4096)
def is_credential_name(key: str) -> bool:
    """Whether a value under this key is one to hide: `apiKey`, `DB_PASSWORD`, `x-auth-token`."""
    return _CREDENTIAL.search(re.sub(r"[^a-z0-9]", "", key.lower())) is not None


def _is_a_count(key: str, value: Any) -> bool:
    """`"token": 17` is a position or a number of tokens, no secret."""
    return not isinstance(value, str | dict | list) and key.lower().endswith("token")
