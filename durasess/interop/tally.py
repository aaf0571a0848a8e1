"""What an import did, in numbers and places: every line of the file is accounted for."""

from __future__ import annotations

from typing import Any

import msgspec

from durasess.engine.types import Draft
from durasess.interop.importer import Disposition, Mapped
from durasess.session import usage
from durasess.session.state import Usage

PLACES = 100
"""Reported lines of which place and reason are told; more are counted."""

REASONS = 100
"""Different reasons that are told apart."""


class ImportReport(msgspec.Struct, kw_only=True):
    """What became of one foreign file.

    `lines` are those read now: `mapped` + `kept` + `reported`; `skipped` ones were imported before,
    `blank` ones are empty; `torn` bytes at the end are no whole line yet and left for the next
    import. `messages`, `calls`, `results`, `runs` and `usage` are of this import; `uncertain` calls
    are those of the session that have no result now. `reasons` counts why lines were kept or
    reported, and what is odd about mapped ones; `places` says which were reported. `conflict`
    says why nothing was merged, `problem` what ended it early.
    """

    path: str
    format: str = ""
    session_id: str = ""
    foreign_id: str = ""
    lines: int = 0
    mapped: int = 0
    kept: int = 0
    reported: int = 0
    skipped: int = 0
    blank: int = 0
    torn: int = 0
    bytes: int = 0
    messages: int = 0
    calls: int = 0
    results: int = 0
    runs: int = 0
    uncertain: int = 0
    usage: Usage = Usage()
    reasons: dict[str, int] = {}
    places: list[str] = []
    conflict: str = ""
    problem: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether every line of the file is in the session and could be read."""
        return not (self.conflict or self.problem or self.reported)


class Tally:
    """Counts into a report."""

    def __init__(self, report: ImportReport) -> None:
        self.report_so_far = report

    def count(self, mapped: Mapped) -> None:
        """One line."""
        so_far = self.report_so_far
        so_far.lines += 1
        if mapped.disposition == "mapped":
            so_far.mapped += 1
        else:
            self._add(mapped.disposition, 1)
            if mapped.disposition == "reported":
                self._place(mapped.line_number, mapped.reason)
        if why := mapped.reason or mapped.line.note:
            self._reason(why)
        for draft in mapped.drafts:
            self._count_draft(draft)

    def report(self, mapped: Mapped, problem: str) -> None:
        """A line that was counted as something else could not be stored."""
        self._add(mapped.disposition, -1)
        self._add("reported", 1)
        self._reason(problem)
        self._place(mapped.line_number, problem)

    def _add(self, disposition: Disposition, lines: int) -> None:
        so_far = self.report_so_far
        setattr(so_far, disposition, getattr(so_far, disposition) + lines)

    def _reason(self, reason: str) -> None:
        reasons = self.report_so_far.reasons
        name = reason if reason in reasons or len(reasons) < REASONS else "other"
        reasons[name] = reasons.get(name, 0) + 1

    def _place(self, line: int, reason: str) -> None:
        if len(self.report_so_far.places) < PLACES:
            self.report_so_far.places.append(f"line {line}: {reason}")

    def _count_draft(self, draft: Draft) -> None:
        so_far, data = self.report_so_far, draft.data
        if data.get("again") is True:
            return
        if draft.type == "assistant_message":
            so_far.messages += "content" in data and data.get("part") is not True
            so_far.calls += len(data.get("tool_calls", ()))
            so_far.runs += data.get("goes_on") is True
        elif draft.type == "user_message":
            so_far.messages += 1
        elif draft.type == "run_started":
            so_far.runs += 1
            so_far.messages += data["request"] is not None
        elif draft.type == "tool_result":
            so_far.results += 1
        reported: Any = data.get("usage")
        if reported:
            so_far.usage = usage.plus(so_far.usage, usage.from_data(reported))
