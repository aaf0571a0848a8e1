"""What must be true of a task's session and world after its harness was killed again and again.

The log is read event by event with rules of its own, so that the state, the recovery block and the
world are compared with what the events say and not with what the session layer made of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from durasess.cli.drill_agent_world import World
from durasess.cli.drill_compare import PROBLEMS_KEPT
from durasess.engine.types import Event
from durasess.session.session import Session

_KINDS = {"uncertain": "UNKNOWN OUTCOME", "not_started": "NEVER STARTED"}
"""Status of a call → how the recovery block tells it."""

_AFTER_RECOVERY = {
    "uncertain": "uncertain",
    "not_started": "not_started",
    "applied": "completed",
    "not_applied": "failed",
    "abandoned": "failed",
    "rerun": "pending",
}
"""Outcome of `tool_recovery` → status of the call."""

_OPEN = frozenset(["pending", "running", "uncertain", "waiting"])


class Asked(msgspec.Struct, frozen=True):
    """A context that the harness asked for, at event `seq`: what its recovery block told, [class,
    name, call id] of each call, or null without a block."""

    seq: int
    told: list[list[str]] | None


class Findings(msgspec.Struct):
    """What happened, and what was wrong: `problems` says each in words, `differences` counts them
    all. `repeated` are effects that happened once too often."""

    interrupted: int = 0
    uncertain: int = 0
    not_started: int = 0
    settled: int = 0
    offered: int = 0
    contexts: int = 0
    with_recovery: int = 0
    repeated: int = 0
    differences: int = 0
    problems: list[str] = msgspec.field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was wrong."""
        return not (self.differences or self.repeated)

    def wrong(self, problem: str) -> None:
        """Something is not as it must be."""
        self.differences += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(problem)


def compare(
    session: Session, world: World, reference: World, asked: list[Asked], findings: Findings
) -> None:
    """A task that came to its end, with one that nobody interrupted."""
    walk = _Walk(asked, findings)
    walk.follow(session.events())
    walk.compare_state(session)
    if session.status != "completed":
        findings.wrong(f"the session is {session.status}, not completed")
    _compare_worlds(world, reference, findings)


def _compare_worlds(world: World, reference: World, findings: Findings) -> None:
    files, expected = world.files(), reference.files()
    for name in sorted(files.keys() | expected.keys()):
        if files.get(name) != expected.get(name):
            findings.wrong(f"the file {name} of the project is not as without interruptions")
    effects = Counter([*world.sent(), *_versions(world)])
    wanted = Counter([*reference.sent(), *_versions(reference)])
    for text in effects.keys() | wanted.keys():
        more = effects[text] - wanted[text]
        if more > 0:
            findings.repeated += more
            findings.wrong(f"the effect {text!r} is there {effects[text]} times")
        elif more < 0:
            findings.wrong(f"the effect {text!r} is missing")


def _versions(world: World) -> list[str]:
    return [line.partition(" ")[2] for line in world.registered()]


class _Walk:
    """Goes through the events of a session and judges each context where it was asked for."""

    def __init__(self, asked: list[Asked], findings: Findings) -> None:
        self._asked = sorted(asked, key=lambda one: one.seq)
        self._findings = findings
        self._statuses: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._usage: Counter[str] = Counter()
        self._unsafe: Counter[str] = Counter()
        self._is_interrupted = False
        self._to_tell: set[str] = set()
        """Calls that a recovery block has to tell, by key."""

    def follow(self, events: Iterable[Event]) -> None:
        for event in events:
            self._judge_contexts(before=event.seq)
            self._take(event)
        self._judge_contexts(before=None)
        for key, status in self._statuses.items():
            if status in _OPEN:
                self._findings.wrong(f"the call {self._ids[key]} is {status} at the end")

    def compare_state(self, session: Session) -> None:
        """The state must be what the events say."""
        found = {key: call.status for key, call in session.state.tool_states.items()}
        if found != self._statuses:
            self._findings.wrong(f"the calls are {found}, by the events {self._statuses}")
        usage = session.usage
        sums = (usage.prompt, usage.completion, usage.total)
        expected = tuple(self._usage[name] for name in ("prompt", "completion", "total"))
        if sums != expected:
            self._findings.wrong(f"the usage is {sums}, the recorded replies add up to {expected}")

    def _take(self, event: Event) -> None:
        match event.type:
            case "assistant_message":
                self._replied(event)
            case "approval_requested":
                self._statuses[event.data["key"]] = "waiting"
            case "approval_decided":
                self._statuses[event.data["key"]] = "pending"
            case "tool_started":
                self._started(event)
            case "tool_result":
                ok = event.data.get("ok", True)
                self._statuses[event.data["key"]] = "completed" if ok else "failed"
            case "tool_recovery":
                self._recovered(event.data)
            case "run_finished" if event.data["status"] == "interrupted":
                self._findings.interrupted += 1
                self._is_interrupted = True
                self._to_tell |= {key for key, one in self._statuses.items() if one in _OPEN}

    def _replied(self, event: Event) -> None:
        for index, call in enumerate(event.data.get("tool_calls", ())):
            key = f"{event.seq}.{index}"
            self._statuses[key] = "pending"
            self._ids[key] = call["call_id"]
        self._usage.update(event.data.get("usage", {}))
        self._is_interrupted = False
        self._to_tell = set()

    def _started(self, event: Event) -> None:
        key = event.data["key"]
        if self._statuses[key] != "pending":
            self._findings.wrong(f"seq {event.seq} starts a call that is {self._statuses[key]}")
        if event.data.get("effect", "unsafe") == "unsafe":
            self._unsafe[key] += 1
            if self._unsafe[key] > 1:
                self._findings.repeated += 1
                self._findings.wrong(f"seq {event.seq} starts an unsafe call again")
        self._statuses[key] = "running"

    def _recovered(self, data: dict[str, Any]) -> None:
        key, outcome, by = data["key"], data["outcome"], data.get("by", "")
        self._statuses[key] = _AFTER_RECOVERY[outcome]
        # Whoever said it: the model has not heard it before its next reply.
        self._to_tell.add(key)
        self._findings.uncertain += outcome == "uncertain"
        self._findings.not_started += outcome == "not_started"
        self._findings.settled += by == "verifier"
        self._findings.offered += outcome == "rerun"

    def _judge_contexts(self, *, before: int | None) -> None:
        while self._asked and (before is None or self._asked[0].seq < before):
            self._judge(self._asked.pop(0))

    def _judge(self, asked: Asked) -> None:
        self._findings.contexts += 1
        self._findings.with_recovery += asked.told is not None
        if (asked.told is not None) != self._is_interrupted:
            has = "no" if asked.told is None else "a"
            self._findings.wrong(f"the context at seq {asked.seq} has {has} recovery block")
            return
        if asked.told is None:
            return
        told = {call_id: kind for kind, _, call_id in asked.told}
        expected = {self._ids[key] for key in self._to_tell}
        if told.keys() != expected:
            self._findings.wrong(
                f"the recovery block at seq {asked.seq} tells of {_listed(told)}; "
                f"open or recovered were {_listed(expected)}"
            )
        for key in self._to_tell:
            kind = _KINDS.get(self._statuses[key])
            if kind is not None and told.get(self._ids[key], kind) != kind:
                self._findings.wrong(
                    f"the recovery block at seq {asked.seq} tells of {self._ids[key]} as "
                    f"{told[self._ids[key]]}, it is {self._statuses[key]}"
                )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
