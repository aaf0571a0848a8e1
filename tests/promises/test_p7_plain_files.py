"""P7: jq reads segments and meta, zstd -d reads snapshots, at every moment."""

import json
import shutil
import subprocess

import pytest
import zstandard

from durasess.engine import snapshot
from tests.support.sessions import lines_of, open_inline

VALUES = [1, "text é \u2028 \ud800", {"a": [None, True, 1.5]}, 2**70, "x" * 2000]


def moments(path):
    """A session at every moment of a short life, snapshots and restarts included."""
    engine = open_inline(path, segment_bytes=1500)
    yield
    for value in VALUES:
        engine.append_many([("t", value), ("t", "second")])
        yield
        engine.snapshot()
        yield
    engine.abandon()
    engine = open_inline(path)
    yield
    engine.append("t", "last")
    engine.prune()
    yield
    engine.close()
    yield


def documents(path):
    """Every file as its readers see it: one JSON document a line."""
    for file in sorted(path.iterdir()):
        if file.name.endswith((".jsonl", "meta.json")):
            assert file.read_bytes().endswith(b"\n")
            yield from lines_of(file)
        elif file.name.endswith(".zst"):
            with file.open("rb") as source:
                content = zstandard.ZstdDecompressor().stream_reader(source).read()
            assert content.endswith(b"\n")
            yield content


def test_p7_every_file_is_plain_json_at_every_moment(tmp_path):
    seen = 0
    for _ in moments(tmp_path / "s1"):
        for text in documents(tmp_path / "s1"):
            assert isinstance(json.loads(text), dict)
            seen += 1
    assert seen > 100


def test_p7_has_teeth_padding_with_zeros_is_no_json(tmp_path):
    engine = open_inline(tmp_path / "s1")
    engine.append("t", 1)
    engine.abandon()
    with open(tmp_path / "s1" / "events_0001.jsonl", "ab") as target:
        target.write(b"\0\0\0\n")
    with pytest.raises(json.JSONDecodeError):
        for text in documents(tmp_path / "s1"):
            json.loads(text)


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
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


@pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd is not installed")
def test_p7_zstd_reads_a_snapshot(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        engine.append("counted", 7)
        engine.snapshot()
        file = tmp_path / "s1" / "snapshot.json.zst"
        found = subprocess.run(["zstd", "-dc", file], capture_output=True, check=True)
        assert json.loads(found.stdout)["state"] == [7]
        assert snapshot.parse(file.read_bytes(), "s1")[0].seq == 1
