"""Every file call of a plan fails: once, for ever, in pairs, with every error a disk has; writes
are short, syncs lose their pages (P1, P2, P4; R9 to R14).

What is allowed to happen then is in tests/support/fault_lab.py and fault_sessions.py. The suite
takes a sample; `DURASESS_TIER=full` tries every call with every error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from durasess.engine import publishing
from durasess.engine.log import Log
from durasess.session import recovering
from tests.support import fault_lab, fault_sessions
from tests.support.fault_lab import Broken
from tests.support.fault_plans import CODES, Faults, pairs, parse, singles, written
from tests.support.planting import planted
from tests.support.tiers import FULL, sampled

SEED = 20261129

PLANS = (
    "append many kill append close",
    "small append many append rotate many close append",
    "filled append many loose append kill append close",
    "often append append many append kill append snapshot prune append close",
    "append blob append snapshot blob prune close read append",
    "append many repair append close",
    "small filled append many loose flush rotate append close append kill read append",
    "shared append other append kill append other snapshot other close append",
    "shared often append other many append loose append other rotate append close",
)

Run = Callable[[Faults], Any]


@pytest.fixture(autouse=True)
def no_messages() -> Iterator[None]:
    """Thousands of failures are logged otherwise."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def broken(run: Run, faults: Iterable[Faults]) -> Iterator[str]:
    """What broke a promise, each with what shows it again."""
    for one in faults:
        try:
            run(one)
        except Broken as problem:
            yield f'"{written(one)}": {problem}'


def those_of(calls: list[tuple[str, str]]) -> Iterator[Faults]:
    yield from singles(calls, codes=len(CODES) if FULL else 1, stride=sampled(2))
    yield from pairs(calls, count=300 if FULL else 60, seed=SEED)


@pytest.mark.parametrize("plan", PLANS)
def test_each_call_that_fails_breaks_no_promise(plan: str) -> None:
    calls = fault_lab.Lab(plan).calls()
    assert len(calls) > 100
    assert list(broken(lambda faults: fault_lab.Lab(plan).run(faults), those_of(calls))) == []


@pytest.mark.parametrize("mode", ["own", "shared"])
@pytest.mark.parametrize("scenario", fault_sessions.SCENARIOS, ids=lambda one: one.__name__)
def test_each_call_that_fails_leaves_a_session_that_says_what_is_true(
    scenario: Callable[[Any], None], mode: str
) -> None:
    def run(faults: Faults) -> None:
        fault_sessions.Lab(scenario, mode=mode).run(faults)

    calls = fault_sessions.Lab(scenario, mode=mode).calls()
    assert len(calls) > 100
    assert list(broken(run, those_of(calls))) == []


# -- found by this --------------------------------------------------------------------------


def test_close_that_fails_while_an_open_is_refused_does_not_hide_the_refusal() -> None:
    """From the first call of the recovery on, everything fails with EROFS, the close too."""
    fault_lab.Lab("append many kill append close").run(parse("17:EROFS:sticky"))


def test_failure_behind_the_sync_of_a_shared_turn_calls_the_batch_unknown() -> None:
    """`owner` cannot be looked at when a snapshot is due; the caller was not answered yet."""
    plan = "shared often append other many append loose append other rotate append close"
    fault_lab.Lab(plan).run(parse("159:EACCES 250:EINTR"))


def test_unlock_that_fails_ends_the_handle_that_shares() -> None:
    plan = "shared append append close"
    nth = [kind for kind, _ in fault_lab.Lab(plan).calls()].index("unlock", 60) + 1
    lab = fault_lab.Lab(plan).run(parse(f"{nth}:EIO"))
    assert "append: SessionFailedError" in lab.report


# -- the oracle has teeth -------------------------------------------------------------------


def not_cut_back() -> Any:
    return planted(Log, "_cut_back", lambda self, error, after: None)


def sync_taken_for_done() -> Any:
    original = Log._fail

    def fail(self: Log, error: BaseException, path: str, what: str, after: Any) -> None:
        if "not synced" not in what:
            original(self, error, path, what, after)

    return planted(Log, "_fail", fail)


def descriptors_kept() -> Any:
    return planted(publishing, "give_back", lambda disk, *descriptors: None)


@pytest.mark.parametrize("bug", [not_cut_back, sync_taken_for_done, descriptors_kept])
def test_planted_bug_of_the_engine_is_found(bug: Callable[[], Any]) -> None:
    plan = "append many kill append close"
    faults = list(singles(fault_lab.Lab(plan).calls()))
    with bug():
        assert any(broken(lambda one: fault_lab.Lab(plan).run(one), faults))


def killed_in_a_call(lab: fault_sessions.Lab) -> None:
    run = lab.open().run("go").start()
    (key,) = lab.ask(run, "sure")
    run.tool(key).start()
    lab.began.add(key)
    lab.kill()


def test_planted_bug_of_recovery_is_found() -> None:
    """It takes what nobody knows for what was never started."""
    fault_sessions.Lab(killed_in_a_call).run()
    lab = fault_sessions.Lab(killed_in_a_call)
    with planted(recovering, "_verified", lambda call, around: ("not_applied", None, None)):
        assert list(broken(lab.run, [[]]))
