"""What a test needs of the machine: where it is missing a run skips it, but never under CI=true."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import NoReturn

import pytest

MUST_RUN = os.environ.get("CI") == "true"


def unavailable(reason: str) -> NoReturn:
    """Skip, or fail where every test must run."""
    if MUST_RUN:
        pytest.fail(reason)
    pytest.skip(reason)


def needs(tool: str) -> pytest.MarkDecorator:
    """A test that calls this program; where it must run it fails for want of it."""
    missing = shutil.which(tool) is None
    return pytest.mark.skipif(missing and not MUST_RUN, reason=f"{tool} is not installed")


def working_strace() -> list[str]:
    """The command that makes system calls fail, where it may trace."""
    program = shutil.which("strace")
    if program is None:
        unavailable("strace is not installed")
    command = [program, "-f", "--seccomp-bpf", "-o", os.devnull]
    probe = [*command, "-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=1", "true"]
    if subprocess.run(probe, capture_output=True).returncode:
        unavailable("strace cannot trace here")
    return command


def attaching_strace() -> None:
    """Skip where strace may not attach to a process that runs already."""
    working_strace()
    with subprocess.Popen(["sleep", "30"]) as sleeper:
        attach = ["strace", "-p", str(sleeper.pid), "-o", os.devnull]
        with subprocess.Popen(attach, stderr=subprocess.PIPE, text=True) as strace:
            said = strace.stderr.readline() if strace.stderr else ""
            sleeper.kill()
    if "attached" not in said:
        unavailable(f"strace cannot attach here: {said.strip()}")
