"""What stands beside the log: an error is never taken for "not there", and nothing is changed."""

import errno

import pytest

from durasess import FormatVersionError, SessionNotFoundError, StorageError
from durasess.engine import codec, paths, survey
from durasess.engine.files import RealFiles
from tests.support.sessions import (
    SIM_PATH,
    claims_of,
    flip_bit,
    make_session,
    make_snapshots,
    open_inline,
    open_sim,
    sim_disk,
    unchanged,
)


def looked(path):
    return survey.look(RealFiles(), str(path))


# LoadedSnapshot, Claims


def test_newest_is_good_only_while_it_can_be_proven(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    assert looked(path).newest_is_good()
    flip_bit(tmp_path / "s1" / "snapshot.json.zst", 20)
    assert not looked(path).newest_is_good()


def test_snapshot_knows_its_place(tmp_path):
    claims = claims_of(make_snapshots(tmp_path / "s1", 2))
    assert [one.place.seq for one in claims.snapshots] == [2, 1]


# session_id_of


def test_session_id_is_the_name_of_the_directory():
    assert survey.session_id_of("/a/b/s1") == "s1"


@pytest.mark.parametrize("name", ["..", ".", ".hidden", "CON", "s1.", "a b", "x" * 129, ""])
def test_name_that_is_no_session_id_is_refused(name):
    with pytest.raises(SessionNotFoundError, match="is no session"):
        survey.session_id_of(f"/a/{name}")


# look


def test_whole_session_is_found(tmp_path):
    claims = looked(make_session(tmp_path / "s1"))
    assert claims.session_id == "s1"
    assert (claims.meta.active, claims.highest) == (1, 1)
    assert (claims.anchor.seq, claims.anchor.segment) == (3, 1)
    assert (claims.snapshots, claims.bad, claims.damage, claims.notices) == ([], {}, [], [])


def test_only_the_newest_snapshot_is_read_unless_both_are_wanted(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    assert len(looked(path).snapshots) == 1
    assert len(claims_of(path).snapshots) == 2


@pytest.mark.parametrize("make", ["missing", "file", "empty"])
def test_no_session_is_not_found(tmp_path, make):
    path = tmp_path / "s1"
    if make == "file":
        path.write_text("not a directory")
    elif make == "empty":
        path.mkdir()
    with pytest.raises(SessionNotFoundError):
        looked(path)


def test_directory_without_anything_of_a_session_is_not_one(tmp_path):
    (tmp_path / "s1").mkdir()
    (tmp_path / "s1" / "notes.txt").write_text("mine")
    with pytest.raises(SessionNotFoundError, match="holds no session"):
        looked(tmp_path / "s1")


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_error_of_the_system_is_not_taken_for_missing(code):
    files = sim_disk()
    open_sim(files).close()
    files.fail("open", code=code, where="meta.json")
    with pytest.raises(StorageError) as caught:
        survey.look(files, SIM_PATH)
    assert caught.value.errno == code


def test_missing_meta_is_a_notice_and_the_directory_says_what_there_is(tmp_path):
    path = make_session(tmp_path / "s1")
    (tmp_path / "s1" / "meta.json").unlink()
    claims = looked(path)
    assert claims.meta is None
    assert claims.highest == 1
    assert "floor is lost" in claims.notices[0]


def test_broken_meta_is_bad_and_a_notice(tmp_path):
    path = make_session(tmp_path / "s1")
    flip_bit(tmp_path / "s1" / "meta.json", 30)
    claims = looked(path)
    assert list(claims.bad) == ["meta.json"]
    assert "floor is lost" in claims.notices[0]


def test_meta_of_another_session_is_damage(tmp_path):
    make_session(tmp_path / "s1")
    (tmp_path / "s1").rename(tmp_path / "s2")
    (damage,) = looked(tmp_path / "s2").damage
    assert damage.rule == "session"
    assert "'s1'" in damage.reason


def test_meta_of_a_newer_format_is_refused(tmp_path):
    path = make_session(tmp_path / "s1")
    fields = {"format": 2, "session_id": "s1"}
    (tmp_path / "s1" / "meta.json").write_bytes(codec.control_line(fields))
    with unchanged(path), pytest.raises(FormatVersionError, match="format 2"):
        looked(path)


def test_bad_newest_snapshot_gives_way_to_the_previous(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    flip_bit(tmp_path / "s1" / "snapshot.json.zst", -5)
    claims = looked(path)
    assert [one.place.seq for one in claims.snapshots] == [1]
    assert any("was passed over" in notice for notice in claims.notices)


def test_older_snapshot_than_meta_knows_is_a_notice(tmp_path):
    path = make_snapshots(tmp_path / "s1", 2)
    (tmp_path / "s1" / "snapshot.json.zst").unlink()
    assert any("knows a snapshot at seq 2" in notice for notice in looked(path).notices)


def test_anchor_of_another_session_says_nothing(tmp_path):
    path = make_session(tmp_path / "s1")
    make_session(tmp_path / "s2", 9)
    (tmp_path / "s1" / "lock").write_bytes((tmp_path / "s2" / "lock").read_bytes())
    assert looked(path).anchor is None


def test_snapshot_of_a_history_that_went_another_way_is_passed_over(tmp_path):
    """Meta knows which one is at that seq; both belong to a session of this name."""
    path = make_snapshots(tmp_path / "s1", 2)
    (tmp_path / "copy").mkdir()
    with open_inline(tmp_path / "copy" / "s1", compress=False) as engine:
        engine.append_many([("counted", "other"), ("counted", "others")])
        engine.snapshot()
    (tmp_path / "s1" / paths.SNAPSHOT).write_bytes(
        (tmp_path / "copy" / "s1" / paths.SNAPSHOT).read_bytes()
    )
    claims = looked(path)
    assert "that meta.json knows" in claims.bad[paths.SNAPSHOT]
    assert [one.name for one in claims.snapshots] == [paths.SNAPSHOT_PREVIOUS]
    assert any("passed over" in notice for notice in claims.notices)
