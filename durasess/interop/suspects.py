r"""Which lines of a file may hold a secret, looked up in their bytes: far cheaper than a look at
every text that they decode to.

Never misses one that mask_secrets would find in a text of the line: each pattern here is a part of
what a shape in session/secret_shapes.py needs, as it stands in JSON. What JSON may write in more
than one way (`\/`, `\u0041`) makes a line suspect by itself, and so do the letters outside ASCII
that fold to ASCII ones. Keys that name a credential are another matter: decoding.py.
"""

from __future__ import annotations

import re

_ANYWHERE = (
    # Each is one pass over the bytes, so what a rare byte begins or ends is one pattern.
    re.compile(rb"PRIVATE KEY"),
    re.compile(rb"-(?:(?<=sk-)|(?<=glpat-)|(?<=xapp-)|(?<=xox[a-z]-))"),
    re.compile(
        rb"_(?<=[kfmpsurot]_)(?:(?<=k_)(?:live|test)_|(?<=hf_)|(?<=npm_)|(?<=gh[psuro]_)"
        rb"|(?<=github_pat_))"
    ),
    re.compile(rb"A(?:KIA|SIA|Iza)"),
    re.compile(rb"Bearer "),
    re.compile(rb"bearer "),
    # A user and a password in front of a host; a character takes up to six bytes.
    re.compile(rb"://[^\s/:@\"'`]{0,400}:"),
    # TOKEN=…: the end of a name in capitals, or of what may stand behind it.
    re.compile(
        rb"=(?<=[A-Z0-9]=)(?:(?<=KEY=)|(?<=KEN=)|(?<=RET=)|(?<=ORD=)|(?<=SWD=)|(?<=ASE=)"
        rb"|(?<=IAL=)|(?<=ALS=)|(?<=PROD=)|(?<=ION=)|(?<=ING=)|(?<=IVE=)|(?<=EST=)|(?<=DEV=)"
        rb"|(?<=_[0-9]=))"
    ),
    # What JSON may write in two ways; and "token": …, a key in JSON inside a text: its second quote
    # is escaped, and if that JSON is in a text itself, so are backslashes before it. Blanks follow
    # it perhaps, some as escapes.
    re.compile(
        rb"\\(?:/|u(?:00[2-7]|017|212)"
        rb"|\"(?<=[yYnNtTdDeE\\]\\\")"
        rb"(?=(?: |\\[nrtf]|\\u00[01890a-f]{2}|[\x80-\xff])*+:)"
        rb"(?:(?<=[kK][eE][yY]\\\")|(?<=[kK][eE][nN]\\\")|(?<=[rR][eE][tT]\\\")"
        rb"|(?<=[sS][wW][dD]\\\")|(?<=[oO][rR][dD]\\\")|(?<=[aA][sS][eE]\\\")"
        rb"|(?<=\\\\\")))"
    ),
)
_RARE = (
    (b"J", re.compile(rb"J(?<=eyJ)")),
    # ſ and K: patterns that ignore case take them for s and k.
    (b"\xc5", re.compile(b"\xc5\xbf")),
    (b"\xaa", re.compile(b"\xe2\x84\xaa")),
)
"""By a byte that most blocks do not have."""


def suspects(block: bytes) -> list[int]:
    """The offsets of what makes lines of this block suspect, in order; none in any other line."""
    patterns = [*_ANYWHERE, *[one for byte, one in _RARE if byte in block]]
    return sorted([found.start() for one in patterns for found in one.finditer(block)])


def is_suspect(line: bytes) -> bool:
    """Whether a single line may hold a secret."""
    if any([one.search(line) for one in _ANYWHERE]):
        return True
    return any([one.search(line) for byte, one in _RARE if byte in line])
