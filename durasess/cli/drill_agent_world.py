"""The world outside of the agent drill's session: a small project, an outbox, a registry.

It is looked at by the tools and, afterwards, by the checks. Nothing here knows of sessions.
"""

from __future__ import annotations

import msgspec

from durasess.engine import paths, publishing
from durasess.engine.files import RealFiles

PRICES = '''"""Prices of an order."""


def total(items):
    return sum(items)


def discounted(amount, percent):
    return amount - percent
'''

TESTS = """from prices import discounted, total

assert total([(2, 3), (5, 1)]) == 11, "total([(2, 3), (5, 1)]) is not 11"
assert discounted(200, 10) == 180, "discounted(200, 10) is not 180"
"""

_disk = RealFiles()


class World(msgspec.Struct, frozen=True):
    """Where everything of one task is: below `folder`, an absolute path."""

    folder: str

    @property
    def project(self) -> str:
        """The workspace."""
        return paths.join(self.folder, "project")

    @property
    def store(self) -> str:
        """The directory of sessions."""
        return paths.join(self.folder, "sessions")

    def make(self) -> None:
        """A fresh world with a project whose tests fail."""
        for directory in (self.folder, self.project):
            _disk.mkdir(directory)
        publishing.write_tmp(_disk, paths.join(self.project, "prices.py"), PRICES.encode())
        publishing.write_tmp(_disk, paths.join(self.project, "test_prices.py"), TESTS.encode())
        publishing.write_tmp(_disk, self._outbox, b"")
        publishing.write_tmp(_disk, self._registry, b"")

    def files(self) -> dict[str, bytes]:
        """The files of the project by their names."""
        names = sorted(_disk.listdir(self.project))
        return {name: self._read(paths.join(self.project, name)) for name in names}

    def run_tests(self) -> str:
        """ "ok", or what failed first."""
        files = self.files()
        made: dict[str, object] = {}
        exec(files["prices.py"], made)
        tests = files["test_prices.py"].decode().partition("\n")[2]
        try:
            # As they stand, also where Python was told to leave assertions out.
            exec(compile(tests, "test_prices.py", "exec", optimize=0), made)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "ok"

    def send(self, text: str) -> None:
        """An effect that happens again each time: a line in the outbox, durable."""
        self._append(self._outbox, text)

    def sent(self) -> list[str]:
        """The lines of the outbox."""
        return self._lines(self._outbox)

    def put_version(self, version: str, *, operation_id: str) -> None:
        """An effect that happens once however often it is asked for: the registry knows the
        operation."""
        line = f"{operation_id} {version}"
        if line not in self.registered():
            self._append(self._registry, line)

    def registered(self) -> list[str]:
        """Operations of the registry, each with its version."""
        return self._lines(self._registry)

    @property
    def _outbox(self) -> str:
        return paths.join(self.folder, "outbox")

    @property
    def _registry(self) -> str:
        return paths.join(self.folder, "registry")

    def _append(self, path: str, line: str) -> None:
        fd = _disk.open(path, write=True)
        try:
            publishing.write_all(_disk, fd, f"{line}\n".encode(), _disk.size(fd))
            _disk.sync(fd)
        finally:
            _disk.close(fd)

    def _lines(self, path: str) -> list[str]:
        return self._read(path).decode().splitlines()

    def _read(self, path: str) -> bytes:
        return publishing.read_whole(_disk, path)
