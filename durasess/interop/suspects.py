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
    re.compile(rb"-(?<=[a-z]-)(?:(?<=sk-)|(?<=glpat-)|(?<=xapp-)|(?<=xox[a-z]-))"),
    re.compile(
        rb"_(?<=[kfmpsurot]_)(?:(?<=k_)(?:live|test)_|(?<=hf_)|(?<=npm_)"
        rb"|(?<=gh[psuro]_)|(?<=github_pat_))"
    ),
    re.compile(rb"A(?:KIA|SIA|Iza)"),
    re.compile(rb"r (?<=[Bb]earer )"),
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
    (b"Y", re.compile(rb"Y(?<=PRIVATE KEY)")),
    (b"J", re.compile(rb"J(?<=eyJ)")),
    # ſ and K: patterns that ignore case take them for s and k.
    (b"\xc5", re.compile(b"\xc5\xbf")),
    (b"\xaa", re.compile(b"\xaa(?<=\xe2\x84\xaa)")),
)
"""By the byte that they begin with, of which most lines have none."""

_RARELY = 1024
"""One in so many bytes is rare: each is looked up by itself, far faster than by a pattern."""

_ADDRESS = re.compile(rb"://[^\s/:@\"'`]*+:[^\s/@\"'`]*+@")
"""A user and a password in front of a host."""


def suspects(block: bytes) -> list[int]:
    """The offsets of what makes lines of this block suspect, in order; none in any other line."""
    found = [one.start() for pattern in _ANYWHERE for one in pattern.finditer(block)]
    for byte, pattern in _RARE:
        found += _around(block, byte, pattern)
    return sorted(found + _addresses(block))


def is_suspect(line: bytes) -> bool:
    """Whether a single line may hold a secret."""
    if any([one.search(line) for one in _ANYWHERE]):
        return True
    return any([byte in line and one.search(line) for byte, one in _RARE]) or (
        b"@" in line and bool(_addresses(line))
    )


def _around(block: bytes, byte: bytes, pattern: re.Pattern[bytes]) -> list[int]:
    """Where a pattern is that begins with this byte."""
    found: list[int] = []
    left = len(block) // _RARELY
    at = block.find(byte)
    while at >= 0:
        if not left:
            return found + [one.start() for one in pattern.finditer(block, at)]
        left -= 1
        if pattern.match(block, at):
            found.append(at)
        at = block.find(byte, at + 1)
    return found


def _addresses(block: bytes) -> list[int]:
    """Where a user and a password are in front of a host, `://user:password@`, looked for from the
    `@` backwards, which is rare: no other one is between, nor a slash."""
    found: list[int] = []
    before, at = 0, block.find(b"@")
    while at >= 0:
        begin = block.rfind(b"/", before, at) - 2
        if begin >= 0 and _ADDRESS.match(block, begin):
            found.append(begin)
        before, at = at, block.find(b"@", at + 1)
    return found
