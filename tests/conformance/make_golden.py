"""Writes tests/conformance/golden/v1: one directory for each case, its session and expected.json.

    python -m tests.conformance.make_golden

What is expected is put down here by hand or taken from the bytes as they were made, not from a
reader. The bytes of version 1 are fixed: a run must not change a file that is committed.
"""

import inspect
import json
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.conformance.session_builder import NEWEST, PREVIOUS, SessionBuilder

GOLDEN = Path(__file__).parent / "golden" / "v1"
Expected = dict[str, Any]

AGENT_DATA = {
    "text": 'a "quoted" line\nand \u2028 more, ü, \U0001f600',
    "half": "\ud800",
    "big": 10**30,
    "small": -1e-7,
    "nested": {"type": "note", "data": [], "crc": "00000000"},
    "none": None,
}


def expected(session: SessionBuilder, lines: Iterable[bytes], **more: Any) -> Expected:
    """A clean session whose proven events are these lines; `more` replaces what is not so."""
    events = [json.loads(line) for line in lines]
    result = {
        "session_id": session.session_id,
        "events": events,
        "first_seq": events[0]["seq"],
        "last_seq": events[-1]["seq"],
        "snapshots": {NEWEST: "absent", PREVIOUS: "absent"},
        "state_seq": 0,
        "state": None,
        "recovery": {"first_segment": 1, "replayed": [event["seq"] for event in events]},
        "torn": None,
        "floor_reached": True,
        "anchor_reached": True,
        "damage": [],
    }
    assert result.keys() >= more.keys()
    return result | more


def clean(session: SessionBuilder) -> Expected:
    """Two sealed segments, two snapshots, closed."""
    session.begin_segment()
    lines = [session.event(AGENT_DATA, kind="note", event_id="e1", run_id="r1", call_id="c1")]
    lines += session.batch(3)
    session.seal()
    session.snapshot({"count": 4, "names": ["é", "\ud800"]}, PREVIOUS)
    session.begin_segment()
    lines += [session.event([], event_id="e5"), session.event(0), *session.batch(2)]
    session.seal()
    session.snapshot({"count": 8, "big": 10**30})
    session.meta(summary={"seq": 8, "data": {"title": "t"}})
    session.anchor()
    return expected(
        session,
        lines,
        snapshots={NEWEST: "valid", PREVIOUS: "valid"},
        state_seq=8,
        state={"count": 8, "big": 10**30},
        recovery={"first_segment": 3, "replayed": []},
    )


def torn_batch(session: SessionBuilder) -> Expected:
    """The process was killed inside a write of three lines: one is whole, one is not."""
    session.begin_segment()
    lines = [session.event(), *session.batch(2)]
    session.meta(active=1, floor={"segment": 1, "seq": 0, "crc": "00000000"})
    session.anchor()
    end = session.size
    torn = session.batch(3)
    size = len(torn[0]) + len(torn[1]) // 2
    session.segments[1] = session.segments[1][: end + size]
    tail = {"file": "events_0001.jsonl", "offset": end, "size": size, "kind": 2}
    return expected(session, lines, torn=tail)


def torn_hole(session: SessionBuilder) -> Expected:
    """Power was cut inside a write of 30 lines: one sector and the end never reached the disk."""
    session.begin_segment()
    lines = session.batch(2)
    session.seal()
    session.begin_segment()
    lines += [session.event()]
    session.meta()
    end = session.size
    session.batch(30)
    content = session.segments[2]
    content = content[:1024] + bytes(512) + content[1536:]
    session.segments[2] = content[:-70] + bytes(70)
    tail = {"file": "events_0002.jsonl", "offset": end, "size": len(content) - end, "kind": 3}
    session.files["lock"] = b""
    return expected(session, lines, torn=tail, anchor_reached=None)


