"""Values of a record with what is stored out of line put back, as far as it can be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durasess.errors import DurasessError
from durasess.session.out_of_line import is_reference, preview
from durasess.session.view import SessionView


def in_words(reference: dict[str, Any]) -> str:
    """What stands for a value that cannot be read, where people read."""
    return f"[not readable: {preview(reference)}]"


def as_it_is(reference: dict[str, Any]) -> dict[str, Any]:
    """What stands for it where programs read: the reference."""
    return reference


class Resolver:
    """Puts blobs back; `stand_in(reference)` stands where one is missing or damaged, and `missing`
    says so, each once."""

    def __init__(
        self, session: SessionView, stand_in: Callable[[dict[str, Any]], Any] = in_words
    ) -> None:
        self._session = session
        self._stand_in = stand_in
        self.missing: list[str] = []

    def value(self, value: Any) -> Any:
        """The value in full, but for parts that cannot be read."""
        try:
            return self._session.resolved(value)
        except DurasessError as error:
            if is_reference(value):
                self._note(str(error))
                return self._stand_in(value)
            return self._parts(value)

    def _parts(self, value: Any) -> Any:
        """Each part by itself, so that one bad blob costs nothing else."""
        if isinstance(value, dict):
            return {name: self.value(one) for name, one in value.items()}
        return [self.value(one) for one in value] if isinstance(value, list) else value

    def _note(self, problem: str) -> None:
        if problem not in self.missing:
            self.missing.append(problem)
