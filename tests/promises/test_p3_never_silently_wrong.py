"""P3: damage that is not an interrupted last batch is reported; nothing is changed until an
explicit repair, which keeps what it removes."""

import pytest

from durasess import CorruptionError, DurasessError
from durasess.engine import codec
from durasess.engine.repair import repair
from durasess.engine.verify import verify
from tests.support.sessions import SIM_PATH, open_sim, sim_disk
from tests.support.sim_files import SimFiles

EXPECTED = [1, 2, 3, 4, 5, 6]


def whole_tree():
    files = sim_disk()
    engine = open_sim(files, snapshot_every=10**9)
    for n in EXPECTED:
        engine.append("t", n)
        if n % 2 == 0:
            engine.rotate()
    engine.abandon()
    return files.tree()


def outcome(tree):
    """The state that a writer gets, or "refused" when it is told; nothing may be changed then."""
    files = SimFiles.from_tree(tree)
    try:
        engine = open_sim(files, snapshot_every=10**9)
    except DurasessError:
        assert files.tree() == tree
        return "refused"
    state = engine.state
    engine.abandon()
    return state


def flips(tree):
    """The tree with one bit changed, for every byte of every file."""
    for path, data in tree.items():
        for at in range(len(data or b"")):
            changed = bytearray(data)
            changed[at] ^= 1 << at % 8
            yield path, at, {**tree, path: bytes(changed)}


def cuts(tree):
    """The tree with one file cut short, at every byte."""
    for path, data in tree.items():
        for size in range(len(data or b"")):
            yield path, size, {**tree, path: data[:size]}


@pytest.mark.parametrize("harm", [flips, cuts])
def test_p3_changed_or_missing_bytes_are_told_or_harmless(harm):
    tree = whole_tree()
    told = 0
    for path, at, changed in harm(tree):
        found = outcome(changed)
        assert found in (EXPECTED, "refused"), f"{path} at byte {at}: {found}"
        told += found == "refused"
    assert told > 500


def test_p3_has_teeth_without_checksums_changes_go_unnoticed(monkeypatch):
    tree = whole_tree()
    monkeypatch.setattr(codec, "check", lambda line, chain: codec.stored_crc(line))
    monkeypatch.setattr("durasess.engine.scan.Scan._check_seal", lambda scan, seal: None)
    data = tree[f"{SIM_PATH}/events_0001.jsonl"]
    changed = {
        **tree,
        f"{SIM_PATH}/events_0001.jsonl": data.replace(b'"data":1', b'"data":7'),
    }
    assert outcome(changed) == [7, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("name", ["events_0001.jsonl", "events_0002.jsonl", "events_0003.jsonl"])
def test_p3_lost_file_is_told(name):
    tree = whole_tree()
    del tree[f"{SIM_PATH}/{name}"]
    assert outcome(tree) == "refused"


def test_p3_report_names_file_offset_seqs_and_rule():
    tree = whole_tree()
    path = f"{SIM_PATH}/events_0002.jsonl"
    at = tree[path].index(b'{"seq":3')
    tree[path] = tree[path].replace(b'"data":3', b'"data":9')
    with pytest.raises(CorruptionError) as caught:
        open_sim(SimFiles.from_tree(tree))
    error = caught.value
    assert (error.path, error.offset, error.seq) == (path, at, 3)
    assert error.report.damage[0].rule == "crc"
    assert "checksum: stored" in str(error)


def test_p3_log_cut_by_a_whole_batch_is_caught_by_the_anchor_and_without_it_by_a_receipt():
    files = sim_disk()
    engine = open_sim(files)
    engine.append("t", 1)
    before = files.tree()
    receipt = engine.append("t", 2)
    engine.abandon()
    path = f"{SIM_PATH}/events_0001.jsonl"
    tree = {**files.tree(), path: before[path]}
    assert outcome(tree) == "refused"
    tree[f"{SIM_PATH}/lock"] = before[f"{SIM_PATH}/lock"]
    assert outcome(tree) == [1]
    with pytest.raises(CorruptionError, match="1 acknowledged events are missing"):
        open_sim(SimFiles.from_tree(tree), at_least=receipt)


def test_p3_directory_put_back_to_an_older_copy_is_caught_by_a_receipt():
    files = sim_disk()
    with open_sim(files) as engine:
        engine.append("t", 1)
    old = files.tree()
    with open_sim(files) as engine:
        receipt = engine.append("t", 2)
    with pytest.raises(CorruptionError):
        open_sim(SimFiles.from_tree(old), at_least=receipt)


def test_p3_repair_keeps_every_byte_it_takes_out():
    tree = whole_tree()
    path = f"{SIM_PATH}/events_0002.jsonl"
    tree[path] = tree[path].replace(b'"data":3', b'"data":9')
    files = SimFiles.from_tree(tree)
    repair(SIM_PATH, files=files, apply=True)
    assert verify(SIM_PATH, files=files).damage == []
    kept = [data for name, data in files.tree().items() if "/quarantine/" in name]
    for name in (path, f"{SIM_PATH}/events_0003.jsonl"):
        assert tree[name] in kept
