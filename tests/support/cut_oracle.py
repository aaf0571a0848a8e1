"""What must hold in a session whose writers were stopped: compared with all that they had said.

A session is checked after each stop by opening it for writing, so what is found there is proven and
must be there after the next one.

A machine without power acknowledges nothing, but the shutdown ioctl leaves the process running: a
sync that is under way in that moment may return 0 and be lost (ext4 in Linux 6.18: in one of ten
cuts of a bare loop of write and fdatasync). So what was said after the cut began counts as begun.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from durasess import Receipt, SessionNotFoundError
from durasess.engine.files import RealFiles
from durasess.engine.verify import verify
from tests.support.agreement import assert_readers_agree
from tests.support.cut_workers import Said, empty, fold, opened, store_at


class Told(NamedTuple):
    """What workers said, in one place: the highest call each thread began, the acknowledged ones
    as (thread, number, first, last, crc), tools' bodies that ran and those with durable results,
    and what an open had seen (-1: none returned)."""

    began: dict[str, int]
    acked: list[tuple[str, int, int, int, str]]
    bodies: set[str]
    done: set[str]
    seen: int


def before(lines: Iterable[Said], moment: int) -> list[Said]:
    """The lines without the acknowledgements that came at `moment` or later."""
    return [line for line in lines if line[0] == "begin" or line[-1] < moment]


def told(lines: Iterable[Said]) -> Told:
    """All lines of all workers of one session."""
    began: dict[str, int] = defaultdict(int)
    found = Told(began, [], set(), set(), -1)
    seen = -1
    for what, *said, _ in lines:
        if what == "begin":
            began[said[0]] = max(began[said[0]], said[1])
        elif what == "acked":
            found.acked.append(tuple(said))
        elif what == "body":
            found.bodies.add(said[0])
        elif what == "done":
            found.done.add(said[0])
        elif what == "seen":
            seen = max(seen, said[0])
    return found._replace(seen=seen)


class Log:
    """A session of the engine that workers append to; `proven` is the receipt of the last check."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.proven: Receipt | None = None
        self.checks = 0

    def problems(self, lines: Iterable[Said]) -> list[str]:
        """What is wrong with what is there now; it is appended to when nothing is."""
        said = told(lines)
        self.checks += 1
        try:
            if not self.path.exists():
                return self._missing(said)
            return list(self._wrong(said))
        except Exception as error:  # every refusal is a finding
            return [f"{self.path.name}: refused: {type(error).__name__}: {error}"]

    def _missing(self, said: Told) -> list[str]:
        if self.proven is None and said.seen < 0:
            return []
        return [f"{self.path.name}: the session is gone"]

    def _wrong(self, said: Told) -> Iterable[str]:
        newest = self._newest(said)
        acked = max(said.seen, newest.seq if newest is not None else 0)
        yield from (
            f"damage: {damage}" for damage in verify(str(self.path), files=RealFiles()).damage
        )
        with opened(self.path, mode="read") as reader:
            if reader.last_seq < acked:
                yield f"seq {acked} was acknowledged, a reader sees {reader.last_seq}"
        with opened(self.path, at_least=newest) as engine:
            last, state = engine.last_seq, engine.state
            yield from _wrong_state(state, last, acked, said)
            yield from _wrong_events(engine, said)
            self.proven = engine.append("checked", self.checks)
            if self.proven.seq != last + 1:
                yield f"seq {self.proven.seq} follows {last}"
        if self.checks % 4 == 0:
            assert_readers_agree(self.path)

    def _newest(self, said: Told) -> Receipt | None:
        """The receipt of the highest seq that was acknowledged."""
        found = self.proven
        for _, _, _, last, crc in said.acked:
            if found is None or last > found.seq:
                found = Receipt(self.path.name, last, crc)
        return found


def _wrong_state(state: dict[str, Any], last: int, acked: int, said: Told) -> Iterable[str]:
    yield from state["wrong"]
    if state["unfinished"]:
        yield f"half a batch of {state['unfinished']} is there"
    if last < acked:
        yield f"LOST: seq {acked} was acknowledged, {last} are there"
    if state["count"] != last:
        yield f"{state['count']} events were folded, {last} are there"
    durable: dict[str, int] = defaultdict(int)
    for thread, number, *_ in said.acked:
        durable[thread] = max(durable[thread], number)
    for thread, begun in said.began.items():
        there = state["threads"].get(thread, [0])[0]
        if not durable[thread] <= there <= begun:
            yield f"{thread} began {begun} calls, {durable[thread]} are durable, {there} are there"


def _wrong_events(engine: Any, said: Told) -> Iterable[str]:
    first = engine.first_seq
    events = list(engine.events(after=first - 1))
    if [event.seq for event in events] != list(range(first, engine.last_seq + 1)):
        yield f"the seqs from {first} to {engine.last_seq} have gaps"
        return
    for thread, number, begin, end, crc in said.acked:
        if end >= first and events[end - first].crc != crc:
            yield f"seq {end} has the crc {events[end - first].crc}, {crc} was acknowledged"
        for event in events[max(begin - first, 0) : max(end - first + 1, 0)]:
            if [event.data["thread"], event.data["call"]] != [thread, number]:
                yield f"seq {event.seq} was {thread}'s call {number} and holds {event.data}"
    if first == 1:
        state = empty()
        for event in events:
            state = fold(state, event)
        if state != engine.state:
            yield f"the state is {engine.state}, the events make {state}"


class Agents:
    """A session of agents with tool calls; what bodies ran is remembered over all checks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bodies: set[str] = set()
        self.done: set[str] = set()
        self.proven = -1

    def problems(self, lines: Iterable[Said]) -> list[str]:
        """What is wrong with what opening says of the calls (P9)."""
        said = told(lines)
        self.bodies |= said.bodies
        self.done |= said.done
        try:
            return list(self._wrong(said))
        except Exception as error:
            return [f"agent: refused: {type(error).__name__}: {error}"]

    def _wrong(self, said: Told) -> Iterable[str]:
        acked = max(said.seen, self.proven)
        try:
            session = store_at(self.path).open("agent")
        except SessionNotFoundError:
            if acked >= 0:
                yield "the agent's session is gone"
            return
        damage = verify(str(self.path / "agent"), files=RealFiles()).damage
        yield from (f"damage: {one}" for one in damage)
        if session.last_seq < acked:
            yield f"LOST: seq {acked} was acknowledged, {session.last_seq} are there"
        calls = {call.call_id: call for call in session.state.tool_states.values()}
        yield from (_untrue(call_id, calls.get(call_id), self.done) for call_id in self.bodies)
        found = session.last_seq
        session.abandon()
        with store_at(self.path).open("agent") as again:
            if again.last_seq != found:
                yield f"opening again wrote seq {found + 1} to {again.last_seq}"
            self.proven = again.note("checked").seq


def _untrue(call_id: str, call: Any, done: set[str]) -> str:
    """What is not true of a call whose body ran; empty when all is."""
    if call is None:
        return f"{call_id} was started and is forgotten"
    if call.status in ("pending", "running", "not_started"):
        return f"{call_id} was started and is {call.status}"
    if call.status == "failed" and not call.decision:
        return f"{call_id} was started and is told as failed"
    if call_id in done and call.status != "completed":
        return f"{call_id} ended and is {call.status}"
    return ""
