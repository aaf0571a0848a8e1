"""P7: jq reads segments and meta, zstd -d reads snapshots, at every moment."""

import json
import subprocess

import pytest
import zstandard

from durasess.engine import snapshot
from tests.faults.tails import with_and_without_filler
from tests.support.capabilities import needs
from tests.support.sessions import append_bytes, lines_of, open_inline, open_session

VALUES = [1, "text é \u2028 \ud800", {"a": [None, True, 1.5]}, 2**70, "x" * 2000]


def moments(path, values=VALUES, **options):
    """A session at every moment of a short life, snapshots and restarts included."""
    engine = open_inline(path, segment_bytes=1500, **options)
    yield
    for value in values:
        engine.append_many([("t", value), ("t", "second")])
        yield
        engine.snapshot()
        yield
        engine.append("t", "tail")
        yield
    engine.abandon()
    engine = open_inline(path, **options)
    yield
    engine.append("t", "last")
    engine.prune()
    yield
    engine.close()
    yield


def open_segment(path):
    """The newest segment while it has no seal: the only file that may end with filler."""
    files = sorted(path.glob("events_*.jsonl"))
    if files and not lines_of(files[-1])[-1].startswith(b'{"seal":'):
        return files[-1]
    return None


def documents(path):
    """Every file as its readers see it: one JSON document a line, and nothing else."""
    growing = open_segment(path)
    for file in sorted(path.iterdir()):
        if file == growing:
            yield from lines_of(file)
            assert file.read_bytes().split(b"\n")[-1].strip(b"\t") == b""
        elif file.name.endswith((".jsonl", "meta.json")):
            assert file.read_bytes().endswith(b"\n")
            assert b"\t" not in file.read_bytes()
            yield from lines_of(file)
        elif file.name.endswith(".zst"):
            reader = zstandard.ZstdDecompressor().stream_reader
            with file.open("rb") as source:
                content = reader(source, read_across_frames=True).read()
            assert content.endswith(b"\n")
            yield from content.split(b"\n")[:-1]


@with_and_without_filler
def test_p7_every_file_is_plain_json_at_every_moment(tmp_path, preallocate):
    seen, with_filler = 0, 0
    for _ in moments(tmp_path / "s1", preallocate=preallocate):
        for text in documents(tmp_path / "s1"):
            assert isinstance(json.loads(text), dict)
            seen += 1
        growing = open_segment(tmp_path / "s1")
        with_filler += growing is not None and growing.read_bytes().endswith(b"\t")
    assert seen > 100
    assert (with_filler > 5) == (preallocate > 0)


@with_and_without_filler
def test_p7_reader_that_passes_over_blank_lines_reads_every_segment_at_every_moment(
    tmp_path, preallocate
):
    """What a program in any language does with a file of JSON lines; it knows nothing of filler."""
    for _ in moments(tmp_path / "s1", preallocate=preallocate):
        seqs = []
        for file in sorted((tmp_path / "s1").glob("events_*.jsonl")):
            with open(file, newline="\n", encoding="utf-8") as source:
                found = [json.loads(line) for line in source if line.strip()]
            seqs += [one["seq"] for one in found if "seq" in one]
        with open_session(tmp_path / "s1", mode="read") as reader:
            first = seqs[0] if seqs else 1
            assert seqs == [event.seq for event in reader.events(after=first - 1)]


@with_and_without_filler
def test_p7_lines_of_a_sealed_segment_need_no_care(tmp_path, preallocate):
    """Not even blank lines have to be passed over: a seal takes the filler away."""
    sealed = 0
    for _ in moments(tmp_path / "s1", preallocate=preallocate):
        for file in (tmp_path / "s1").glob("events_*.jsonl"):
            if file != open_segment(tmp_path / "s1"):
                with open(file, newline="\n", encoding="utf-8") as source:
                    sealed += len([json.loads(line) for line in source])
    assert sealed > 50


@pytest.mark.parametrize("padding", [b"\0\0\0\n", b"\0" * 512])
def test_p7_has_teeth_padding_with_zeros_is_no_json(tmp_path, padding):
    engine = open_inline(tmp_path / "s1", preallocate=0)
    engine.append("t", 1)
    engine.abandon()
    append_bytes(tmp_path / "s1" / "events_0001.jsonl", padding)
    with pytest.raises((json.JSONDecodeError, AssertionError)):
        for text in documents(tmp_path / "s1"):
            json.loads(text)


@needs("jq")
@with_and_without_filler
def test_p7_jq_reads_every_line_at_every_moment(tmp_path, preallocate):
    """But for lone surrogates, which jq 1.6 refuses wherever they stand."""
    path = tmp_path / "s1"
    values = [value for value in VALUES if "\ud800" not in str(value)]
    for _ in moments(path, values, preallocate=preallocate):
        files = sorted([*path.glob("events_*.jsonl"), path / "meta.json"])
        found = subprocess.run(
            ["jq", "-c", "type", *files], capture_output=True, text=True, check=True
        )
        assert found.stderr == ""
        assert found.stdout.split() == ['"object"'] * sum(len(lines_of(file)) for file in files)


@needs("jq")
def test_p7_jq_reads_a_segment_and_meta_while_they_are_written(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append_many([("counted", {"n": 1}), ("counted", {"n": 2})])
        segment, meta = tmp_path / "s1" / "events_0001.jsonl", tmp_path / "s1" / "meta.json"
        query = 'select(.type == "counted").data.n'
        found = subprocess.run(["jq", query, segment], capture_output=True, text=True, check=True)
        assert found.stdout.split() == ["1", "2"]
        found = subprocess.run(
            ["jq", "-r", ".session_id", meta], capture_output=True, text=True, check=True
        )
        assert found.stdout == "s1\n"


@needs("zstd")
def test_p7_zstd_reads_a_snapshot(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("counted", 7)
        engine.snapshot()
        file = tmp_path / "s1" / "snapshot.json.zst"
        found = subprocess.run(["zstd", "-dc", file], capture_output=True, check=True)
        assert json.loads(found.stdout)["state"] == [7]
        assert snapshot.parse(file.read_bytes(), "s1")[0].seq == 1
