"""What fuzz_readers has for segments with a seal, plain and compressed: these are proven by one
hash and decoded at once where nothing is unusual, so half of the mutated ones get a hash that fits.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

SESSION = "/sim/s"
PLAIN = "events_0001.jsonl"
TARGETS = {"sealed": PLAIN, "compressed": f"{PLAIN}.zst"}

STEPS = 6
_HASH = re.compile(rb'"blake2b":"[0-9a-f]*"')

Change = Callable[[bytes], bytes]


def corpus(target: str) -> tuple[Mapping[str, bytes | None], tuple[bytes, ...]]:
    """A session of which one segment alone is left, so that nothing else tells what was in it; and
    such segments, shorter and longer."""
    from durasess.engine import frames

    contents = [_content(steps) for steps in range(1, STEPS + 1)]
    seeds = [frames.compress(one) if target == "compressed" else one for one in contents]
    return {SESSION: None, f"{SESSION}/{TARGETS[target]}": seeds[-1]}, tuple(seeds)


def _content(steps: int) -> bytes:
    from durasess.engine.engine import Engine
    from durasess.engine.scheduler import InlineScheduler

    # By name, because tests are not typed like the package.
    files: Any = importlib.import_module("tests.support.sim_files").SimFiles.from_tree(
        {"/sim": None}
    )
    engine = Engine.open(
        SESSION,
        files=files,
        clock=itertools.count(10**18, 10**6).__next__,
        scheduler=InlineScheduler(),
        snapshot_every=10**6,
    )
    for step in range(steps):
        engine.append("n", {"n": step, "text": "a\u2028b"}, event_id=f"e{step}")
        engine.append_many([("n", step), ("m", [step])])
    engine.rotate()
    engine.abandon()
    content = files.tree()[f"{SESSION}/{PLAIN}"]
    assert isinstance(content, bytes)
    return content


def changed(
    target: str, data: bytes, chance: random.Random, change: Change, checksums: Change
) -> bytes:
    """The bytes with a `change`; or what they hold with one, and a seal that fits behind it."""
    if target == "sealed":
        found = change(data)
        return sealed(found, checksums) if chance.random() < 0.5 else found
    if chance.random() < 0.3:
        return change(data)
    from durasess.engine import frames
    from durasess.engine.types import LineError

    try:
        content = frames.decompress_all(data)
    except LineError:
        # It was changed before.
        return change(data)
    return frames.compress(changed("sealed", content, chance, change, checksums))


def sealed(data: bytes, checksums: Change) -> bytes:
    """With checksums that fit, and the hash of all before the seal, if one is at the end."""
    data = checksums(data)
    begin = data.rfind(b"\n", 0, -1) + 1
    if not data.startswith(b'{"seal":', begin):
        return data
    digest = hashlib.blake2b(data[:begin], digest_size=16).hexdigest().encode()
    return checksums(data[:begin] + _HASH.sub(b'"blake2b":"%s"' % digest, data[begin:]))
