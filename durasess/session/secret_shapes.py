r"""How secrets look: known shapes of keys in a text, and names whose value is a credential.

What is masked with them is in masking.py. What is recorded here is shown to the model again, so
code must come through as it is: a name beside a variable, a call or a placeholder is no secret.

Every pattern takes linear time: repetitions are bounded or possessive. A check of what stands
before a match comes behind its first letters, which `re` finds fast.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any, NamedTuple

MASK = "[masked]"

_LONGEST_NAME = 64
"""Characters; a longer key is no name."""


class Shape(NamedTuple):
    """How a kind of secret looks. `literals`: one of them is in any text that has one (compared in
    lower case), which is far cheaper to look for; of a match the group `keep` stays."""

    literals: tuple[str, ...]
    expression: str
    flags: re.RegexFlag = re.NOFLAG

    @property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when a text has one of the literals, not while the module is imported."""
        return _compiled(self.expression, self.flags)


@cache
def _compiled(expression: str, flags: re.RegexFlag) -> re.Pattern[str]:
    return re.compile(expression, flags)


_PLACEHOLDER = (
    r"(?:\$\{?\{?[^{}\s\"'\\@]{0,80}\}{0,2}|\{[^{}\s\"'\\@]{0,80}\}|\{\{[^{}\"'\\@]{0,80}\}\}"
    r"|<[^<>\"'\\@]{0,80}>|%[sr]|%\([\w.]{1,80}\)s|%\w{1,80}%|\*{1,80}|\.{3}|x{3,80}|X{3,80}"
    rf"|{re.escape(MASK)})"
)
"""`${TOKEN}`, `{token}`, `<your key>`, `%s`: what stands where a secret will be."""

NAMED = r"(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|token)"
_NAMED_LITERALS = ("passw", "passphrase", "secret", "key", "token")
NAMED_UPPER = (
    r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET_?KEY"
    r"|ENCRYPTION_?KEY|SIGNING_?KEY|TOKEN|CREDENTIALS?)"
)
_NO_LITERAL = (
    r"(?:os\.|self\.|process\.env|settings\.|config\.|env\.|args\.|/|\./|~/|https?://"
    r"|(?:true|false|null|none|True|False|None|[0-9]{1,9})(?![^\s,;&|)\]}\"'])"
    rf"|{re.escape(MASK)})"
)
"""What stands unquoted behind `=` in code: other names, numbers, paths, constants."""

