"""Block images with any of the newest writes missing, of ext4 and XFS: mounted, recovered, sound,
and known to the simulated disk, whose model of a power cut is proven by them.

The full tier (`DURASESS_TIER=full`) looks at 2,000 images, `python -m tools.soak images-ext4` at as
many as wanted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.support import crash_legal
from tests.support.block_images import KINDS, Totals, TwinFiles, lab, need_images, run
from tests.support.crash_driver import Driver, grain_of, parse_plan
from tests.support.crash_legal import could_hold, is_cleared, is_legal
from tests.support.crash_states import FileModel, Settings, crash_states
from tests.support.loop_disk import Kind
from tests.support.sim_files import Op
from tests.support.tiers import FULL

IMAGES = {"ext4": 1500, "xfs": 500} if FULL else {"ext4": 40, "xfs": 20}
SHARE = 1.0 if FULL else 0.06
FIRST_SEED = 1_000_000


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """A file system whose writes can be recorded here."""
    need_images(request.param)
    return request.param


def test_images_without_some_writes_are_sound_and_known_to_the_model(
    kind: Kind, tmp_path: Path
) -> None:
    together = Totals()
    seed = FIRST_SEED
    while together.images < IMAGES[kind.name]:
        together.add(run(kind.name, seed, tmp_path, share=SHARE))
        seed += 1
    print(f"\n{kind.name}: {together}")
    assert together.problems == []
    assert together.enumerated > together.trees // 2


# The labs find what is wrong


class WithoutSyncs(TwinFiles):
    """What should be synced is said to be."""

    def _do(self, op: Op, path: str) -> None:
        if op.kind not in ("sync", "sync_dir"):
            super()._do(op, path)


@pytest.mark.parametrize("words", ["acknowledged", "the simulated disk does not know"])
def test_syncs_left_out_are_found(kind: Kind, tmp_path: Path, words: str) -> None:
    with lab(kind, tmp_path, 1) as one:
        recording = one.record(parse_plan("append,many3,append,many3,append"), WithoutSyncs)
        found = one.look(recording, acked=1, until=words).problems
    assert any(words in problem for problem in found), found


def test_model_without_cleared_blocks_is_found_to_lack_something(tmp_path: Path) -> None:
    """ext4 clears the block in which a file shall end before the size is durable."""
    need_images(KINDS["ext4"])
    with mock.patch.object(crash_legal, "is_cleared", lambda *which: False):
        for seed in range(10):
            with lab(KINDS["ext4"], tmp_path, seed) as one:
                plan = parse_plan("fill4096,append,rotate,append,rotate,append")
                found = one.look(one.record(plan), acked=1, until="does not know").problems
            if found:
                break
    assert any("does not know this" in problem for problem in found)


# The model as a question agrees with the model as an enumerator


@pytest.mark.parametrize(
    "plan",
    [
        "append,many3,rotate,append,close",
        "fill512,append,many12,close",
        "append,loose,loose,torn3,append,snapshot",
        "fill1024,append,short,append,rotate,snapshot,prune",
    ],
)
def test_every_enumerated_state_is_legal(plan: str) -> None:
    driver = Driver(parse_plan(plan))
    files = driver.run()
    count = 0
    for state in crash_states(files.base, files.log, Settings(grain=grain_of), identity=id_of):
        count += 1
        if count % 7 == 0:
            assert is_legal(files.base, files.log[: state.point], state.tree) == ""
    assert count > 100


def id_of(mark: Any) -> int:
    """Any state counts once for each acknowledgement."""
    return -1 if mark is None else mark.acked


def test_tree_that_no_crash_leaves_is_not_legal() -> None:
    driver = Driver(parse_plan("append,append"))
    files = driver.run()
    tree = files.tree()
    assert is_legal(files.base, files.log, tree) == ""
    segment = next(path for path in tree if path.endswith(".jsonl"))
    assert "cannot hold" in is_legal(files.base, files.log, {**tree, segment: tree[segment][:-1]})
    assert "cannot hold" in is_legal(files.base, files.log, {**tree, segment: tree[segment] + b"x"})
    del tree[segment]
    assert "no namespace" in is_legal(files.base, files.log, tree)


def test_torn_writes_and_cleared_blocks_are_legal_at_every_place() -> None:
    old = b"o" * 1500
    model = FileModel(old, [Op("write", 1, offset=1400, data=b"n" * 700)])
    for size in range(1500, 2101, 13):
        whole = (old[:1400] + b"n" * 700)[:size]
        assert could_hold(model, whole)
        assert could_hold(model, whole[:1400] + old[1400:] + bytes(size - 1500))
    assert could_hold(model, old)
    assert not could_hold(model, old[:-1])
    assert not could_hold(model, old + b"x")
    assert is_cleared(old, 100, old[:100] + bytes(412) + old[512:])
    assert is_cleared(old, 100, old[:512] + bytes(512) + old[1024:])
    assert not is_cleared(old, 100, old[:99] + bytes(413) + old[512:])
    assert not is_cleared(old, 100, old[:100] + bytes(411) + old[511:])
