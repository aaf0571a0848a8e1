"""What must hold in every state that a crash leaves: recover it, look at it, go on with it.

`Oracle.problems` gives everything that is wrong with one state, in words; nothing means sound.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from durasess.engine import paths
from durasess.engine.engine import Engine
from durasess.engine.types import BLANKS, FILLER, Event
from durasess.engine.verify import verify
from durasess.errors import SessionNotFoundError
from tests.support.crash_driver import (
    BOOT_NS,
    SESSION,
    STORE,
    Fact,
    Moment,
    Options,
    fold,
    identity,
    is_sealed,
    make_clock,
    open_engine,
    segments_in,
    unsettled_in,
)
from tests.support.crash_states import CrashState, Settings, crash_states, entry_key, tree_key
from tests.support.sim_files import SimFiles, Tree

AFTER: Fact = ("counted", {"n": 0, "text": "after the crash"})


class Oracle:
    """Checks crash states; remembers what it has seen.

    The verdict on a state is that on its view: the tree without the contents that recovery does
    not read (`owner`, and temporary files), which each check proves. Going on after recovery is
    checked once for each tree that recovery made.

    `preallocate` is that of the engine that goes on. `readers_every`: the writer recovers every
    view; a reader, `events` and `verify` look at about one in so many.

    `recovered` counts distinct views that were recovered, `continued` recovered trees that were
    written to, `nested` the states of crashes during recovery.
    """

    def __init__(
        self,
        *,
        make_files: Callable[[Tree], SimFiles] = SimFiles.from_tree,
        open_with: Callable[..., Engine] = open_engine,
        preallocate: int = 0,
        readers_every: int = 1,
    ) -> None:
        self._make_files = make_files
        self._readers_every = readers_every
        self._open_with = functools.partial(_opened, open_with, Options(preallocate=preallocate))
        self._verdicts: dict[Any, list[str]] = {}
        self._sound_views: dict[int, _Check] = {}
        self._sound: dict[Any, list[str]] = {}
        self.recovered = 0
        self.continued = 0
        self.nested = 0

    def problems(self, state: CrashState, *, depth: int = 1) -> list[str]:
        """Everything that is wrong with what recovery makes of this tree; `depth` counts the
        crashes before it."""
        view = view_key(state)
        moment = state.mark or Moment()
        verdict = self._verdicts.get((view, identity(moment)))
        if verdict is None:
            verdict = self._again(state, moment, self._sound_views.get(view))
        if verdict is None:
            readers = view % self._readers_every == 0
            check, _ = self._check(state.tree, moment, depth=depth, readers=readers)
            verdict = check.found
            if not verdict:
                self._sound_views[view] = check
                check.let_go()
        self._verdicts[view, identity(moment)] = verdict
        return verdict

    def _again(self, state: CrashState, moment: Moment, before: _Check | None) -> list[str] | None:
        """The verdict on a view that was sound at another moment, when only its receipt is new;
        None when all must be looked at again."""
        if before is None or not before.holds_for(moment):
            return None
        check = _Check(self._make_files(state.tree), state.tree, moment, self._open_with, BOOT_NS)
        return check.only_receipt()

    def nested_problems(
        self, state: CrashState, settings: Settings
    ) -> Iterator[tuple[int, list[str]]]:
        """The states of a second crash, at each point of the recovery from the first and of what
        is written after it; their keys and what is wrong with them."""
        _, files = self._check(state.tree, state.mark or Moment(), go_on=True)
        for second in crash_states(files.base, files.log, settings, identity=identity):
            self.nested += 1
            yield second.key, self.problems(second, depth=2)

    def _check(
        self,
        tree: Tree,
        moment: Moment,
        *,
        go_on: bool = False,
        depth: int = 1,
        readers: bool = True,
    ) -> tuple[_Check, SimFiles]:
        files = self._make_files(tree)
        files.reads = set()
        self.recovered += 1
        check = _Check(files, tree, moment, self._open_with, BOOT_NS * depth)
        try:
            check.expect_kept()
            if readers:
                check.read_only()
            engine = check.recover()
            if engine is not None:
                self._continue(check, engine, always=go_on)
            check.expect_unread()
        except Exception as error:  # every refusal is a finding
            check.found.append(f"{check.doing}: {type(error).__name__}: {error}")
        check.forget_engines()
        return check, files

    def _continue(self, check: _Check, engine: Engine, *, always: bool) -> None:
        """Append, close, recover again; once for each tree that recovery made."""
        state = check.moment.states[engine.last_seq]
        key = (_key_without_quarantine(check.files.tree()), engine.last_seq, state.get("crc"))
        known = self._sound.get(key)
        if known is not None and not always:
            engine.abandon()
            check.found += known
            return
        before = len(check.found)
        self.continued += 1
        check.look_at_events(engine)
        check.go_on(engine)
        self._sound[key] = check.found[before:]


def _opened(
    open_with: Callable[..., Engine], options: Options, files: SimFiles, **more: Any
) -> Engine:
    return open_with(files, options, **more)


class _Check:
    """One state in the hands of the oracle; `doing` says where it stands."""

    def __init__(
        self,
        files: SimFiles,
        tree: Tree,
        moment: Moment,
        open_with: Callable[..., Engine],
        boot_ns: int,
    ) -> None:
        self.files = files
        self.tree = tree
        self.moment = moment
        self.found: list[str] = []
        self.doing = ""
        self._open_with = open_with
        self._clock = make_clock(boot_ns)
        self._read_seq: int | None = None
        self._last_seq = 0
        self._state: Any = None
        self._given = moment.unsettled
        self._engines: list[Engine] = []
        # What the crash itself took from a segment is nobody's to keep.
        self._unsettled = unsettled_in(tree, ())
        files.mark(moment._replace(unsettled=self._unsettled))

    def let_go(self) -> None:
        """Keep only what `holds_for` needs."""
        del self.files, self.tree, self.moment

    def holds_for(self, moment: Moment) -> bool:
        """Whether what was found also satisfies this moment, its receipt aside."""
        last = self._last_seq
        first = last if self._read_seq is None else self._read_seq
        if not moment.acked <= first <= last < len(moment.states):
            return False
        if moment.unsettled != self._given or moment.states[last] != self._state:
            return False
        return first in moment.ends and last in moment.ends

    def only_receipt(self) -> list[str]:
        """Open with the moment's receipt, and nothing else."""
        self.doing = "receipt"
        try:
            self._open("read").close()
        except Exception as error:
            self.found.append(f"{self.doing}: {type(error).__name__}: {error}")
        self.forget_engines()
        return self.found

    def expect_kept(self) -> None:
        """What earlier recoveries took out of segments is in quarantine."""
        self.doing = "look"
        self._expect_quarantined(self.tree, self.moment.unsettled)

    def read_only(self) -> None:
        """A reader and `verify` see a sound prefix and change nothing."""
        self.doing = "read"
        before = len(self.files.log)
        try:
            engine = self._open("read")
        except SessionNotFoundError:
            self._expect(self.moment.acked < 0, "the created session is not there")
            self._expect_unchanged(before)
            return
        self._look(engine)
        self.look_at_events(engine)
        self._expect_terminated(engine.last_seq)
        self._read_seq = engine.last_seq
        engine.close()
        self.doing = "verify"
        report = verify(SESSION, files=self.files)
        self._expect(not report.damage, f"damage: {[str(item) for item in report.damage]}")
        self._expect_unchanged(before)

    def recover(self) -> Engine | None:
        """Open for writing: everything acknowledged, nothing else, nothing thrown away."""
        self.doing = "recover"
        engine = self._open("own")
        self._look(engine)
        self._expect(
            engine.last_seq >= (self._read_seq or 0),
            f"a reader saw {self._read_seq} events, the writer {engine.last_seq}",
        )
        last = engine.last_seq
        if self.found or last > len(self.moment.issued):
            engine.abandon()
            return None
        self._expect_quarantined(self.files.tree(), segments_in(self.tree))
        moment = self.moment
        self._last_seq, self._state = last, moment.states[last]
        self.moment = moment._replace(
            acked=last,
            version=moment.version + 1,
            issued=moment.issued[:last],
            ends=tuple(end for end in moment.ends if end <= last),
            states=moment.states[: last + 1],
            unsettled=self._unsettled,
        )
        self.files.mark(self.moment)
        return engine

    def go_on(self, engine: Engine) -> None:
        """Append, close, open again: the second recovery agrees with the first."""
        self.doing = "append after recovery"
        seq = engine.last_seq + 1
        moment = self.moment
        state = fold(dict(moment.states[-1]), _Numbered(seq))
        self.moment = moment._replace(
            issued=(*moment.issued, AFTER), ends=(*moment.ends, seq), states=(*moment.states, state)
        )
        self.files.mark(self.moment)
        receipt = engine.append(*AFTER)
        self._expect(receipt.seq == seq, f"the next event got seq {receipt.seq}, not {seq}")
        self.moment = self.moment._replace(acked=seq, receipt=receipt)
        self.files.mark(self.moment)
        self.doing = "close after recovery"
        engine.close()
        self._expect(not self.files.descriptors, f"left open: {self._left_open()}")
        self.doing = "second recovery"
        engine = self._open("own")
        self._look(engine)
        self.look_at_events(engine)
        self._expect(engine.last_seq == seq, f"it has {engine.last_seq} events, not {seq}")
        self._expect(engine.recovery.clean, "unclean after a close")
        engine.abandon()
        report = verify(SESSION, files=self.files)
        self._expect(not report.damage, f"damage: {[str(item) for item in report.damage]}")

    def expect_unread(self) -> None:
        """The view rests on this: what lies in these files makes no difference to recovery."""
        unread = [path for path in self.files.reads or () if _is_never_read(path)]
        self._expect(not unread, f"it read {unread}")

    def _open(self, mode: str) -> Engine:
        engine = self._open_with(
            self.files,
            mode=mode,
            at_least=self.moment.receipt,
            create=mode == "own",
            clock=self._clock,
        )
        self._engines.append(engine)
        return engine

    def forget_engines(self) -> None:
        """Whatever a finding left open goes, without touching the disk."""
        self.files.die()
        for engine in self._engines:
            engine.forget()
        self._engines.clear()

    def _look(self, engine: Engine) -> None:
        """Acknowledged ⊆ found ⊆ issued, whole batches, no alarm, the state of these events."""
        moment = self.moment
        last = engine.last_seq
        report = engine.recovery
        self._expect(not report.damage, f"damage: {[str(item) for item in report.damage]}")
        self._expect(not report.notices, f"notices: {report.notices}")
        self._expect(not report.torn or report.torn.size > 0, "a torn tail of no bytes")
        self._expect(last >= moment.acked, f"LOST: {moment.acked} acknowledged, {last} found")
        if last > len(moment.issued):
            self.found.append(f"{self.doing}: PHANTOM: {len(moment.issued)} issued, {last} found")
            return
        self._expect(last in moment.ends, f"half a batch: {last} found, ends {moment.ends}")
        self._expect(
            engine.state == moment.states[last],
            f"the state is {engine.state}, of these events {moment.states[last]}",
        )

    def look_at_events(self, engine: Engine) -> None:
        """Each one that was issued, in order, and the one that the receipt names."""
        moment = self.moment
        last = engine.last_seq
        first, events = self._events(engine)
        self._expect(first == 1 or moment.pruned, f"the log begins at seq {first}, never pruned")
        seqs = [event.seq for event in events]
        self._expect(seqs == list(range(first, last + 1)), f"seqs {seqs}, not {first} to {last}")
        for event in events:
            if (
                event.seq <= len(moment.issued)
                and (event.type, event.data) != moment.issued[event.seq - 1]
            ):
                self.found.append(f"{self.doing}: WRONG: seq {event.seq} is {event.data}")
        receipt = moment.receipt
        for event in events:
            if receipt is not None and event.seq == receipt.seq and event.crc != receipt.crc:
                self.found.append(f"{self.doing}: seq {event.seq} has another crc than its receipt")

    def _events(self, engine: Engine) -> tuple[int, list[Event]]:
        """The seq that the log begins with, and all events that can be read."""
        try:
            return 1, list(engine.events())
        except ValueError as pruned:
            asked = re.search(r"after=([0-9]+)", str(pruned))
            if asked is None:
                raise
        after = int(asked[1])
        return after + 1, list(engine.events(after=after))

    def _expect_terminated(self, last: int) -> None:
        """A reader never counts a line that lacks its line feed."""
        start = b'\n{"seq":%d,' % last
        for path, data in segments_in(self.tree):
            at = data.find(start)
            whole = at < 0 or data.find(b"\n", at + 1) > 0
            self._expect(whole, f"{path}: seq {last} was counted without its line feed")

    def _expect_quarantined(self, tree: Tree, unsettled: Iterable[tuple[str, bytes]]) -> None:
        """Where a segment was replaced by a sealed copy, what is gone from it is in quarantine:
        all but filler, and blanks behind a seal, which are nothing."""
        quarantine = [
            data
            for path, data in tree.items()
            if data is not None and path.startswith(f"{SESSION}/{paths.QUARANTINE}/")
        ]
        for path, old in unsettled:
            new = tree.get(path)
            if new is None or new == old or is_sealed(old) or not is_sealed(new):
                continue
            bare = old.rstrip(BLANKS)
            old = bare if is_sealed(bare) else old.rstrip(FILLER)
            kept = new.startswith(old) or _is_kept(old, new, quarantine)
            self._expect(kept, f"bytes of {path} were thrown away")

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.found.append(f"{self.doing}: {otherwise}")

    def _expect_unchanged(self, before: int) -> None:
        changes = self.files.log[before:]
        self._expect(not changes, f"the disk was changed: {changes}")
        self._expect(not self.files.descriptors, f"left open: {self._left_open()}")

    def _left_open(self) -> list[str]:
        return sorted(item.path for item in self.files.descriptors.values())


