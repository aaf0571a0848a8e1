"""Damages whole sessions in every small way and says what the engine makes of each.

    python -m tests.support.mutations             what the suite runs
    python -m tests.support.mutations --thorough  every bit of every form, more sessions

A *form* is a session as a crash or a close left it, with all that is known of it. A *mutation*
changes one file of it. Opening for writing must then recover exactly or refuse, naming file, place
and reason, with not one byte changed. What else may happen is counted by name; see `Tally`.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest import mock

from durasess.engine import files as files_module
from durasess.engine import snapshot
from durasess.engine.engine import Engine
from durasess.engine.paths import parse
from durasess.engine.receipt import Receipt
from durasess.engine.scheduler import InlineScheduler
from durasess.engine.types import FILLER, Draft, Event
from durasess.engine.verify import verify
from durasess.errors import (
    CorruptionError,
    DurasessError,
    FormatVersionError,
    SessionNotFoundError,
    StorageError,
)
from tests.support.sim_files import SimFiles
from tests.support.tiers import sampled

STORE = "/store"
SESSION_ID = "s"
SESSION = f"{STORE}/{SESSION_ID}"
PREVIOUS, NEWEST = "snapshot.prev.json.zst", "snapshot.json.zst"
SNAPSHOTS = frozenset([NEWEST, PREVIOUS])
DOCUMENTED = (CorruptionError, FormatVersionError, SessionNotFoundError, StorageError)
_START_NS = 1_790_000_000_000_000_000
_NEVER = 1_000_000
_SECTORS = (512, 4096)
_MANY = ("bit", "truncate", "cut in filler")

Files = dict[str, bytes]
"""The files of a session directory by name."""


class Fact(NamedTuple):
    """What an event must read back as."""

    type: str
    data: Any
    event_id: str | None


@dataclass(frozen=True)
class Form:
    """A session and what is known of it. `facts[seq - 1]` is event seq, `states[seq]` the state
    after it; `ends` are the seqs at which batches end. `older`, `foreign` and `twin` are other
    contents that its files once had, have in another session, and have in another session of the
    same id (a copied directory that went its own way). `newest` is the last segment, `whole` how
    many bytes of it hold header and events; `unsealed` and `anchored`: it has no seal, the anchor
    is exact. Segments below number `kept` may have been pruned."""

    name: str
    files: Files
    facts: tuple[Fact, ...]
    states: tuple[Any, ...]
    ends: tuple[int, ...]
    receipt: Receipt
    newest: str
    whole: int
    unsealed: bool
    anchored: bool
    kept: int
    pad: int
    preallocate: int
    compress: bool
    older: Mapping[str, tuple[bytes, ...]]
    foreign: Mapping[str, bytes]
    twin: Mapping[str, bytes]

    @property
    def acked(self) -> int:
        """The seq of the last acknowledged event."""
        return len(self.facts)


class Mutation(NamedTuple):
    """File `name` gets `content` instead; None removes it. `place` says where, for people."""

    kind: str
    name: str
    place: int
    content: bytes | None


# -- building sessions ----------------------------------------------------------------------


@contextmanager
def pinned() -> Iterator[None]:
    """The same process in every run, so the same session makes the same bytes; and readers that
    look again do not sleep in between."""
    with ExitStack() as stack:
        for target, name, value in (
            (os, "getpid", lambda: 4242),
            (sys, "argv", ["mutations"]),
            (socket, "gethostname", lambda: "host"),
            (files_module, "boot_id", lambda: "boot"),
            (time, "sleep", lambda seconds: None),
        ):
            stack.enter_context(mock.patch.object(target, name, value))
        yield


def _clock() -> Callable[[], int]:
    now = _START_NS

    def clock() -> int:
        nonlocal now
        now += 1_000_000
        return now

    return clock


def fold(state: dict[str, Any], event: Event) -> dict[str, Any]:
    """A count and a running checksum over everything an event holds."""
    return _folded(state, event.seq, Fact(event.type, event.data, event.event_id))


def _folded(state: dict[str, Any], seq: int, fact: Fact) -> dict[str, Any]:
    text = json.dumps([seq, *fact]).encode()
    return {**state, "count": seq, "sum": zlib.crc32(text, state.get("sum", 0))}


def _initial(pad: int) -> dict[str, Any]:
    # A state that is large but compresses well keeps `close` from taking a snapshot.
    return {"pad": "x" * pad} if pad else {}


def open_form(files: SimFiles, form: Form, **more: Any) -> Engine:
    """The engine as the form's program opens it."""
    settings = _settings(files, form.pad, form.preallocate, form.compress)
    return Engine.open(SESSION, **{**settings, "create": False, **more})


