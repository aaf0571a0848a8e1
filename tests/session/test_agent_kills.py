"""A harness with tools and a scripted model is killed everywhere and comes to the same end (P9)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from durasess import SessionNotFoundError
from durasess.cli.drill_agent import AgentDrill
from durasess.cli.drill_agent_world import World
from durasess.session.leftovers import tmp_path as tmp_path_of
from tests.support.agents import Agent

KILLS = int(os.environ.get("DURASESS_AGENT_KILLS", "20"))

Begin = Callable[[str], Agent]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Tasks, each in a world of its own."""
    return lambda name: Agent(tmp_path / name, monkeypatch)


@pytest.fixture
def reference(begin: Begin) -> Agent:
    """The task as it is done when nobody disturbs it."""
    agent = begin("reference")
    agent.finish()
    return agent


def last_seq(agent: Agent) -> int:
    """Of what is on disk; looking changes nothing."""
    try:
        with agent.open(mode="read") as session:
            return session.last_seq
    except SessionNotFoundError:
        return 0


def lived_up_to(agent: Agent, moment: int) -> None:
    """Die at this moment of the whole task, counted over its lives."""
    ended = agent.live(moment)
    if ended == "waiting":
        agent.approve()
        agent.live(moment - agent.moments)


def test_undisturbed_task_is_as_its_log_says(reference: Agent) -> None:
    assert reference.problems(reference.world) == []
    assert reference.world.run_tests() == "ok"
    assert len(reference.world.sent()) == 2 and len(reference.world.registered()) == 1
    assert all(one.told is None for one in reference.asked)


def test_task_killed_at_any_boundary_ends_as_undisturbed(begin: Begin, reference: Agent) -> None:
    problems, seen = {}, set()
    for moment in range(1, reference.moments + 1):
        agent = begin(f"m{moment}")
        lived_up_to(agent, moment)
        seen.add(last_seq(agent))
        agent.finish()
        problems[moment] = agent.problems(reference.world)
    assert {moment: found for moment, found in problems.items() if found} == {}
    # It was created in one batch, and once it waits for somebody it does not live.
    assert seen | {reference.waited_at} >= {0, *range(3, last_seq(reference))}


@pytest.mark.parametrize("again", [1, 2, 3, 4, 6])
def test_task_killed_again_while_it_resumes_ends_as_undisturbed(
    begin: Begin, reference: Agent, again: int
) -> None:
    problems = {}
    for moment in range(again, reference.moments + 1, 9):
        agent = begin(f"m{moment}")
        lived_up_to(agent, moment)
        agent.live(again)
        agent.live(again + 1)
        agent.finish()
        problems[moment] = agent.problems(reference.world)
    assert {moment: found for moment, found in problems.items() if found} == {}


def test_session_opened_again_after_a_kill_stays_as_it_is(begin: Begin, reference: Agent) -> None:
    grown = []
    for moment in range(5, reference.moments + 1, 6):
        agent = begin(f"m{moment}")
        lived_up_to(agent, moment)
        seqs = []
        for _ in range(2):
            with agent.open() as session:
                seqs.append(session.last_seq)
        grown.append(seqs[1] - seqs[0])
    assert not any(grown)


def test_file_left_by_a_write_that_was_cut_off_goes(begin: Begin, reference: Agent) -> None:
    found = 0
    for moment in range(1, reference.moments):
        agent = begin(f"m{moment}")
        lived_up_to(agent, moment)
        if not last_seq(agent):
            continue
        with agent.open(mode="read") as session:
            calls = session.call_states
        if any(call.status == "running" and call.writes for call in calls):
            Path(tmp_path_of(f"{agent.world.project}/prices.py")).write_bytes(b"half")
            agent.finish()
            assert agent.problems(reference.world) == []
            found += 1
    assert found >= 4, "two writes, each before and after its effect"


def test_task_killed_by_the_system_at_any_instant_ends_as_undisturbed(tmp_path: Path) -> None:
    result = AgentDrill(str(tmp_path / "drill"), Random(11)).run(KILLS, lambda amount=1: None)
    assert result.problems == []
    assert result.kills == KILLS and result.findings.repeated == 0
    assert result.findings.with_recovery > 0


# The checks find what is wrong.


def test_line_that_was_sent_twice_is_found(reference: Agent, begin: Begin) -> None:
    agent = begin("twice")
    agent.finish()
    agent.world.send(reference.world.sent()[0])
    assert "is there 2 times" in agent.problems(reference.world)[0]


def test_line_that_is_missing_is_found(reference: Agent, tmp_path: Path, begin: Begin) -> None:
    agent = begin("less")
    agent.finish()
    (tmp_path / "less/outbox").write_text(reference.world.sent()[0] + "\n")
    assert agent.problems(reference.world) == ["the effect 'published 1.0.1' is missing"]


def test_file_that_is_left_over_is_found(reference: Agent, tmp_path: Path, begin: Begin) -> None:
    agent = begin("left")
    agent.finish()
    (tmp_path / "left/project/.x.tmp").write_bytes(b"")
    assert "the file .x.tmp of the project" in agent.problems(reference.world)[0]


def test_context_without_its_recovery_block_is_found(begin: Begin, reference: Agent) -> None:
    agent = begin("silent")
    agent.live(30)
    agent.finish()
    found = next(index for index, one in enumerate(agent.asked) if one.told is not None)
    told = agent.asked[found]
    agent.asked[found] = type(told)(told.seq, None)
    assert agent.problems(reference.world) == [
        f"the context at seq {told.seq} has no recovery block"
    ]


def test_recovery_block_that_leaves_a_call_out_is_found(begin: Begin, reference: Agent) -> None:
    for stop in range(20, 60):
        # A life that ends while a call is open.
        agent = begin(f"less{stop}")
        agent.live(stop)
        agent.finish()
        if any(one.told for one in agent.asked):
            break
    found = next(index for index, one in enumerate(agent.asked) if one.told)
    told = agent.asked[found]
    agent.asked[found] = type(told)(told.seq, [])
    assert "tells of nothing; open or recovered were" in agent.problems(reference.world)[0]


def test_recovery_block_where_nothing_was_cut_off_is_found(reference: Agent) -> None:
    first = reference.asked[0]
    reference.asked[0] = type(first)(first.seq, [])
    assert "has a recovery block" in reference.problems(World(reference.world.folder))[0]
