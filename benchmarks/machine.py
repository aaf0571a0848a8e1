"""The machine that a run was made on, described without its name or any path."""

from __future__ import annotations

import os
import platform
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from durasess.store.file_system import file_system_of

PACKAGES = (
    "msgspec",
    "zstandard",
    "portalocker",
    "openai-agents",
    "eventsourcing",
    "langgraph-checkpoint-sqlite",
)


def description(directory: Path) -> list[tuple[str, str]]:
    """Names and values: processors, load, system, file system of `directory`, Python, packages."""
    load = os.getloadavg()
    return [
        ("processors", str(os.cpu_count())),
        ("load when the run ended", f"{load[0]:.1f} (1 minute), {load[2]:.1f} (15 minutes)"),
        ("system", f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"),
        ("file system", file_system(directory)),
        ("Python", f"{platform.python_implementation()} {platform.python_version()}"),
        ("SQLite", sqlite3.sqlite_version),
        ("packages", ", ".join(_versions())),
    ]


def file_system(directory: Path) -> str:
    """Its kind, as the kernel names it; "unknown" where that cannot be read."""
    return file_system_of(os.path.realpath(directory)).kind or "unknown"


def _versions() -> list[str]:
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return found
