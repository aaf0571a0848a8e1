"""The formats that can be imported, by name."""

from __future__ import annotations

from durasess.interop.claude_code import ClaudeCode
from durasess.interop.codex import Codex
from durasess.interop.importer import Importer
from durasess.interop.own_lines import OwnLines
from durasess.interop.pi import Pi

IMPORTERS: dict[str, Importer] = {
    one.name: one for one in (OwnLines(), Codex(), Pi(), ClaudeCode())
}
"""In the order in which they are asked whether a file is theirs."""
