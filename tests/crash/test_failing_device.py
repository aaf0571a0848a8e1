"""A device whose writes fail: the system says so once, and shows the new bytes all the same.

The kernel reports a failed write to one sync and then forgets it: the pages are clean, a second
sync returns 0, and what a program reads is not what the device holds. So a handle that saw it fails
for good, and the next open proves the end of the log anew.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from durasess import Engine, SessionFailedError, StorageError
from durasess.engine.files import RealFiles
from durasess.engine.verify import verify
from tests.support.agreement import assert_readers_agree
from tests.support.block_images import KINDS, need_images
from tests.support.block_recorder import Recorder
from tests.support.loop_disk import Kind, LoopDisk, memory_or


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """A file system that can lie on a recorded file here."""
    need_images(request.param)
    return request.param


class Device(NamedTuple):
    """A mounted file system, and what makes its device fail."""

    disk: LoopDisk
    recorder: Recorder

    @property
    def path(self) -> Path:
        return self.disk.root / "s"

    def again(self) -> None:
        """Unmounted and mounted: nothing is left in the cache."""
        self.disk.unmount()
        self.disk.mount()


@pytest.fixture
def device(kind: Kind, tmp_path: Path) -> Iterator[Device]:
    place = memory_or(tmp_path)
    base = LoopDisk(kind, place)
    base.make()
    with Recorder(place, base.image) as recorder:
        disk = LoopDisk(kind, place, image=recorder.image)
        disk.attach()
        try:
            disk.mount()
            yield Device(disk, recorder)
        finally:
            recorder.mark(b"heal")
            disk.close()


def opened(path: Path, **more: Any) -> Engine:
    """Without snapshots of its own."""
    settings: dict[str, Any] = {"snapshot_every": 10_000, "segment_bytes": 1 << 20}
    return Engine.open(
        path, initial=list, apply=lambda state, event: [*state, event.data], **{**settings, **more}
    )


def test_kernel_forgets_a_failed_write(device: Device) -> None:
    """What the rest is about; where it does not hold, the rest is easy."""
    fd = os.open(device.disk.root / "f", os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(fd, b"old " * 1024, 0)
        os.fsync(fd)
        device.recorder.mark(b"fail")
        os.pwrite(fd, b"new " * 1024, 0)
        with pytest.raises(OSError, match="Input/output"):
            os.fdatasync(fd)
        device.recorder.mark(b"heal")
        # A kernel that remembers would be better; no promise rests on one that does not.
        with contextlib.suppress(OSError):
            os.fdatasync(fd)
            assert os.pread(fd, 4, 0) == b"new "
    finally:
        os.close(fd)
    device.again()
    assert (device.disk.root / "f").read_bytes()[:4] == b"old "


@pytest.mark.parametrize("options", [{}, {"preallocate": 0}], ids=["filler", "no filler"])
@pytest.mark.parametrize("heals", [True, False])
def test_failed_sync_of_a_device_ends_the_handle_and_loses_nothing(
    device: Device, options: dict[str, Any], heals: bool
) -> None:
    engine = opened(device.path, **options)
    for n in range(5):
        engine.append("n", n)
    device.recorder.mark(b"fail")
    with pytest.raises(SessionFailedError) as failure:
        engine.append("n", 5)
    assert failure.value.unknown == (6, 6)
    if heals:
        device.recorder.mark(b"heal")
    with pytest.raises(SessionFailedError):
        engine.append("n", 6)
    assert engine.state == list(range(5))
    engine.close()
    if heals:
        _goes_on_in_the_same_boot(device, options)
    device.recorder.mark(b"heal")
    device.again()
    with opened(device.path, **options) as engine:
        assert engine.state[:5] == list(range(5)) and len(engine.state) in (5, 6, 7)
        assert engine.append("n", "end").seq == len(engine.state)
    assert verify(str(device.path), files=RealFiles()).damage == []
    assert_readers_agree(device.path)


def _goes_on_in_the_same_boot(device: Device, options: dict[str, Any]) -> None:
    """The cache shows what the device lacks; what the next writer acknowledges, the device has."""
    try:
        with opened(device.path, **options) as engine:
            engine.append("n", "same boot")
            found = list(engine.state)
    except StorageError:
        # The file system gave up and is read-only until it is mounted again.
        return
    device.again()
    with opened(device.path, mode="read", **options) as engine:
        assert engine.state == found
