"""Where other tools keep their sessions, and which files are there. Reads directories, no files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping


def codex(environment: Mapping[str, str]) -> list[str]:
    """Sessions and archived ones of Codex CLI."""
    home = environment.get("CODEX_HOME") or _below_home(environment, ".codex")
    return [os.path.join(home, "sessions"), os.path.join(home, "archived_sessions")]


def pi(environment: Mapping[str, str]) -> str:
    """Sessions of pi."""
    given = environment.get("PI_CODING_AGENT_SESSION_DIR")
    if given:
        return given
    home = environment.get("PI_CODING_AGENT_DIR") or _below_home(environment, ".pi", "agent")
    return os.path.join(home, "sessions")


def claude_code(environment: Mapping[str, str]) -> str:
    """Projects of Claude Code."""
    home = environment.get("CLAUDE_CONFIG_DIR") or _below_home(environment, ".claude")
    return os.path.join(home, "projects")


def _below_home(environment: Mapping[str, str], *names: str) -> str:
    home = environment.get("HOME") or environment.get("USERPROFILE") or os.path.expanduser("~")
    return os.path.join(home, *names)


def files_below(root: str, endings: tuple[str, ...]) -> Iterator[str]:
    """The files below a directory whose names end so, sorted; none when there is no directory.
    A compressed file beside its plain one is left out. A directory that cannot be read stands for
    itself, so that importing it says why."""
    refused: list[str] = []

    def on_error(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            refused.append(str(error.filename))

    for folder, folders, names in os.walk(root, onerror=on_error):
        folders.sort()
        there = set(names)
        for name in sorted(names):
            if name.endswith(endings) and name.removesuffix(".zst") not in there - {name}:
                yield os.path.join(folder, name)
    yield from refused
