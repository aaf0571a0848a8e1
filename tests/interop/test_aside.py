"""What is remembered of each line of a long file: as in a list and a dict, in constant memory."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durasess.engine.files import RealFiles
from durasess.engine.scratch import Scratch
from durasess.interop import aside, claude_lines, foreign_file, recording
from durasess.interop.aside import Ids, Numbers
from durasess.interop.importing import import_file
from durasess.store.store import Store
from tests.interop.test_importing import GROWING
from tests.support.foreign import (
    PI_HEADER,
    Imported,
    Lines,
    assert_nothing_lost,
    claude_block,
    claude_result,
    claude_text,
    claude_use,
    claude_user,
    codex_call,
    codex_event,
    codex_message,
    codex_meta,
    codex_output,
    codex_tokens,
    pi_reply,
    pi_result,
    pi_user,
    write,
)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    made = Scratch(RealFiles(), str(tmp_path))
    yield made
    made.close()


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "PAGE", 4)
    monkeypatch.setattr(aside, "_AROUND", 1)
    monkeypatch.setattr(aside, "_BITS", 64)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("seed", range(20))
def test_numbers_are_a_list(scratch: Scratch, seed: int) -> None:
    chance = random.Random(seed)
    numbers, model = Numbers(scratch), list[int]()
    for _ in range(300):
        if not model or chance.random() < 0.6:
            model.append(chance.getrandbits(64))
            numbers.append(model[-1])
        elif chance.random() < 0.9:
            at = chance.randrange(len(model))
            numbers[at] = model[at] = chance.getrandbits(64)
        else:
            length = chance.randrange(len(model) + 1)
            numbers.cut(length)
            del model[length:]
        assert len(numbers) == len(model)
        assert list(numbers) == model


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("seed", range(20))
def test_ids_are_a_dict(scratch: Scratch, seed: int) -> None:
    chance = random.Random(seed)
    known = [chance.getrandbits(64) - (1 << 63) for _ in range(60)] + [0, -1, 1, (1 << 63) - 1]
    ids, model = Ids(scratch), dict[int, int]()
    for _ in range(200):
        one = chance.choice(known)
        model[one] = chance.getrandbits(64)
        ids.put(one, model[one])
        assert all(ids.get(other) == model.get(other) for other in known)


def test_ids_of_many_pages_are_found(scratch: Scratch) -> None:
    ids = Ids(scratch)
    chance = random.Random(1)
    known = [chance.getrandbits(64) - (1 << 63) for _ in range(3 * aside.PAGE)]
    for number, one in enumerate(known):
        ids.put(one, number)
    for number in range(0, len(known), 997):
        assert ids.get(known[number]) == number
    assert all(ids.get(chance.getrandbits(64) - (1 << 63)) is None for _ in range(1000))


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("name", GROWING)
def test_import_is_the_same_when_all_is_set_aside(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path / "store")
    lines = GROWING[name]
    found = Imported(store, write(tmp_path / "f/s.jsonl", lines[:-1]))
    write(tmp_path / "f/s.jsonl", lines)
    found.again()
    assert found.report.conflict == ""
    expected = {number: line for number, line in enumerate(lines, 1)}
    assert found.foreign_lines() == expected
    assert_nothing_lost(Imported(Store(tmp_path / "other"), found.path))


def _pi(count: int) -> Lines:
    lines: Lines = [PI_HEADER]
    tip = None
    for n in range(count):
        lines.append(pi_user(f"u{n}", tip, f"go {n}"))
        lines.append(pi_reply(f"a{n}", f"u{n}", "text", calls=(f"c{n}",)))
        lines.append(pi_result(f"r{n}", f"a{n}", f"c{n}", "output"))
        lines.append(pi_reply(f"b{n}", f"r{n}", "done"))
        tip = f"b{n}"
    return lines


def _codex(count: int) -> Lines:
    lines: Lines = [codex_meta()]
    for n in range(count):
        lines += [codex_event("task_started", turn_id="t"), codex_message("user", f"go {n}")]
        lines += [codex_call(f"c{n}"), codex_output(f"c{n}", "output"), codex_tokens(9 * n, n)]
        lines += [codex_message("assistant", f"done {n}"), codex_event("task_complete")]
    return lines


def _claude(count: int) -> Lines:
    lines: Lines = []
    tip = None
    for n in range(count):
        lines.append(claude_user(f"u{n}", tip, f"go {n}"))
        lines.append(claude_block(f"a{n}", f"u{n}", f"m{n}", claude_text("Looking")))
        lines.append(claude_block(f"b{n}", f"a{n}", f"m{n}", claude_use(f"t{n}")))
        lines.append(claude_result(f"r{n}", f"b{n}", f"t{n}", "output"))
        tip = f"r{n}"
    return lines


@pytest.mark.parametrize("make", [_pi, _codex, _claude])
def test_memory_does_not_grow_with_the_number_of_lines(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside, "PAGE", 128)
    monkeypatch.setattr(aside, "_BITS", 1 << 16)
    monkeypatch.setattr(foreign_file, "CHUNK", 1 << 14)
    monkeypatch.setattr(claude_lines, "_REMEMBERED", 64)
    monkeypatch.setattr(recording, "BATCH_EVENTS", 200)
    held: list[int] = []
    whole = recording.Recording.write

    def write_and_look(self: recording.Recording, position: recording.Position) -> None:
        whole(self, position)
        self._log.flush()
        held.append(tracemalloc.get_traced_memory()[0])

    monkeypatch.setattr(recording.Recording, "write", write_and_look)
    path = write(tmp_path / "s.jsonl", make(2000))
    tracemalloc.start()
    try:
        report = import_file(Store(tmp_path / "store"), str(path))
    finally:
        tracemalloc.stop()
    quarter = len(held) // 4
    early, late = max(held[quarter : 2 * quarter]), max(held[3 * quarter :])
    # Eight bytes for each line would be more.
    assert late - early < 8 * report.lines // 2
