"""What every test gets: whatever sessions it leaves behind are read by both readers. And which
tests run, when somebody asks for one share of them."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import agreement, shares


def pytest_configure() -> None:
    """What runs in the background of a shell has Ctrl-C ignored, and so would have the processes
    of tests that are to die of it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only the files of `DURASESS_SHARE`."""
    asked = os.environ.get("DURASESS_SHARE")
    if asked is None:
        return
    files = [item.path.relative_to(config.rootpath).as_posix() for item in items]
    chosen = shares.files_of(shares.parse(asked), Counter(files))
    left_out = [item for item, file in zip(items, files, strict=True) if file not in chosen]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item, file in zip(items, files, strict=True) if file in chosen]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Keep the outcome where the fixture below finds it."""
    report = yield
    setattr(item, f"report_{report.when}", report)
    return report


@pytest.fixture(autouse=True)
def both_readers_agree(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test that passed: durasess and the second reader agree on every directory that is
    left. A failed test keeps its directory; pytest prints its path."""
    if "tmp_path" not in request.fixturenames:
        yield
        return
    root: Path = request.getfixturevalue("tmp_path")
    yield
    report = getattr(request.node, "report_call", None)
    if report is None or not report.passed:
        return
    for directory in agreement.session_directories(root):
        if agreement.size_of(directory) <= agreement.MAX_BYTES:
            agreement.assert_readers_agree(directory)
