"""Secrets in what is shown: masked and counted, unless the user asked to see them.

For people's eyes only: what is on disk stays as it is. How they are found is in
durasess/session/masking.py. Each is counted, so that nobody takes `[masked]` for what was stored.
"""

from __future__ import annotations

from typing import Any

from durasess.session import masking
from durasess.session.masking import MASK, is_credential_name

__all__ = ("MASK", "Masker", "is_credential_name")


class Masker(masking.Masker):
    """Masks what is shown and counts in `count`; with `show` it changes nothing."""

    def __init__(self, *, show: bool = False) -> None:
        super().__init__()
        self._show = show

    def value(self, value: Any, *, is_credential: bool = False) -> Any:
        """A JSON value without its secrets; all of it is one when `is_credential`."""
        return value if self._show else super().value(value, is_credential=is_credential)

    def text(self, text: str) -> str:
        """A text without the secrets in it."""
        return text if self._show else super().text(text)
