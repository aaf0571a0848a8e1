"""FAULTS M: the working directory is gone, has moved, or has another name."""

from __future__ import annotations

from pathlib import Path

import pytest

from durasess import FileChangedError, Store, WorkspaceNotFoundError
from durasess.session.workspace import Workspace, same_place


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


def test_m1_workspace_that_is_gone_can_be_made_and_says_so(project: Path) -> None:
    project.rmdir()
    ws = Workspace(str(project))
    assert not ws.exists
    with pytest.raises(WorkspaceNotFoundError, match=f"{project}.*rebind"):
        ws.read("a.txt")
    assert not project.exists()


def test_m1_session_whose_workspace_is_gone_opens_says_so_and_goes_on_in_another(
    project: Path, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    with store.create("s1", workspace=project) as session, session.run("go") as run:
        run.assistant("done")
    project.rmdir()
    with store.open("s1") as session:
        assert session.recovery.workspace_missing
        with pytest.raises(WorkspaceNotFoundError, match=str(project)):
            session.run("more").start()
        assert [row.session_id for row in store.list(workspace=project).rows] == ["s1"]
    (tmp_path / "moved").mkdir()
    with store.open("s1", workspace=tmp_path / "moved") as session, session.run("more") as run:
        run.assistant("done")
    assert not project.exists()


def test_m1_workspace_that_goes_between_plan_and_write_is_not_made_again(project: Path) -> None:
    planned = Workspace(str(project)).writing("sub/a.txt", "1")
    project.rmdir()
    with pytest.raises(WorkspaceNotFoundError):
        planned.apply()
    assert not project.exists()


def test_m1_workspace_that_comes_back_works_again(project: Path) -> None:
    project.rmdir()
    ws = Workspace(str(project))
    project.mkdir()
    ws.write("a.txt", "1")
    assert ws.exists and ws.read("a.txt").text == "1"


def test_m2_record_of_a_write_settles_in_the_project_where_it_was_moved(project: Path) -> None:
    planned = Workspace(str(project)).writing("sub/a.txt", "1")
    planned.apply()
    moved = project.rename(project.with_name("moved"))
    assert Workspace(str(moved)).settle([planned.record()]) == "applied"


def test_m2_moved_project_continues_under_its_new_path(project: Path) -> None:
    Workspace(str(project)).write("a.txt", "1")
    ws = Workspace(str(project.rename(project.with_name("moved"))))
    with pytest.raises(FileChangedError, match="Read it first"):
        ws.write("a.txt", "2")
    ws.patch("a.txt", "1", "2", expected_version=ws.read("a.txt").version)
    assert ws.read("a.txt").text == "2"


def test_m4_symlinked_project_is_the_same_place(project: Path) -> None:
    link = project.with_name("link")
    link.symlink_to(project)
    assert same_place(str(link), f"{project}/")


def test_m4_project_that_is_gone_is_the_same_place_through_a_link_above_it(project: Path) -> None:
    link = project.with_name("link")
    link.symlink_to(project)
    assert same_place(str(link / "gone"), str(project / "gone"))


@pytest.mark.parametrize("other", ["c:\\Project", "C:/Project", "C:\\project\\", "c:/PROJECT/."])
def test_m4_windows_paths_that_differ_in_case_and_separator_are_the_same_place(other: str) -> None:
    assert same_place("C:\\Project", other)


def test_m5_names_that_differ_in_the_place_of_a_separator_are_two_places(tmp_path: Path) -> None:
    roots = [tmp_path / "a" / "b-c", tmp_path / "a-b" / "c"]
    for number, root in enumerate(roots):
        root.mkdir(parents=True)
        Workspace(str(root)).write("a.txt", str(number))
    assert not same_place(*map(str, roots))
    assert [Workspace(str(root)).read("a.txt").text for root in roots] == ["0", "1"]