def _settings(disk: SimFiles, pad: int, preallocate: int, compress: bool) -> dict[str, Any]:
    return {
        "initial": lambda: _initial(pad),
        "apply": fold,
        "files": disk,
        "clock": _clock(),
        "scheduler": InlineScheduler(),
        "snapshot_every": _NEVER,
        "preallocate": preallocate,
        "compress": compress,
    }


class _Recorder:
    """Runs a session and remembers every version that each file had."""

    def __init__(self, salt: int, pad: int, preallocate: int, compress: bool, session: str) -> None:
        self.session = session
        self.disk = SimFiles.from_tree({STORE: None})
        self.salt = salt
        self.pad = pad
        self.preallocate = preallocate
        self.compress = compress
        self.facts: list[Fact] = []
        self.ends = [0]
        self.versions: dict[str, list[bytes]] = {}
        self.receipt: Receipt | None = None
        self.engine = Engine.open(session, **_settings(self.disk, pad, preallocate, compress))
        self._note()

    def batch(self, count: int) -> None:
        drafts = []
        for _ in range(count):
            n = len(self.facts) + 1
            event_id = f"e{n}" if n % 3 == 0 else None
            self.facts.append(Fact("n", {"n": n * 7 + self.salt}, event_id))
            drafts.append(Draft("n", {"n": n * 7 + self.salt}, event_id=event_id))
        if count == 1:
            self.receipt = self.engine.append("n", drafts[0].data, event_id=drafts[0].event_id)
        else:
            self.receipt = self.engine.append_many(drafts)[-1]
        self.ends.append(len(self.facts))
        self._note()

    def do(self, name: str) -> None:
        getattr(self.engine, name)()
        self._note()

    def _note(self) -> None:
        for name, data in session_files(self.disk, self.session).items():
            known = self.versions.setdefault(name, [])
            if data not in known:
                known.append(data)

    def states(self) -> tuple[Any, ...]:
        states = [_initial(self.pad)]
        for seq, fact in enumerate(self.facts, 1):
            states.append(_folded(states[-1], seq, fact))
        return tuple(states)


def session_files(disk: SimFiles, session: str = SESSION) -> Files:
    """What stands in the session directory now."""
    start = len(session) + 1
    return {
        path[start:]: data
        for path, data in disk.tree().items()
        if data is not None and path.startswith(session + "/")
    }


def _recorded(
    salt: int,
    pad: int,
    preallocate: int,
    compress: bool,
    shape: int,
    ending: str,
    session: str = SESSION,
) -> _Recorder:
    """Four segments and two snapshots; `shape` changes the batches."""
    recorder = _Recorder(salt, pad, preallocate, compress, session)
    first, second, third, last = (
        ((1, 2), (2,), (1,), (1, 2, 1)),
        ((2,), (1,), (2, 1), (2, 1, 3)),
        ((1,), (3, 1), (1,), (1, 1, 2)),
    )[shape % 3]
    for sizes, after in ((first, "snapshot"), (second, "rotate"), (third, "snapshot")):
        for size in sizes:
            recorder.batch(size)
        recorder.do(after)
    for size in last:
        recorder.batch(size)
    recorder.do(ending)
    return recorder


FORMS = (
    *("closed", "covered", "open", "torn", "power"),
    *("open filled", "torn filled", "power filled"),
    *("closed compressed", "open compressed"),
)
PREALLOCATE = 1024


