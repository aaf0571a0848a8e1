"""Mutated bytes for every reader: it reads them or refuses with a documented error (P3).

The suite takes a small fixed sample of what `python -m tools.fuzz_readers` does for as long as it
is let; docs/ledger.md has the totals.
"""

from __future__ import annotations

import json
import random
import re
from unittest import mock

import pytest

from durasess.engine import codec, sealed
from durasess.session import selfcheck
from tests.support.tiers import FULL
from tools import fuzz_readers, fuzz_sealed, fuzz_sessions

EXECUTIONS = 20_000 if FULL else 200


@pytest.mark.parametrize("target", fuzz_readers.TARGETS)
def test_mutated_file_is_read_or_refused_with_a_documented_error(target: str) -> None:
    totals = fuzz_readers.run(target, seed=1, executions=EXECUTIONS)
    assert totals.executions == EXECUTIONS
    assert list(totals.failures) == []


def test_most_mutated_segments_are_refused() -> None:
    """Else the fuzzer would not come to what it is for."""
    totals = fuzz_readers.run("segment", seed=2, executions=100)
    assert totals.refused > 50


def test_checksums_are_made_to_fit() -> None:
    [seed, *_] = fuzz_readers.corpus("segment").seeds
    sound = seed.rstrip(b"\t")
    wrong = re.sub(rb'"crc":"[0-9a-f]{8}"', b'"crc":"00000000"', sound)
    assert wrong != sound == fuzz_readers.with_checksums(wrong)


@pytest.mark.parametrize("target", fuzz_sealed.TARGETS)
def test_sound_seal_is_read_and_one_that_was_made_to_fit_too(target: str) -> None:
    """Else the fuzzer would not come behind the hash."""
    found = fuzz_readers.corpus(target)
    read = fuzz_readers.reader(target, found)
    assert not any(read(seed) for seed in found.seeds)
    totals = fuzz_readers.run(target, seed=3, executions=200)
    assert 100 < totals.refused < 198


def test_seal_is_made_to_fit() -> None:
    [*_, seed] = fuzz_readers.corpus("sealed").seeds
    wrong = re.sub(rb'"(crc|blake2b)":"[0-9a-f]*"', rb'"\1":"00000000"', seed)
    assert wrong != seed == fuzz_sealed.sealed(wrong, fuzz_readers.with_checksums)


def test_undocumented_error_of_the_proof_by_hash_is_a_failure() -> None:
    found = fuzz_readers.corpus("compressed")
    read = fuzz_readers.reader("compressed", found)
    with (
        mock.patch.object(sealed, "whole", side_effect=KeyError("planted")),
        pytest.raises(KeyError, match="planted"),
    ):
        read(found.seeds[-1])


def test_undocumented_error_is_a_failure() -> None:
    found = fuzz_readers.corpus("segment")
    read = fuzz_readers.reader("segment", found)
    with (
        mock.patch.object(codec, "check", side_effect=KeyError("planted")),
        pytest.raises(KeyError, match="planted"),
    ):
        read(found.seeds[0])


@pytest.mark.parametrize("target", fuzz_sessions.TARGETS)
def test_undocumented_error_of_the_self_check_is_a_failure(target: str) -> None:
    found = fuzz_readers.corpus(target)
    read = fuzz_readers.reader(target, found)
    with (
        mock.patch.object(selfcheck, "findings", side_effect=KeyError("planted")),
        pytest.raises(KeyError, match="planted"),
    ):
        read(found.seeds[-1])


@pytest.mark.parametrize("target", fuzz_sessions.TARGETS)
def test_sound_session_is_read_and_some_others_too(target: str) -> None:
    """Else the fuzzer would not come to what is behind the engine."""
    found = fuzz_readers.corpus(target)
    read = fuzz_readers.reader(target, found)
    assert not any(read(seed) for seed in found.seeds)
    totals = fuzz_readers.run(target, seed=3, executions=100)
    assert 20 < totals.refused < 80


@pytest.mark.parametrize("target", fuzz_sessions.TARGETS)
def test_other_values_leave_json(target: str) -> None:
    chance = random.Random(1)
    for seed in fuzz_readers.corpus(target).seeds:
        for _ in range(50):
            data = fuzz_sessions.changed(seed, chance)
            assert data.count(b"\n") == seed.count(b"\n")
            for line in data.splitlines():
                json.loads(line)


def test_failure_of_a_reader_is_counted_with_what_shows_it_again() -> None:
    def read(data: bytes) -> bool:
        raise KeyError("planted")

    with mock.patch.object(fuzz_readers, "reader", lambda target, found: read):
        totals = fuzz_readers.run("segment", seed=1, executions=3)
    assert [failure.split(": ")[0] for failure in totals.failures] == ["KeyError('planted')"] * 3
