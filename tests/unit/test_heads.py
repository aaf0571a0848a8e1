"""Where the files that an opening begins with do not begin as they must."""

from __future__ import annotations

import pytest

from durasess.engine import paths
from durasess.store import heads
from tests.support.sim_files import SimFiles

HEADER, ZSTD, BAD = b'{"segment":1', b"\x28\xb5\x2f\xfd...", b"no segment"


def problem(active: int, **content: bytes) -> str | None:
    """What is said of a directory with these segments, named plain1, packed2."""
    tree = {}
    for name, data in content.items():
        number = int(name[-1])
        path = paths.segment(number, compressed=name.startswith("packed"))
        tree[paths.join("/s", path)] = data
    return heads.problem(SimFiles.from_tree({"/s": None, **tree}), "/s", active=active)


@pytest.mark.parametrize("active", [0, 1, 2, 7, 10**15, -3])
def test_newest_segment_is_looked_at_whatever_meta_knows(active):
    assert problem(active, plain1=HEADER, plain2=HEADER) is None
    assert "/s/events_0002.jsonl does not" in str(problem(active, plain1=HEADER, plain2=BAD))
    assert problem(active, plain1=BAD, plain2=HEADER) is None


@pytest.mark.parametrize("active", [0, 1, 2])
def test_compressed_segment_is_looked_at_too(active):
    assert problem(active, packed1=ZSTD) is None
    assert "events_0001.jsonl.zst does not" in str(problem(active, packed1=BAD))
    assert problem(active, packed1=BAD, plain1=HEADER) is None
    assert "events_0002.jsonl does not" in str(problem(active, packed1=ZSTD, plain2=BAD))


@pytest.mark.parametrize("active", [0, 1])
def test_nothing_is_said_of_no_segment_and_of_an_empty_one(active):
    assert problem(active) is None
    assert problem(active, plain1=b"") is None