def build(name: str, *, salt: int = 0, shape: int = 0) -> Form:
    """One of FORMS:

    closed    closed cleanly; the last segment is replayed at the next open
    covered   closed cleanly with a snapshot of everything, so that no event is replayed
    open      the process was killed after the last acknowledgement
    torn      it was killed in the middle of another write
    power     as open, but the power failed: nothing is left of the anchor

    With "filled" behind it the newest segment has filler, which the torn write overwrote in place;
    with "compressed" the segment that both snapshots cover is compressed.
    """
    kind, _, more = name.partition(" ")
    pad = 0 if kind == "covered" else 3000
    step = PREALLOCATE if more == "filled" else 0
    small = more == "compressed"
    clean = kind in ("closed", "covered")
    ending = "close" if clean else "abandon"
    recorder = _recorded(salt, pad, step, small, shape, ending)
    files = session_files(recorder.disk)
    newest = max(one for one in files if one.startswith("events_"))
    segment = files[newest]
    whole = segment.find(b'{"seal":') if clean else len(segment.rstrip(FILLER))
    if kind == "torn":
        cut = _torn_batch(recorder)
        files[newest] = segment[:whole] + cut + segment[whole + len(cut) :]
    if kind == "power":
        files["lock"] = b""
    assert recorder.receipt is not None
    elsewhere = _recorded(salt + 1, pad, step, small, shape, ending, f"{STORE}/other")
    return Form(
        name=name,
        files=files,
        facts=tuple(recorder.facts),
        states=recorder.states(),
        ends=tuple(recorder.ends),
        receipt=recorder.receipt,
        newest=newest,
        whole=whole,
        unsealed=not clean,
        anchored=kind != "power",
        kept=snapshot.parse(files[PREVIOUS], SESSION_ID)[0].segment,
        pad=pad,
        preallocate=step,
        compress=small,
        older={
            one: tuple(version for version in recorder.versions[one] if version != files[one])
            for one in files
        },
        foreign=session_files(elsewhere.disk, elsewhere.session),
        twin=session_files(_recorded(salt + 1, pad, step, small, shape, ending).disk),
    )


