"""Imports of other tools' session files beside merely decoding the same lines: how fast, in turns.

Decoding is msgspec's, the fastest there is for Python, and the standard library's json; both throw
away what they decoded. An import also masks secrets, maps lines to events, writes and syncs them,
and folds them into a state. The floor is what any importer in Python does at least: it decodes a
line, encodes one event with the line beside it as it is, checksums and writes that, in one loop.
"""

from __future__ import annotations

import itertools
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import foreign, measure
from benchmarks.findings import TINY, Findings, Sizes, Table, times
from durasess.interop import apart
from durasess.interop.importing import import_file
from durasess.store.store import Store

DECODERS: dict[str, Callable[[bytes], Any]] = {
    "msgspec": msgspec.json.Decoder().decode,
    "json": json.loads,
}
FLOOR = "decode, embed, checksum, write"
IMPORT = "durasess import"
ALONE = "durasess import, one process"
ROUNDS_MOST = 5


def measured(directory: Path, sizes: Sizes) -> Findings:
    """The rate of each format; the figures are the slowest format's to each decoder."""
    found = Findings()
    shares: dict[str, list[float]] = {name: [] for name in DECODERS}
    rows = []
    for form in foreign.FORMS:
        path = directory / f"{form}.jsonl"
        size = foreign.write(path, form, sizes.foreign_bytes)
        seconds = _seconds(path, directory, rounds=min(sizes.rounds, ROUNDS_MOST))
        path.unlink()
        for name, shared in shares.items():
            shared.append(seconds[name] / seconds[IMPORT])
        rows += [
            (f"{form}: {name}", f"{size / taken / 1e6:,.0f}", times(seconds["msgspec"], taken))
            for name, taken in seconds.items()
        ]
    found.tables.append(
        Table(
            "Other tools' session files, decoded and imported",
            "MB a second, line by line. Files from 20 MiB on are read by a process of their own.",
            ("", "MB/s", "to msgspec"),
            rows,
        )
    )
    found.figures = {f"importing_{name}": min(shared) for name, shared in shares.items()}
    return found


def _seconds(path: Path, directory: Path, *, rounds: int) -> dict[str, float]:
    count = itertools.count()
    contenders: dict[str, Callable[[], object]] = {
        name: lambda decode=decode: _decode(path, decode) for name, decode in DECODERS.items()
    }
    contenders[FLOOR] = lambda: _floor(path, directory / f"floor-{next(count)}")
    contenders[IMPORT] = lambda: _import(path, directory / f"store-{next(count)}")
    contenders[ALONE] = lambda: _alone(path, directory / f"store-{next(count)}")
    return measure.interleaved(contenders, rounds=rounds)


def _decode(path: Path, decode: Callable[[bytes], Any]) -> None:
    with path.open("rb") as file:
        for line in file:
            decode(line)


def _floor(path: Path, log: Path) -> None:
    decode, encode = DECODERS["msgspec"], msgspec.json.Encoder().encode
    crc = 0
    with path.open("rb") as file, log.open("wb") as out:
        for number, line in enumerate(file, 1):
            item = decode(line)
            beside = [{"line": number, "item": msgspec.Raw(line[:-1])}]
            event = {"seq": number, "type": item["type"], "at": item.get("timestamp")}
            body = encode({**event, "foreign": beside})
            crc = zlib.crc32(body, crc)
            out.write(b'%s,"crc":"%08x"}\n' % (body[:-1], crc))
    log.unlink()


def _alone(path: Path, store: Path) -> None:
    large, apart.LARGE = apart.LARGE, 1 << 62
    try:
        _import(path, store)
    finally:
        apart.LARGE = large


def _import(path: Path, store: Path) -> None:
    report = import_file(Store(store), str(path))
    assert report.lines and report.is_whole, report
    shutil.rmtree(store)


def test_imports_are_measured_and_lose_nothing(tmp_path: Path) -> None:
    figures = measured(tmp_path, TINY).figures
    assert all(figures[f"importing_{name}"] > 0 for name in DECODERS)


def test_made_files_are_sessions_whose_every_call_has_its_result(tmp_path: Path) -> None:
    for form in foreign.FORMS:
        path = tmp_path / f"{form}.jsonl"
        size = foreign.write(path, form, 200_000)
        report = import_file(Store(tmp_path / "store"), str(path))
        assert (report.format, report.bytes, report.uncertain) == (form, size - 1, 0)
        assert report.calls == report.results > 20
        assert report.runs > 1 and report.calls / 3 < report.messages < report.calls