class _Numbered:
    """AFTER as an event, for the reducer."""

    type, data = AFTER

    def __init__(self, seq: int) -> None:
        self.seq = seq


def _is_kept(old: bytes, new: bytes, quarantine: list[bytes]) -> bool:
    """Whether `old` is a beginning of `new` followed by bytes that are in quarantine."""
    for kept in quarantine:
        if kept and old.endswith(kept) and new.startswith(old[: len(old) - len(kept)]):
            return True
    return False


def _key_without_quarantine(tree: Tree) -> int:
    """Recovery never reads what it set aside, so it makes no difference to going on."""
    key = tree_key(tree)
    prefix = f"{SESSION}/{paths.QUARANTINE}/"
    for path, content in tree.items():
        if path.startswith(prefix):
            key ^= entry_key(path, content)
    return key


def view_key(state: CrashState) -> int:
    """Names a tree without the contents that recovery never reads."""
    key = state.key
    for path, content in state.tree.items():
        if content and _is_never_read(path):
            key ^= entry_key(path, content) ^ entry_key(path, b"")
    return key


def _is_never_read(path: str) -> bool:
    return path.endswith((paths.TMP, "/" + paths.OWNER))


def describe(tree: Tree, live: Tree) -> list[str]:
    """A tree in lines: names, sizes, and where each file first differs from the live view."""
    lines = []
    for path in sorted({*tree, *live}):
        if path == STORE:
            continue
        lines.append(f"{path}: {_difference(path, tree, live)}")
    return lines


def _difference(path: str, tree: Tree, live: Tree) -> str:
    if path not in tree:
        return "not there"
    data = tree[path]
    if data is None:
        return "directory"
    issued: Any = live.get(path)
    if issued is None:
        return f"{len(data)} bytes, no file of this name in the live view: {data[:60]!r}"
    if data == issued:
        return f"{len(data)} bytes, everything issued"
    at = next((i for i, (a, b) in enumerate(zip(data, issued, strict=False)) if a != b), None)
    if at is None:
        at = min(len(data), len(issued))
    return (
        f"{len(data)} bytes, issued {len(issued)}; differs at byte {at}: "
        f"{data[at : at + 40]!r} instead of {issued[at : at + 40]!r}"
    )
