"""A soak goes on where it was, whatever ended it; it finds what is planted, and says so in the
ledger and by its exit code."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from durasess.engine import codec, settle, torn
from durasess.engine.scan import Scan
from tests.support.scan_memory import remembered_scans
from tools import soak, soak_crash

HEAD = "| day | method | seeds | runs | found | time |\n|---|---|---|---:|---:|---:|\n"


class Soaks:
    """Soaks of a method that is over after so many seeds, with their ledger."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ledger = directory / "ledger.md"
        self.ledger.write_text(HEAD)
        self.kept = directory / "kept"
        self.seen: list[int] = []
        self._monkeypatch = monkeypatch

    def run(self, method: Callable[[int], Any], *more: str) -> int:
        def seed(number: int) -> Any:
            found = method(number)
            self.seen.append(number)
            return found

        self._monkeypatch.setitem(soak.METHODS, "calls", seed)
        where = ["--ledger", str(self.ledger), "--kept", str(self.kept)]
        return soak.main(["calls", "--minutes", "0.5", *where, *more])

    def rows(self) -> list[list[str]]:
        """Method, seeds, runs and findings of each row."""
        lines = self.ledger.read_text()[len(HEAD) :].splitlines()
        return [[cell.strip() for cell in line.split("|")[2:6]] for line in lines]


@pytest.fixture
def soaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Soaks:
    return Soaks(tmp_path, monkeypatch)


def until(last: int, end: type[BaseException] | None = None) -> Callable[[int], Any]:
    """Ten runs a seed up to this one; then no more, or what ends the process."""

    def method(seed: int) -> Any:
        if seed <= last:
            return soak_crash.Found(10, [])
        if end is not None:
            raise end
        return None

    return method


def test_soaks_add_up_behind_the_last_seed_of_the_ledger(soaks: Soaks) -> None:
    assert soaks.run(until(3)) == 0
    assert soaks.run(until(5)) == 0
    assert soaks.seen == [1, 2, 3, 4, 4, 5, 6]
    assert soaks.rows() == [["calls", "1–3", "30", "0"], ["calls", "4–5", "20", "0"]]


def test_soak_that_is_stopped_is_recorded_as_far_as_it_came(soaks: Soaks) -> None:
    assert soaks.run(until(2, KeyboardInterrupt)) == 0
    assert soaks.rows() == [["calls", "1–2", "20", "0"]]


def test_soak_that_is_killed_goes_on_where_it_was(soaks: Soaks) -> None:
    with pytest.raises(SystemExit):
        soaks.run(until(2, SystemExit))
    assert soaks.rows() == []
    assert soaks.run(until(4)) == 0
    assert soaks.seen == [1, 2, 3, 4, 5]
    assert soaks.rows() == [["calls", "1–4", "40", "0"]]


def test_parts_take_turns_and_have_rows_of_their_own(soaks: Soaks) -> None:
    soaks.run(until(6), "--part", "2/2")
    soaks.run(until(5), "--part", "1/2")
    assert soaks.seen == [2, 4, 6, 8, 1, 3, 5, 7]
    assert [row[:2] for row in soaks.rows()] == [
        ["calls (2 of 2)", "1–3"],
        ["calls (1 of 2)", "1–3"],
    ]


def test_what_is_found_is_printed_counted_and_told_by_the_exit_code(
    soaks: Soaks, capsys: pytest.CaptureFixture[str]
) -> None:
    def method(seed: int) -> Any:
        return soak_crash.Found(10, ["it is wrong"] * (seed == 2)) if seed < 4 else None

    assert soaks.run(method) == 1
    assert "seed 2: it is wrong" in capsys.readouterr().out
    assert soaks.rows() == [["calls", "1–3", "30", "1"]]


def test_keys_of_all_soaks_are_counted_once(soaks: Soaks) -> None:
    def method(seed: int) -> Any:
        keys = array("Q", [1, seed, 1 << 63]) if seed < 4 else None
        return soak_crash.Found(3, [], keys) if keys else None

    assert soaks.run(method) == 0
    assert soaks.rows()[0][2] == "9; with all before it 4 distinct"


# What the soaks look for


def of_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans that are explored in a moment."""
    monkeypatch.setattr(soak_crash, "LENGTH", 2)
    monkeypatch.setattr(soak_crash.explorer, "THOROUGH", soak_crash.explorer.QUICK)


def torn_tails_are_damage() -> Any:
    return mock.patch.object(torn, "classify_end", lambda *what, **more: None)


def torn_bytes_are_thrown_away() -> Any:
    return mock.patch.object(settle, "_keep_torn", lambda *arguments: [])


@pytest.mark.parametrize("bug", [torn_tails_are_damage, torn_bytes_are_thrown_away])
def test_soak_of_states_finds_a_planted_bug(
    bug: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_two_steps(monkeypatch)
    sound = soak_crash.states(1)
    assert sound is not None and sound.problems == []
    assert sound.keys is not None and len(sound.keys) > 100
    with bug():
        weak = soak_crash.states(1)
    assert weak is not None and weak.problems
    assert "python -m tests.support.explorer --plan" in weak.problems[0]


def test_soak_of_states_has_no_more_seeds_than_plans() -> None:
    assert soak_crash.states(len(soak_crash.plans()) + 1) is None


def test_plans_of_two_seeds_share_no_beginning_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the plan before had is passed over, so that parts do not explore it again."""
    of_two_steps(monkeypatch)
    first, second = soak_crash.states(1), soak_crash.states(2)
    assert first is not None and second is not None
    assert len(set(first.keys) & set(second.keys)) < len(second.keys) / 4


def test_soak_of_mutations_finds_a_missing_check(monkeypatch: pytest.MonkeyPatch) -> None:
    every = soak_crash.mutations.mutations

    def some(form: Any, *, bit_stride: Any) -> list[Any]:
        found = [one for one in every(form, bit_stride=lambda name: 5) if one.kind == "bit"]
        return [one for one in found if one.name == form.newest][:400]

    monkeypatch.setattr(soak_crash.mutations, "mutations", some)
    sound = soak_crash.mutated(1)
    assert (sound.runs, sound.problems) == (400, [])
    monkeypatch.setattr(codec, "check", lambda line, chain: codec.stored_crc(line))
    monkeypatch.setattr(Scan, "_check_seal", lambda self, seal: None)
    assert len(soak_crash.mutated(1).problems) > 10


def test_remembered_scans_say_what_scans_say() -> None:
    """The same states with and without the memory, and it was used."""
    explorer = soak_crash.explorer
    plain = explorer.Explorer()
    plan = explorer.parse_plan("append,many3,kill,append")
    plain.explore(plan)
    with remembered_scans() as memory:
        quick = explorer.Explorer()
        quick.explore(plan)
    assert memory.hits > 100
    assert str(quick.totals) == str(plain.totals)
    assert json.dumps(quick.totals.by_plan) == json.dumps(plain.totals.by_plan)
