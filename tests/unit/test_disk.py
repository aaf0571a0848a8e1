"""Both disks that the tests use have every call of the interface."""

import inspect

import pytest

from durasess.engine.disk import Files
from durasess.engine.files import RealFiles
from tests.support.sim_files import SimFiles


def calls() -> list[str]:
    return [name for name, _ in inspect.getmembers(Files, inspect.isfunction) if name[0] != "_"]


@pytest.mark.parametrize("disk", [RealFiles, SimFiles])
def test_disk_has_every_call_of_the_interface(disk: type) -> None:
    for name in calls():
        assert callable(getattr(disk, name)), f"{disk.__name__} lacks {name}"


def test_interface_is_narrow() -> None:
    assert len(calls()) <= 20
