"""P3: damage that is not an interrupted last batch is reported; nothing is changed until an
explicit repair, which keeps what it removes."""

import itertools

import pytest

from durasess import CorruptionError, DurasessError
from durasess.engine import codec
from durasess.engine.repair import repair
from durasess.engine.types import FILLER, SECTOR
from durasess.engine.verify import verify
from tests.support.sessions import SIM_PATH, open_sim, sim_disk
from tests.support.sim_files import SimFiles

EXPECTED = [1, 2, 3, 4, 5, 6]
ACTIVE = f"{SIM_PATH}/events_0002.jsonl"


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


def open_tree(last, *, preallocate=SECTOR):
    """The last segment has no seal and filler behind its last line; the last event is `last`. And
    the receipt of that event."""
    files = sim_disk()
    engine = open_sim(files, snapshot_every=10**9, preallocate=preallocate)
    engine.append("t", 1)
    engine.rotate()
    engine.append("t", 2)
    engine.append_many([("t", 3), ("t", 4)])
    receipt = engine.append("t", last)
    engine.abandon()
    tree = files.tree()
    assert tree[ACTIVE].endswith(FILLER * 10)
    return tree, receipt


def without_anchor(tree):
    """As after a power cut: the anchor is written without a sync."""
    return {**tree, f"{SIM_PATH}/lock": b""}


def each_bit(data, places):
    """The bytes with one bit changed, for every bit of the bytes at these places."""
    for at, bit in itertools.product(places, range(8)):
        yield at, data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def told(tree, expected, receipt):
    """ "refused", "by the receipt" when whole batches at the end are missing, or "harmless"."""
    found = outcome(tree)
    if found == "refused":
        return found
    if found == expected:
        return "harmless"
    assert found in ([1], [1, 2], [1, 2, 3, 4]), f"{found} is no prefix of whole batches"
    missing = f"{len(expected) - len(found)} acknowledged events are missing"
    with pytest.raises(CorruptionError, match=missing):
        open_sim(SimFiles.from_tree(tree), at_least=receipt)
    return "by the receipt"


@pytest.mark.parametrize("anchor", [True, False])
def test_p3_every_flip_in_an_open_segment_with_filler_is_told_or_harmless(anchor):
    expected = [1, 2, 3, 4, "I)\t"]
    tree, receipt = open_tree(expected[-1], preallocate=3 * SECTOR)
    tree = tree if anchor else without_anchor(tree)
    lines, size = len(tree[ACTIVE].rstrip(FILLER)), len(tree[ACTIVE])
    in_filler = [at for at in range(lines, size) if at < lines + 20 or (at + 1) % SECTOR < 3]
    for at, changed in each_bit(tree[ACTIVE], [*range(lines), *in_filler]):
        how = told({**tree, ACTIVE: changed}, expected, receipt)
        # One byte at the beginning of a sector may be what is left of a write that was lost.
        allowed = ["refused", "harmless"] if at in in_filler else ["refused"]
        assert how in allowed, f"byte {at}: {how}"


def blanked(data, start, end):
    """Every run of bytes between two places lost, zeros or filler in its place."""
    for blank in (b"\0", FILLER):
        for first in range(start, end, 7):
            for last in range(first + 1, end + 1, 13):
                yield data[:first] + blank * (last - first) + data[last:]


@pytest.mark.parametrize("anchor", [True, False])
@pytest.mark.parametrize("harm", ["cut", "lost bytes", "lost sectors"])
def test_p3_what_is_cut_off_or_lost_of_an_open_segment_with_filler_is_told_or_harmless(
    anchor, harm
):
    """Without the anchor what is missing at the end may look as if it had never been acknowledged;
    then it is the receipt that tells."""
    expected = [1, 2, 3, 4, "x" * 1200]
    tree, receipt = open_tree(expected[-1])
    tree = tree if anchor else without_anchor(tree)
    data = tree[ACTIVE]
    if harm == "cut":
        harmed = [data[:size] for size in range(len(data))]
        harmed += [data[:size] + FILLER * (len(data) - size) for size in range(len(data))]
    elif harm == "lost bytes":
        start = data.index(b'{"seq":3')
        harmed = list(blanked(data, start, start + 250))
    else:
        sectors = range(len(data) // SECTOR)
        harmed = [
            b"".join(
                blank * SECTOR if number in lost else data[number * SECTOR : (number + 1) * SECTOR]
                for number in sectors
            )
            for blank in (b"\0", FILLER)
            for count in range(1, len(sectors) + 1)
            for lost in itertools.combinations(sectors, count)
        ]
    found = [told({**tree, ACTIVE: changed}, expected, receipt) for changed in harmed]
    assert found.count("refused") > 3
    assert (found.count("by the receipt") > 0) == (not anchor and harm != "lost bytes")


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


@pytest.mark.parametrize("seq", [2, 3, 5])
def test_p3_repair_of_an_open_segment_with_filler_keeps_every_byte_it_takes_out(seq):
    tree, _ = open_tree(5)
    assert tree[ACTIVE].count(b'"data":%d' % seq) == 1
    tree[ACTIVE] = tree[ACTIVE].replace(b'"data":%d' % seq, b'"data":9')
    files = SimFiles.from_tree(tree)
    repair(SIM_PATH, files=files, apply=True)
    assert verify(SIM_PATH, files=files).damage == []
    kept = [data for name, data in files.tree().items() if "/quarantine/" in name]
    assert any(tree[ACTIVE].rstrip(FILLER) in data for data in kept)
    with open_sim(files) as engine:
        assert engine.state == {2: [1], 3: [1, 2], 5: [1, 2, 3, 4]}[seq]
        assert engine.append("t", "new").seq == len(engine.state)
    with open_sim(files) as again:
        assert again.state[-1] == "new"
