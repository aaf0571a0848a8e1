"""What fuzz_readers has for the session layer: the events of a session, folded, and the state in
its snapshot, decoded. Both are looked at by the self-check, and what that lets pass is opened for
writing, so that what was open is settled too.

A `state` is the JSON of the session's state. It is put into a snapshot whose hashes fit, since
otherwise it would never be decoded.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

SESSION = "/sim/s"
TARGETS = {"events": "events_0001.jsonl", "state": "snapshot.json.zst"}

Tree = Mapping[str, bytes | None]


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"(:?)|-?[0-9][0-9.eE+-]*|true|false|null|\[\]|\{\}')
_TOKENS = (
    b"-1",
    b"0",
    b"1",
    b"2",
    b"9" * 19,
    b"0.5",
    b"1e400",
    b'""',
    b'"running"',
    b'"\\ud800"',
    b"[]",
    b"{}",
    b"[[1,2]]",
    b"null",
    b"true",
)


def corpus(target: str) -> tuple[Tree, tuple[bytes, ...]]:
    """A sound session on a disk in memory, and what of it is fuzzed, at every step of a run."""
    from durasess.engine.types import FILLER

    files = _disk({"/sim": None})
    session = _opened(files, "own", create=True)
    seeds: dict[bytes, None] = {}
    for _ in _life(session):
        if target == "state":
            session.snapshot()
        data = files.tree().get(f"{SESSION}/{TARGETS[target]}")
        if data is not None:
            seeds[_state_of(data) if target == "state" else data.rstrip(FILLER)] = None
    # What a kill leaves: what was open is settled by the next writer.
    session.abandon()
    if target == "state":
        # Each as if it were that of the last event, which the self-check looks at first.
        last = b'{"seq":%d,' % session.last_seq
        seeds = {re.sub(rb'^\{"seq":[0-9]+,', last, data): None for data in seeds}
    # The anchor would know the last event of the sound file, and refuse every other one.
    anchor = f"{SESSION}/lock"
    return {path: data for path, data in files.tree().items() if path != anchor}, tuple(seeds)


def _life(session: Any) -> Iterator[None]:
    from durasess.store.beginning import first_events

    session.begin(first_events(custom_version=1))
    yield
    run = session.run("go").start()
    names = ("send", "sure", "send")
    asked = [{"call_id": f"c{n}", "name": name} for n, name in enumerate(names)]
    keys = [call.key for call in run.assistant("a\u2028b", tool_calls=asked, usage={"prompt": 3})]
    yield
    with run.tool(keys[0]) as call:
        call.result({"text": "sent"})
    yield
    session.emit("mine", {"n": 1}, event_id="e1")
    session.compact("what came before")
    yield
    run.tool(keys[1]).start()
    yield


def changed(data: bytes, chance: random.Random) -> bytes:
    """The same JSON with a few other values: some of its own elsewhere, some of none. In lines of
    events only what is theirs: what every line has is the engine's."""
    lines = data.split(b"\n")
    for _ in range(chance.choice((1, 1, 2, 4))):
        index = chance.randrange(len(lines))
        head, mark, body = lines[index].rpartition(b',"data":')
        if lines[index].startswith(b'{"seq":') or len(lines) == 1:
            lines[index] = head + mark + _with_other_value(body, chance)
    return b"\n".join(lines)


def _with_other_value(text: bytes, chance: random.Random) -> bytes:
    body = text.rpartition(b',"crc":"')[0]
    found = [one for one in _TOKEN.finditer(body or text) if not one[1]]
    if not found:
        return text
    at, other = chance.choice(found), chance.choice(found)[0]
    new = other if chance.random() < 0.5 else chance.choice(_TOKENS)
    return text[: at.start()] + new + text[at.end() :]


def reader(target: str, tree: Tree) -> Callable[[bytes], bool]:
    """Opens the session with these bytes, to look and to write; whether one of it was refused.
    Anything but a documented error goes on."""
    from durasess.errors import DurasessError

    path = f"{SESSION}/{TARGETS[target]}"

    def read(data: bytes) -> bool:
        content = data if target == "events" else _with_state(tree[path] or b"", data)
        files = _disk({**tree, path: content})
        refused = False
        try:
            _opened(files, "read")
        except DurasessError:
            refused = True
        try:
            session = _opened(files, "own")
        except DurasessError:
            return True
        # What the self-check let pass is shown to a model.
        with contextlib.suppress(DurasessError):
            session.context(max_tokens=4000).openai()
        with contextlib.suppress(DurasessError):
            session.close()
        return refused

    return read


def _state_of(data: bytes) -> bytes:
    from durasess.engine import snapshot

    return bytes(snapshot.parse(data, "s")[1].state)


def _with_state(data: bytes, state: bytes) -> bytes:
    """The snapshot file `data` with another state and hashes that fit."""
    from durasess.engine import snapshot

    trailer, document = snapshot.parse(data, "s")
    content = snapshot.document(document.seq, document.event_ids, state)
    return snapshot.encoded(
        content,
        session_id="s",
        seq=trailer.seq,
        chain=trailer.chain,
        segment=trailer.segment,
        schema_version=trailer.schema_version,
        ts=trailer.ts,
    )


def _opened(files: Any, mode: Any, *, create: bool = False) -> Any:
    from durasess.engine.scheduler import InlineScheduler
    from durasess.session.opening import open_core
    from durasess.session.options import SessionOptions
    from durasess.session.session import Session
    from durasess.session.tools import Tool

    options = SessionOptions(
        tools={"sure": Tool(name="sure", verify=lambda call: "applied")},
        clock=itertools.count(10**18, 10**6).__next__,
        files=files,
        scheduler=InlineScheduler,
        snapshot_every=10**6,
    )
    core, report = open_core(SESSION, options, mode=mode, create=create)
    return Session(core, report, mock.Mock())


def _disk(tree: Tree) -> Any:
    """By name, because tests are not typed like the package."""
    return importlib.import_module("tests.support.sim_files").SimFiles.from_tree(tree)