def pruned(session: SessionBuilder) -> Expected:
    """Segment 1 was pruned, segment 2 is compressed, segment 3 is active."""
    session.begin_segment()
    session.batch(2)
    session.seal()
    session.snapshot({"count": 2}, PREVIOUS)
    session.begin_segment()
    lines = [session.event(event_id="e3"), *session.batch(2)]
    session.seal()
    session.snapshot({"count": 5})
    session.begin_segment()
    lines += session.batch(3)
    session.meta()
    session.anchor()
    del session.segments[1]
    session.compress(2)
    return expected(
        session,
        lines,
        snapshots={NEWEST: "valid", PREVIOUS: "valid"},
        state_seq=5,
        state={"count": 5},
        recovery={"first_segment": 3, "replayed": [6, 7, 8]},
    )


def damaged_middle(session: SessionBuilder) -> Expected:
    """One digit of an acknowledged event was changed; later events are still there."""
    session.begin_segment()
    lines = [session.event(), *session.batch(2)]
    end = session.size
    changed = session.event({"amount": 100})
    session.event()
    session.meta()
    session.anchor()
    content = session.segments[1]
    session.segments[1] = content.replace(changed, changed.replace(b"100", b"900"))
    places = [["events_0001.jsonl", end], ["meta.json", 0], ["lock", 0]]
    return expected(session, lines, floor_reached=False, anchor_reached=False, damage=places)


def filler(session: SessionBuilder) -> Expected:
    """The process was killed between two writes; the file of segment 2 is longer than its lines."""
    session.begin_segment()
    lines = [session.event(), *session.batch(2)]
    session.seal()
    session.begin_segment()
    lines += [*session.batch(3), session.event(event_id="e7")]
    session.meta()
    session.anchor()
    session.segments[2] = session.segments[2].ljust(4096, b"\t")
    return expected(session, lines)


def filler_seal(session: SessionBuilder) -> Expected:
    """The process was killed when it had written the seal and not yet cut the filler off."""
    session.begin_segment()
    lines = [session.event(), *session.batch(2)]
    session.meta(floor={"segment": 0, "seq": 0, "crc": "00000000"})
    session.anchor()
    session.seal()
    session.segments[1] = session.segments[1].ljust(4096, b"\t")
    return expected(session, lines)


def torn_filler(session: SessionBuilder) -> Expected:
    """Power was cut inside a write into the filler: a sector before its end is still filler, one
    behind the old end of the file is zeros, and of the last lines nothing reached the disk."""
    session.begin_segment()
    lines = [session.event(), *session.batch(2)]
    session.meta(floor={"segment": 0, "seq": 0, "crc": "00000000"})
    session.anchor()
    end = session.size
    session.batch(40)
    content = session.segments[1]
    content = content[:1024] + b"\t" * 512 + content[1536:2560] + bytes(512) + content[3072:]
    content = content[: len(content) // 512 * 512]
    session.segments[1] = content.ljust(8192, b"\t")
    tail = {"file": "events_0001.jsonl", "offset": end, "size": len(content) - end, "kind": 3}
    return expected(session, lines, torn=tail)


CASES: list[Callable[[SessionBuilder], Expected]] = [
    clean,
    torn_batch,
    torn_hole,
    pruned,
    damaged_middle,
    filler,
    filler_seal,
    torn_filler,
]


def make(target: Path) -> None:
    """Writes every case into `target`."""
    for case in CASES:
        name = case.__name__.replace("_", "-")
        session = SessionBuilder(f"s-{name}")
        result = case(session)
        shutil.rmtree(target / name, ignore_errors=True)
        session.write(target / name)
        # Python 3.13 cuts the indentation off by itself, those before it do not.
        about = inspect.cleandoc(case.__doc__ or "")
        text = json.dumps({"about": about} | result, indent=1) + "\n"
        (target / name / "expected.json").write_text(text, encoding="ascii", newline="\n")


if __name__ == "__main__":
    make(GOLDEN)
    sys.stdout.write(f"{GOLDEN}: {len(CASES)} cases\n")
