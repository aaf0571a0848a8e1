"""FAULTS G: permissions and path safety."""

import os
import stat

import pytest

from durasess import DurasessError, SessionNotFoundError
from durasess.engine.files import RealFiles
from durasess.engine.repair import repair
from tests.faults.tails import write_on
from tests.support.sessions import (
    flip_bit,
    make_segments,
    make_unclean,
    open_inline,
    open_session,
    segment_path,
    tree_of,
)


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(root):
    found = {root: stat.S_IMODE(os.stat(root).st_mode)}
    for directory, names, files in os.walk(root):
        for name in names + files:
            path = os.path.join(directory, name)
            found[path] = stat.S_IMODE(os.stat(path).st_mode)
    return found


def test_g4_nothing_can_be_read_by_others_whatever_the_umask(tmp_path, umask):
    path = make_unclean(tmp_path / "s1")
    write_on(segment_path(path), b'{"seq":4')
    with open_inline(path) as engine:
        assert engine.recovery.quarantined
        for n in (4, 5):
            engine.append("t", n)
            engine.snapshot()
    make_segments(tmp_path / "s2", 3)
    flip_bit(segment_path(tmp_path / "s2", 2), 300)
    repair(str(tmp_path / "s2"), files=RealFiles(), apply=True)
    for root in (tmp_path / "s1", tmp_path / "s2"):
        for name, mode in modes(root).items():
            assert mode == (0o700 if os.path.isdir(name) else 0o600), name


BAD_IDS = ["CON", "com1.txt", "s1.", "s1 ", " s1", ".s1", "a b", "ä", "x" * 129, "x" * 300, "a\0b"]


@pytest.mark.parametrize("name", [*BAD_IDS, "C:\\x"])
@pytest.mark.parametrize("mode", ["own", "read"])
def test_g5_id_outside_the_allow_list_is_refused_before_any_file_is_made(tmp_path, name, mode):
    with pytest.raises(DurasessError):
        open_session(f"{tmp_path}/{name}", mode=mode)
    assert tree_of(tmp_path) == {}


def test_g5_dots_in_a_path_lead_to_the_directory_they_name(tmp_path):
    (tmp_path / "a").mkdir()
    with open_session(tmp_path / "a" / ".." / "s1") as engine:
        assert engine.session_id == "s1"
    assert (tmp_path / "s1" / "meta.json").exists()


def test_g5_empty_path_and_root_are_no_session():
    with pytest.raises(SessionNotFoundError):
        open_session("/", mode="read")


def test_g5_id_in_meta_that_is_not_the_directorys_name_does_not_redirect(tmp_path):
    open_inline(tmp_path / "s1").close()
    (tmp_path / "s1").rename(tmp_path / "s2")
    before = tree_of(tmp_path)
    with pytest.raises(DurasessError, match="Rename the directory back"):
        open_session(tmp_path / "s2")
    assert tree_of(tmp_path) == before


def test_foreign_files_are_left_alone(tmp_path):
    open_inline(tmp_path / "s1").close()
    session = tmp_path / "s1"
    foreign = ["notes.txt", ".DS_Store", "events_1.jsonl", "events_00001.jsonl", "meta.json.bak"]
    for name in foreign:
        (session / name).write_text(name)
    (session / "sub").mkdir()
    for n in range(3):
        with open_inline(session) as engine:
            engine.append("t", n)
            engine.snapshot()
            engine.prune()
    assert [(session / name).read_text() for name in foreign] == foreign
    assert (session / "sub").is_dir()