SHAPES = (
    Shape(
        ("private key",),
        (
            r"(?P<keep>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----)"
            r"(?=(?:\\[rn]|\s){1,8}(?:[A-Za-z-]{1,40}: |[A-Za-z0-9+/]{16}))"
            r"[A-Za-z0-9+/=\s\\:,.]*+(?:-(?!----)[A-Za-z0-9+/=\s\\:,.]*+)*+"
            r"(?:-----END [A-Z0-9 ]{1,50}-----)?"
        ),
    ),
    Shape(
        ("sk-",),
        # Not `sk-123-fix-the-login`: a key has a digit and a long part without hyphens.
        (
            r"(?P<keep>sk-)(?<![A-Za-z0-9]sk-)(?=[A-Za-z_-]{0,60}[0-9])"
            r"(?=[A-Za-z0-9_-]{0,60}?[A-Za-z0-9_]{16})[A-Za-z0-9_-]{20,}+"
        ),
    ),
    Shape(
        ("_live_", "_test_"),
        r"(?P<keep>[srp]k_(?:live|test)_)(?<![A-Za-z0-9].k_...._)[A-Za-z0-9]{16,}+",
    ),
    Shape(
        ("ghp_", "gho_", "ghs_", "ghu_", "ghr_"),
        r"(?P<keep>gh[psuro]_)(?<![A-Za-z0-9]gh._)[A-Za-z0-9]{20,}+",
    ),
    Shape(
        ("github_pat_",),
        r"(?P<keep>github_pat_)(?<![A-Za-z0-9]github_pat_)[A-Za-z0-9_]{20,}+",
    ),
    Shape(("hf_",), r"(?P<keep>hf_)(?<![A-Za-z0-9]hf_)[A-Za-z0-9]{20,}+"),
    Shape(("npm_",), r"(?P<keep>npm_)(?<![A-Za-z0-9]npm_)[A-Za-z0-9]{20,}+"),
    Shape(("glpat-",), r"(?P<keep>glpat-)(?<![A-Za-z0-9]glpat-)[A-Za-z0-9_-]{16,}+"),
    Shape(("akia",), r"(?P<keep>AKIA)(?<![A-Za-z0-9]AKIA)[A-Z0-9]{12,}+"),
    Shape(("asia",), r"(?P<keep>ASIA)(?<![A-Za-z0-9]ASIA)[A-Z0-9]{12,}+"),
    Shape(("aiza",), r"(?P<keep>AIza)(?<![A-Za-z0-9]AIza)[A-Za-z0-9_-]{30,}+"),
    Shape(
        ("xox",),
        r"(?P<keep>xox[a-z]-)(?<![A-Za-z0-9]xox.-)(?=[A-Za-z-]{0,60}[0-9])[A-Za-z0-9-]{10,}+",
    ),
    Shape(("xapp-",), r"(?P<keep>xapp-)(?<![A-Za-z0-9]xapp-)[0-9]-[A-Za-z0-9-]{8,}+"),
    Shape(
        ("eyj",),
        (
            r"(?P<keep>eyJ)(?<![A-Za-z0-9_-]eyJ)"
            r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+"
        ),
    ),
    Shape(
        ("bearer ",),
        r"(?P<keep>earer )(?<=\b[Bb]earer )[A-Za-z0-9._~+/=-]{16,}+",
    ),
    Shape(
        ("://",),
        rf"(?P<keep>://[^\s/:@\"'`\\]{{0,64}}:)(?!{_PLACEHOLDER}@)[^\s/@\"'`]{{1,256}}(?=@)",
    ),
    Shape(
        _NAMED_LITERALS,
        # JSON inside a text, as arguments of tool calls are, with its quotes escaped or not.
        (
            rf"(?P<keep>\"[\w-]{{0,40}}{NAMED}\\*\"\s{{0,8}}:\s{{0,8}}\\*\")"
            rf"(?!{_PLACEHOLDER}[\"\\])[^\"\\\s][^\"\\]*+"
        ),
        re.I,
    ),
    Shape(
        (*_NAMED_LITERALS, "credential"),
        # An environment variable: NAME='…' up to the other quote, or NAME=… up to a blank.
        (
            rf"(?P<keep>{NAMED_UPPER}"
            r"(?:_(?:PROD|PRODUCTION|STAGING|LIVE|TEST|DEV|[0-9]))?="
            rf"(?:(?P<quote>[\"'])(?!{_PLACEHOLDER}(?P=quote))(?=[^\"'\n]{{4,}}(?P=quote))"
            rf"|(?!{_NO_LITERAL})(?=[^\s\"'\\$;&|<>(){{}}\[\],`]{{4,}}+(?![(\[]))))"
            r"(?(quote)[^\"'\n]+|[^\s\"'\\$;&|<>(){}\[\],`]+)"
        ),
    ),
)

_CREDENTIAL = re.compile(
    r"(?:password|passwd|passphrase|secret|apikey|accesskey|accesskeyid|privatekey|credential"
    r"|cookie)s?$|(?:token|authorization|connectionstring)$"
)
_WHOLE_PLACEHOLDER = re.compile(_PLACEHOLDER)
_SCHEMA_TYPES = frozenset(["string", "number", "integer", "boolean", "array", "object", "null"])


def holds_credential(key: Any, value: Any) -> bool:
    """Whether the value under this key of an object is one to hide. Not so `"token": 17`, which is
    a position or a number of tokens, nor a schema, which says what a credential looks like."""
    if not isinstance(key, str) or not is_credential_name(key):
        return False
    if isinstance(value, dict):
        named = value.get("type")
        return not (isinstance(named, str) and named in _SCHEMA_TYPES)
    return isinstance(value, str | list | tuple) or not key.lower().endswith("token")


def is_credential_name(key: str) -> bool:
    """Whether a value under this key may be one to hide: `apiKey`, `DB_PASSWORD`."""
    return len(key) <= _LONGEST_NAME and _is_credential_name(key)


@lru_cache(maxsize=4096)
def _is_credential_name(key: str) -> bool:
    return _CREDENTIAL.search(re.sub(r"[^a-z0-9]", "", key.lower())) is not None


def is_placeholder(text: str) -> bool:
    """Whether it stands where a secret will be: `${TOKEN}`, `<your key>`, or what was masked."""
    return _WHOLE_PLACEHOLDER.fullmatch(text) is not None