def _torn_batch(recorder: _Recorder) -> bytes:
    """The batch of two lines that would follow, its second line cut in the middle."""
    disk = SimFiles.from_tree(recorder.disk.tree())
    engine = Engine.open(
        SESSION, **_settings(disk, recorder.pad, recorder.preallocate, recorder.compress)
    )
    engine.append_many([("n", {"n": 1}), ("n", {"n": 2})])
    newest = max(one for one in session_files(disk) if one.startswith("events_"))
    lines = session_files(disk)[newest].splitlines(keepends=True)[1:]
    engine.abandon()
    return lines[0] + lines[1][: len(lines[1]) // 2]


# -- mutations ------------------------------------------------------------------------------


def mutations(form: Form, *, bit_stride: Callable[[str], int]) -> Iterator[Mutation]:
    """All single mutations; of the bits of a file every `bit_stride(name)`-th (0: none)."""
    for name, data in sorted(form.files.items()):
        yield from _bits(name, data, bit_stride(name))
        for size in range(len(data)):
            yield Mutation("truncate", name, size, data[:size])
        yield from _lines(name, data)
        yield Mutation("remove", name, 0, None)
        for place, older in enumerate(form.older.get(name, ())):
            yield Mutation("older", name, place, older)
        for kind, others in (("foreign", form.foreign), ("twin", form.twin)):
            if others[name] != data:
                yield Mutation(kind, name, 0, others[name])
        for blank, kind in ((b"\0", "zero"), (FILLER, "tab")):
            for size in _SECTORS:
                for start in range(0, len(data), size):
                    end = min(start + size, len(data))
                    content = data[:start] + blank * (end - start) + data[end:]
                    if content != data:
                        yield Mutation(f"{kind} {size}", name, start, content)
    if form.preallocate:
        data = form.files[form.newest]
        for size in range(len(data.rstrip(FILLER))):
            cut = data[:size].ljust(len(data), FILLER)
            yield Mutation("cut in filler", form.newest, size, cut)


def _bits(name: str, data: bytes, stride: int) -> Iterator[Mutation]:
    if stride == 0:
        return
    changed = bytearray(data)
    for bit in range(0, len(data) * 8, stride):
        changed[bit // 8] ^= 1 << bit % 8
        yield Mutation("bit", name, bit, bytes(changed))
        changed[bit // 8] ^= 1 << bit % 8


def _lines(name: str, data: bytes) -> Iterator[Mutation]:
    if name in SNAPSHOTS:
        return
    lines = [one + b"\n" for one in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    lines = [one for one in lines if one]
    for at, line in enumerate(lines):
        before, after = lines[:at], lines[at + 1 :]
        yield Mutation("drop line", name, at, b"".join(before + after))
        yield Mutation("repeat line", name, at, b"".join([*before, line, line, *after]))
        if after:
            swapped = b"".join([*before, after[0], line, *after[1:]])
            yield Mutation("swap lines", name, at, swapped)


def is_crash_like(form: Form, mutation: Mutation) -> bool:
    """Whether the mutated file is what a crash could have left of the newest segment: cut short,
    with or without filler behind the cut, or with zeros or filler where a block was lost. Its bytes
    alone cannot tell."""
    data = form.files[mutation.name]
    if mutation.name != form.newest or mutation.content is None:
        return False
    if data.startswith(mutation.content.rstrip(FILLER)):
        return True
    return mutation.kind.startswith(("zero", "tab"))


def only_torn_bytes(form: Form, mutation: Mutation) -> bool:
    """Whether only bytes differ that hold no event: a torn tail, a seal, or filler."""
    data, content = form.files[mutation.name], mutation.content
    if mutation.name != form.newest or content is None:
        return False
    return content[: form.whole] == data[: form.whole]


# -- what the engine makes of one -----------------------------------------------------------


class Wrong(Exception):
    """The third thing: neither exact nor refused."""


class _History(NamedTuple):
    """What `events` gave: the events, and how it ended (exact, refused, pruned)."""

    events: list[Event]
    ending: str


class Trial:
    """One mutation of one form."""

    def __init__(self, form: Form, mutation: Mutation) -> None:
        self.form = form
        self.mutation = mutation
        self._tree: dict[str, bytes | None] = {STORE: None, SESSION: None}
        for name, data in form.files.items():
            self._tree[f"{SESSION}/{name}"] = data
        path = f"{SESSION}/{mutation.name}"
        if mutation.content is None:
            del self._tree[path]
        else:
            self._tree[path] = mutation.content

    def disk(self) -> SimFiles:
        """The damaged session on a disk of its own."""
        return SimFiles.from_tree(self._tree)

    def writer(self) -> str:
        """Opening for writing: the name of the outcome; raises Wrong."""
        disk = self.disk()
        try:
            engine = open_form(disk, self.form)
        except DurasessError as error:
            self._check_refusal(error, disk)
            return f"refused: {type(error).__name__}"
        except Exception as error:
            raise Wrong(f"open raised {error!r}") from error
        try:
            return self._opened(engine)
        finally:
            engine.abandon()

    def _opened(self, engine: Engine) -> str:
        form, last = self.form, engine.last_seq
        if not 0 <= last <= form.acked or engine.state != form.states[last]:
            raise Wrong(f"open made state {engine.state} at seq {last}")
        history = self._history(engine)
        if last == form.acked:
            return "exact" if history.ending == "exact" else f"exact, {history.ending}"
        crash_like = form.unsealed and is_crash_like(form, self.mutation)
        if last not in form.ends or not crash_like:
            raise Wrong(f"open lost seq {last + 1} to {form.acked} silently")
        if form.anchored and last != form.ends[-2]:
            raise Wrong(f"open lost more than a batch: seq {last + 1} to {form.acked}")
        self._check_receipt()
        lost = "the last batch" if last == form.ends[-2] else "several batches"
        return f"{lost} cut off whole, caught by the receipt"

    def _check_receipt(self) -> None:
        disk = self.disk()
        try:
            open_form(disk, self.form, at_least=self.form.receipt).abandon()
        except CorruptionError as error:
            self._check_refusal(error, disk)
        else:
            raise Wrong("open(at_least=receipt) did not notice that the event is missing")

    def _history(self, engine: Engine) -> _History:
        """All events must be right; ending early must be said."""
        found = []
        ending = "exact"
        after = 0
        try:
            found += engine.events()
        except (CorruptionError, FormatVersionError) as error:
            self._check_named(error)
            ending = "old history refused"
        except ValueError as error:
            ending = "old history pruned"
            if not self._may_be_pruned():
                ending = "missing old history called pruned"
            if self.mutation.kind != "remove":
                raise Wrong(f"events were called pruned: {error}") from error
            after = int(str(error).rpartition("after=")[2].rstrip("."))
            found += engine.events(after=after)
        if self.mutation.kind != "twin" or ending != "old history refused":
            self._check_events(found, after)
        if ending != "old history refused" and after + len(found) != engine.last_seq:
            raise Wrong(f"events() gave {len(found)} of {engine.last_seq} events and no error")
        return _History(found, ending)

    def _check_events(self, found: Iterable[Event], after: int) -> None:
        for seq, event in enumerate(found, after + 1):
            fact = Fact(event.type, event.data, event.event_id)
            if event.seq != seq or seq > self.form.acked or fact != self.form.facts[seq - 1]:
                raise Wrong(f"event {seq} is read as {event}")

    def _may_be_pruned(self) -> bool:
        name = parse(self.mutation.name)
        return self.mutation.kind == "remove" and 0 < name.number < self.form.kept

    def _check_refusal(self, error: DurasessError, disk: SimFiles) -> None:
        if not isinstance(error, DOCUMENTED):
            raise Wrong(f"refused with {error!r}") from error
        self._check_named(error)
        if disk.tree() != self._tree:
            raise Wrong(f"refused, but the directory was changed: {error}")
        if disk.descriptors:
            raise Wrong("refused, but a descriptor is still open")

    def _check_named(self, error: DurasessError) -> None:
        text = str(error)
        if error.path is None or error.path not in text or len(text) < len(error.path) + 20:
            raise Wrong(f"the error names no file or no reason: {error!r}")
        if isinstance(error, CorruptionError) and error.offset is None and error.seq is None:
            raise Wrong(f"the error names no place: {error!r}")

    def reader(self) -> str:
        """Opening for reading: never an undocumented error, never a wrong state or event."""
        try:
            engine = open_form(self.disk(), self.form, mode="read")
        except DOCUMENTED as error:
            self._check_named(error)
            return f"refused: {type(error).__name__}"
        except Exception as error:
            raise Wrong(f'mode="read" raised {error!r}') from error
        form, last = self.form, engine.last_seq
        if self.mutation.kind == "twin" and engine.damage:
            return "damage reported"
        if not 0 <= last <= form.acked or engine.state != form.states[last]:
            raise Wrong(f'mode="read" made state {engine.state} at seq {last}')
        self._check_salvaged(engine)
        if engine.damage:
            return "damage reported"
        if last == form.acked:
            return "exact"
        if last in form.ends and form.unsealed and is_crash_like(form, self.mutation):
            return "cut off whole"
        raise Wrong(f'mode="read" lost seq {last + 1} to {form.acked} silently')

    def _check_salvaged(self, engine: Engine) -> None:
        try:
            found = list(engine.events())
        except ValueError:
            if self.mutation.kind != "remove":
                raise Wrong("events were called pruned") from None
            return
        except FormatVersionError as error:
            self._check_named(error)
            return
        except Exception as error:
            raise Wrong(f'events() in mode "read" raised {error!r}') from error
        for event in found:
            fact = Fact(event.type, event.data, event.event_id)
            known = self.form.facts[event.seq - 1] if event.seq <= self.form.acked else None
            is_twin = self.mutation.kind == "twin" and bool(engine.damage)
            if event.proven and fact != known and event.seq <= self.form.acked and not is_twin:
                raise Wrong(f"said to be proven: {event}")
        if not engine.damage and [one.seq for one in found] != [*range(1, engine.last_seq + 1)]:
            raise Wrong(f'events() in mode "read" gave {len(found)} of {engine.last_seq} events')

    def verified(self) -> str:
        """Whether `verify` finds it; raises Wrong when bytes that are needed changed unseen."""
        disk = self.disk()
        try:
            report = verify(SESSION, files=disk)
        except DOCUMENTED as error:
            self._check_named(error)
            return f"refused: {type(error).__name__}"
        except Exception as error:
            raise Wrong(f"verify raised {error!r}") from error
        if disk.tree() != self._tree:
            raise Wrong("verify changed the directory")
        if report.damage:
            return "damage found"
        reason = self._why_sound(bool(report.notices))
        if reason is None:
            raise Wrong(f"verify found nothing; last_seq {report.last_seq}")
        return f"sound: {reason}"

    def afterwards(self) -> str:
        """Where a writer opens, it goes on: one more event, and the next open finds it too."""
        disk = self.disk()
        try:
            engine = open_form(disk, self.form)
        except DOCUMENTED:
            return "not opened"
        seq = engine.last_seq + 1
        receipt = engine.append("n", {"n": -1})
        state = _folded(self.form.states[seq - 1], seq, Fact("n", {"n": -1}, None))
        engine.close()
        try:
            with open_form(disk, self.form, at_least=receipt) as again:
                if receipt.seq != seq or again.last_seq != seq or again.state != state:
                    raise Wrong(f"an event appended at seq {seq} is not what the next open finds")
        except DurasessError as error:
            raise Wrong(f"opened and appended to, then refused: {error}") from error
        return "goes on"

    def _why_sound(self, noticed: bool) -> str | None:
        """What excuses `verify` for finding no damage, if anything does."""
        kind, name = self.mutation.kind, self.mutation.name
        if name in ("owner", "lock"):
            return "the file is for people, or says nothing when it is broken"
        if only_torn_bytes(self.form, self.mutation):
            return "no event is concerned"
        if self.form.unsealed and is_crash_like(self.form, self.mutation):
            return "what a crash could have left"
        if name == "meta.json" or name in SNAPSHOTS:
            if kind == "older":
                return "an older meta or snapshot is legal"
            if kind == "remove" and (noticed or name == PREVIOUS):
                return "a missing one is a notice"
        if self._may_be_pruned():
            return "a segment that may have been pruned"
        return None


# -- counting -------------------------------------------------------------------------------


@dataclass
class Tally:
    """Outcomes by name, and each mutation that was silently wrong."""

    mutations: Counter[str] = field(default_factory=Counter)
    writer: Counter[str] = field(default_factory=Counter)
    reader: Counter[str] = field(default_factory=Counter)
    verify: Counter[str] = field(default_factory=Counter)
    afterwards: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def run(self, form: Form, found: Iterable[Mutation], *, every: int = 1) -> Tally:
        """Try each mutation; of bits and lengths all but the writer see every `every`-th only."""
        with pinned():
            for index, mutation in enumerate(found):
                self.mutations[mutation.kind] += 1
                trial = Trial(form, mutation)
                self._count(trial, self.writer, "writer")
                if index % every == 0 or mutation.kind not in _MANY:
                    self._count(trial, self.reader, "reader")
                    self._count(trial, self.verify, "verified")
                    self._count(trial, self.afterwards, "afterwards")
        return self

    def _count(self, trial: Trial, counter: Counter[str], what: str) -> None:
        try:
            counter[getattr(trial, what)()] += 1
        except Wrong as error:
            counter["WRONG"] += 1
            kind, name, place, _ = trial.mutation
            self.wrong.append(f"{trial.form.name}: {kind} {place} of {name}: {what}: {error}")

    @property
    def total(self) -> int:
        """How many mutations were tried."""
        return sum(self.mutations.values())

    def __str__(self) -> str:
        parts = [f"{self.total} mutations, {len(self.wrong)} wrong"]
        for title in ("mutations", "writer", "reader", "verify", "afterwards"):
            counts = getattr(self, title).most_common()
            parts.append(f"  {title}: " + "; ".join(f"{name} {n}" for name, n in counts))
        return "\n".join(parts)


def suite_stride(form: Form) -> Callable[[str], int]:
    """Which bits the suite flips: every fifth of the files that decide in this form, all of them in
    the full tier; every 61st of those that another form covers. Neither has a common divisor with
    8, so each bit of a byte has its turn."""
    deciding = {
        "closed": frozenset(form.files) - {"owner", "lock", "events_0001.jsonl"},
        "covered": SNAPSHOTS,
        "open": frozenset(["lock", form.newest]),
        "torn": frozenset([form.newest]),
        "power": frozenset([form.newest]),
    }[form.name.partition(" ")[0]]
    return lambda name: sampled(5) if name in deciding else 61


def main(arguments: list[str] | None = None) -> int:
    """Print the outcomes of each form; 1 when anything was silently wrong."""
    parser = argparse.ArgumentParser(prog="mutations", description=__doc__)
    parser.add_argument("--thorough", action="store_true", help="every bit, three sessions a form")
    parser.add_argument("--forms", default=",".join(FORMS), help="comma-separated")
    parser.add_argument("--salts", type=int, default=3, help="sessions a form when thorough")
    parser.add_argument("--show", type=int, default=20, help="wrong ones to print a form")
    options = parser.parse_args(arguments)
    total, wrong = 0, 0
    for salt in range(options.salts if options.thorough else 1):
        for name in options.forms.split(","):
            with pinned():
                form = build(name, salt=salt * 100, shape=salt)
            stride = (lambda name: 1) if options.thorough else suite_stride(form)
            started = time.perf_counter()
            every = 1 if options.thorough else 8
            tally = Tally().run(form, mutations(form, bit_stride=stride), every=every)
            seconds = time.perf_counter() - started
            print(f"{name} (session {salt}, {seconds:.1f} s): {tally}")
            for line in tally.wrong[: options.show]:
                print(f"  WRONG {line}")
            total, wrong = total + tally.total, wrong + len(tally.wrong)
    print(f"{total} mutations in all, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
