"""The scripted model of the agent drill: what it says next, from the context it is given alone.

It keeps nothing between two replies, so after a resume it goes on from what it is told: results,
their absence, and the recovery block. What its tools do is in drill_agent_world and in the worker.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from durasess.session.context import Context

REQUEST = "The tests of prices.py fail. Fix it, release it as 1.0.1 and tell the team."
FILE = "prices.py"
VERSION = "1.0.1"
NEWS = f"{VERSION} is out: totals and discounts are right"

FIXES = (
    ("return sum(items)", "return sum(price * count for price, count in items)"),
    ("return amount - percent", "return amount * (100 - percent) / 100"),
)
"""What stands in the file → what should."""

_BLOCK = re.compile(r"^<recovery>\n(.*?)^</recovery>$", re.DOTALL | re.MULTILINE)
_TOLD = re.compile(r'^- ([A-Z][A-Z ]+).*?: "([^"]*)", call "([^"]*)"', re.MULTILINE)

_NO_EFFECT = ("NOT APPLIED", "NEVER STARTED")


class Told(NamedTuple):
    """A call as the recovery block tells it: its class, the tool's name, its id."""

    kind: str
    name: str
    call_id: str


class Reply(NamedTuple):
    """What the model says; `calls` are (name, arguments, call id). `usage` as providers report
    it."""

    text: str
    calls: list[tuple[str, dict[str, Any], str]]
    usage: dict[str, int]


class _Call(NamedTuple):
    """A call as the context shows it. `at` is the place of the message that asked for it."""

    at: int
    call_id: str
    name: str
    arguments: dict[str, Any]
    result: str
    is_error: bool

    @property
    def is_unknown(self) -> bool:
        return self.result.startswith("UNKNOWN OUTCOME")

    @property
    def is_done(self) -> bool:
        """It took effect, for all that is known; not so one whose outcome is unknown."""
        return not (self.is_error or self.is_unknown or self.result.startswith(_NO_EFFECT))


def recovery_told(context: Context) -> list[Told] | None:
    """The calls of the recovery block, None when the context has no block."""
    block = _BLOCK.search(context.system)
    if block is None:
        return None
    return [Told(kind.strip(), name, call) for kind, name, call in _TOLD.findall(block[1])]


def reply(context: Context) -> Reply:
    """The model's next message; the task is finished when it asks for no tool."""
    calls = _calls(context)
    text, wanted = _decide(calls)
    told = recovery_told(context)
    if told is not None:
        heard = "; ".join(f"{one.name} {one.kind.lower()}" for one in told)
        text = f"I was interrupted ({heard or 'no call was open'}). {text}"
    asked = [
        (name, arguments, f"call_{len(calls) + number}")
        for number, (name, arguments) in enumerate(wanted, 1)
    ]
    return Reply(text, asked, _usage(context, text, asked))


def review(context: Context) -> Reply:
    """What the model says in the child session, where it only judges."""
    text = "The change does what the tests ask for."
    return Reply(text, [], _usage(context, text, []))


def _usage(context: Context, text: str, calls: list[Any]) -> dict[str, int]:
    return {"prompt_tokens": context.tokens, "completion_tokens": len(text) // 4 + 20 * len(calls)}


def _calls(context: Context) -> list[_Call]:
    results = {one["call_id"]: one for one in context.messages if one["role"] == "tool"}
    calls = []
    for at, message in enumerate(context.messages):
        for asked in message.get("tool_calls", ()):
            answer = results[asked["call_id"]]
            calls.append(
                _Call(
                    at,
                    asked["call_id"],
                    asked["name"],
                    asked["arguments"],
                    answer["content"],
                    answer["is_error"],
                )
            )
    return calls


Wanted = list[tuple[str, dict[str, Any]]]


def _decide(calls: list[_Call]) -> tuple[str, Wanted]:
    """One step of the task: what is unknown first, then fix, review, release, publish."""
    for step in (_find_out, _fix, _review, _release, _publish):
        found = step(calls)
        if found is not None:
            return found
    return "Fixed, released and told.", []


def _find_out(calls: list[_Call]) -> tuple[str, Wanted] | None:
    """A message whose outcome is unknown is not sent again before somebody looked."""
    unknown = [one for one in calls if one.is_unknown and one.name in ("send_message", "publish")]
    if not unknown:
        return None
    looks = [one for one in calls if one.name == "read_outbox" and one.at > unknown[-1].at]
    seen = next((one for one in reversed(looks) if one.is_done), None)
    if seen is None:
        return "I look whether it was sent.", [("read_outbox", {})]
    lines = seen.result.split("\n")
    wanted: Wanted = []
    for one in unknown:
        outcome = "applied" if one.arguments["text"] in lines else "not_applied"
        wanted.append(("note_outcome", {"call_id": one.call_id, "outcome": outcome}))
    return "Now I know what became of it.", wanted


def _fix(calls: list[_Call]) -> tuple[str, Wanted] | None:
    source, tests = _since_change(calls, "read_file"), _since_change(calls, "run_tests")
    wanted: Wanted = []
    if source is None:
        wanted.append(("read_file", {"path": FILE}))
    if tests is None:
        wanted.append(("run_tests", {}))
    if source is None or tests is None:
        return "I look at the code and its tests.", wanted
    if tests.result == "ok":
        return None
    found = json.loads(source.result)
    for old, new in FIXES:
        if old in found["text"]:
            patch = {"path": FILE, "version": found["version"], "old": old, "new": new}
            return f"I see why: {tests.result}.", [("patch_file", patch)]
    return f"I do not know how to fix this: {tests.result}", []


def _since_change(calls: list[_Call], name: str) -> _Call | None:
    """The newest result of a tool that tells how the file is now."""
    changed = max((one.at for one in calls if one.name == "patch_file"), default=-1)
    found = [one for one in calls if one.name == name and one.at > changed and one.is_done]
    return found[-1] if found else None


def _review(calls: list[_Call]) -> tuple[str, Wanted] | None:
    if _is_done(calls, "review"):
        return None
    return "Somebody else should look at it.", [("review", {"path": FILE})]


def _release(calls: list[_Call]) -> tuple[str, Wanted] | None:
    wanted: Wanted = []
    if not _is_done(calls, "put_version"):
        wanted.append(("put_version", {"version": VERSION}))
    if not _is_done(calls, "send_message"):
        wanted.append(("send_message", {"text": NEWS}))
    return ("I release it.", wanted) if wanted else None


def _publish(calls: list[_Call]) -> tuple[str, Wanted] | None:
    if _is_done(calls, "publish"):
        return None
    return "May I publish it?", [("publish", {"text": f"published {VERSION}"})]


def _is_done(calls: list[_Call], name: str) -> bool:
    return any(one.name == name and one.is_done for one in calls)
