"""The committed sessions of format version 1, read by the reference reader.

Each case is `golden/v1/NAME/` with one session directory and `expected.json`: the proven events,
what the snapshots hold, the torn tail and the places of damage as pairs of file and offset.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conformance.make_golden import GOLDEN, make
from tests.conformance.reference_reader import ABSENT, VALID, Reading, read_session


class GoldenCase(NamedTuple):
    name: str
    directory: Path
    """The session. Read only: copy it (with its name, which is the session id) to open it."""
    expected: dict[str, Any]


def golden_cases() -> list[GoldenCase]:
    """All cases, for every reader of the format."""
    cases = []
    for path in sorted(GOLDEN.iterdir()):
        expected = json.loads((path / "expected.json").read_text(encoding="ascii"))
        cases.append(GoldenCase(path.name, path / expected["session_id"], expected))
    return cases


def outcome(reading: Reading) -> dict[str, Any]:
    """A reading in the shape of expected.json."""
    assert reading.recovery is not None
    torn = reading.torn_tail
    verdicts = {
        name: verdict if verdict in (VALID, ABSENT) else "invalid"
        for name, verdict in reading.snapshots.items()
    }
    return {
        "session_id": reading.session_id,
        "events": reading.events,
        "first_seq": reading.first_seq,
        "last_seq": reading.last_seq,
        "snapshots": verdicts,
        "state_seq": reading.state_seq,
        "state": reading.state_of_snapshot,
        "recovery": {
            "first_segment": reading.recovery.first_segment,
            "replayed": [event["seq"] for event in reading.recovery.events],
        },
        "torn": torn
        and {"file": torn.file, "offset": torn.offset, "size": torn.size, "kind": torn.kind},
        "floor_reached": reading.floor_reached,
        "anchor_reached": reading.anchor_reached,
        "damage": [place(text) for text in reading.damage],
    }


def place(damage: str) -> list[Any]:
    file, offset = damage.split(": ")[0].rsplit(":", 1)
    return [file, int(offset)]


@pytest.mark.parametrize("case", golden_cases(), ids=lambda case: case.name)
def test_reference_reader_finds_what_is_expected(case: GoldenCase) -> None:
    expected = {name: value for name, value in case.expected.items() if name != "about"}
    assert outcome(read_session(case.directory)) == expected


def test_no_case_is_missing() -> None:
    assert [case.name for case in golden_cases()] == [
        "clean",
        "damaged-middle",
        "filler",
        "filler-seal",
        "pruned",
        "torn-batch",
        "torn-filler",
        "torn-hole",
    ]


def test_generator_makes_the_committed_bytes(tmp_path: Path) -> None:
    make(tmp_path)
    assert files_of(tmp_path) == files_of(GOLDEN)


def files_of(root: Path) -> dict[str, bytes]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
