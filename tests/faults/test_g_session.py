"""FAULTS G1, G2: secrets are out of the record before it is written, and which call had one is
known in every process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from durasess import EventRejectedError, Store
from durasess.cli.main import main
from tests.support.harness import ask, crash, start_call

KEYS = {
    "aws": "AKIA" + "ABCDEFGHIJKLMNOP",
    "openai": "sk-" + "a1B2" * 10,
    "github": "ghp_" + "a1B2c3D4e5" * 4,
    "slack": "xoxb-" + "123456789012-abcdefABCDEF",
}


def everything_in(folder: Path) -> bytes:
    """Every byte of every file, snapshots decoded."""
    from durasess.engine import frames

    found = b""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            found += b"".join(frames.decompressed(iter([data]))) if path.suffix == ".zst" else data
    return found


@pytest.mark.parametrize("name", KEYS)
def test_g1_key_in_the_output_of_a_tool_is_nowhere_on_disk(name: str, tmp_path: Path) -> None:
    secret = KEYS[name]
    store = Store(tmp_path / "store", blob_bytes=2000)
    with store.create("s1", title=f"with {secret}") as session, session.run(f"use {secret}") as run:
        ask(run, "c", "d")
        with run.tool("c") as call:
            call.result(f"found {secret} in .env")
        with run.tool("d") as call:
            # Out of line.
            call.result(f"{'x' * 3000} {secret} {'x' * 3000}")
        run.assistant(f"it is {secret}")
        session.snapshot()
    assert secret.encode() not in everything_in(tmp_path / "store" / "s1")
    assert len(list((tmp_path / "store" / "s1" / "blobs").iterdir())) == 1


def test_g1_inspect_masks_what_was_recorded_without_a_mask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "store", mask=None)
    with store.create("s1") as session, session.run("go") as run:
        run.assistant(f"it is {KEYS['aws']}")
    path = os.path.join(store.path, "s1")
    for more in (["--events"], ["--at", "3"], ["--context"], ["--json", "--events"]):
        assert main(["inspect", path, *more]) == 0
        assert KEYS["aws"] not in capsys.readouterr().out
    assert main(["inspect", path, "--at", "3", "--show-secrets"]) == 0
    assert KEYS["aws"] in capsys.readouterr().out


def test_g2_call_that_had_a_secret_is_known_behind_a_restart_and_its_result_is_masked(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "store")
    store.tool("work", effect="idempotent")
    secret = {"api_key": KEYS["openai"], "path": "a"}
    session = store.create("s1")
    run = session.run("go").start()
    run.assistant("", tool_calls=[{"call_id": "c", "name": "work", "arguments": secret}])
    arguments: Any = start_call(run, "c").arguments
    assert arguments == secret, "the running tool has the originals"
    crash(session)
    with store.open("s1") as again:
        (call,) = again.open_calls
        assert again.state.tool_states[call.key].masked == ["$.api_key"]
        assert not call.is_offered and call.arguments["path"] == "a"
        with pytest.raises(EventRejectedError, match="secrets"):
            call.rerun()
        call.settle("applied", output=f"used {KEYS['openai']}")
    assert KEYS["openai"].encode() not in everything_in(tmp_path / "store" / "s1")
