"""P6: a bad newest snapshot never loses data."""

import itertools

import pytest

from durasess import CorruptionError
from durasess.engine import snapshot, survey
from tests.support.power_cuts import problems
from tests.support.sessions import SIM_PATH, make_snapshots, open_sim, sim_disk
from tests.support.sim_files import SimFiles

NEWEST = f"{SIM_PATH}/snapshot.json.zst"
PREVIOUS = f"{SIM_PATH}/snapshot.prev.json.zst"
EXPECTED = [1, 2, 3, 4]


def tree_of_session(*, pruned=False):
    files = sim_disk()
    make_snapshots(SIM_PATH, 4, files=files)
    if pruned:
        with open_sim(files) as engine:
            assert engine.prune().segments
    return files.tree()


def state_of(tree):
    with open_sim(SimFiles.from_tree(tree), snapshot_every=10**9) as engine:
        return engine.state


def harmed(data):
    """A snapshot that was flipped, cut, emptied, doubled."""
    for at in range(len(data)):
        yield data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]
    for size in range(0, len(data), 5):
        yield data[:size]
    yield data + data
    yield data + b"\n"
    yield b"\0" * len(data)


@pytest.mark.parametrize("pruned", [False, True])
def test_p6_harmed_newest_snapshot_loses_nothing(pruned):
    tree = tree_of_session(pruned=pruned)
    for data in harmed(tree[NEWEST]):
        assert state_of({**tree, NEWEST: data}) == EXPECTED


@pytest.mark.parametrize("gone", [[NEWEST], [PREVIOUS], [NEWEST, PREVIOUS]])
def test_p6_missing_snapshots_mean_more_replay(gone):
    tree = tree_of_session()
    assert state_of({path: data for path, data in tree.items() if path not in gone}) == EXPECTED


def test_p6_both_harmed_after_a_prune_is_told():
    tree = tree_of_session(pruned=True)
    with pytest.raises(CorruptionError):
        state_of({**tree, NEWEST: b"x", PREVIOUS: b"x"})


@pytest.mark.parametrize("history", [[1, "snapshot", 1, "snapshot", 1], [2, "snapshot", "prune"]])
def test_p6_power_cuts_during_snapshots_and_prunes_lose_nothing(history):
    assert problems(history, preallocate=2048) == []


def test_p6_power_cuts_while_a_prune_deletes_lose_nothing():
    history = list(itertools.chain.from_iterable([1, "snapshot"] for _ in range(3)))
    assert problems([*history, "prune", 1], preallocate=2048) == []


def test_p6_has_teeth_a_forged_snapshot_is_believed_without_metas_word(monkeypatch):
    tree = tree_of_session()
    trailer, _ = snapshot.parse(tree[NEWEST], "s1")
    document = snapshot.document(4, [], b"[9,9,9,9]")
    forged = snapshot.encoded(
        document,
        session_id="s1",
        seq=4,
        chain=trailer.chain,
        segment=trailer.segment,
        schema_version=1,
        ts=trailer.ts,
    )
    whole = forged.replace(b'"document":"', b'"document":"0', 1)
    assert state_of({**tree, NEWEST: whole}) == EXPECTED
    assert state_of({**tree, NEWEST: forged}) == EXPECTED
    monkeypatch.setattr(survey, "_is_a_stranger", lambda claims, trailer: False)
    assert state_of({**tree, NEWEST: forged}) == [9, 9, 9, 9]


def test_p6_foreign_snapshot_is_passed_over():
    tree = tree_of_session()
    files = SimFiles.from_tree({"/store": None})
    make_snapshots("/store/other", 4, files=files)
    foreign = files.tree()["/store/other/snapshot.json.zst"]
    assert state_of({**tree, NEWEST: foreign}) == EXPECTED
