"""Large values beside the log: `blobs/<hash>`, stored once, durable before an event can name them.

Which blobs the log still needs is asked by prune.py and verify.py; what is moved out of an event is
decided above the engine. Here a blob is bytes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Container, Iterator, Mapping

from durasess.engine import codec, files, paths, publishing, quarantine
from durasess.engine.types import Damage
from durasess.errors import CorruptionError, EventRejectedError, StorageError

HASH_BYTES = 32
"""Of BLAKE2b: what is stored may be chosen by somebody who wants two values with one name."""

_DIGITS = 2 * HASH_BYTES
_RUN = re.compile(rb"[0-9a-f]{%d,}" % _DIGITS)
_REFERENCE = re.compile(rb'\{"\$blob":\{"hash":"[0-9a-f]{%d}"[^{}]*\}\}' % _DIGITS)
_NAME = re.compile(rb'"([0-9a-f]{%d})"' % _DIGITS)


class Blobs:
    """The blobs of a session as one open handle has them. Its methods may be called from any
    thread; writers in other processes may put the same blobs at the same time.

    `token()` gives a unique part of a file name. `notices` says what was damaged and replaced.
    """

    def __init__(self, disk: files.Files, directory: str, token: Callable[[], str]) -> None:
        self._disk = disk
        self._directory = directory
        self._folder = paths.join(directory, paths.BLOBS)
        self._token = token
        self._lock = threading.Lock()
        self._put: set[str] = set()
        self._durable: set[str] = set()
        self._has_folder = False
        self._is_trusting = True
        self.notices: list[str] = []

    def put(self, data: bytes) -> str:
        """Store `data` and return its hash, 64 hex digits; durable when it returns.

        A blob that is there with these bytes is kept; other bytes under its name are damage, which
        goes to quarantine. Raises EventRejectedError for what is not bytes, StorageError when the
        system refuses: then there is no blob but one that was there, and perhaps an empty folder.
        """
        content = _content(data)
        name = codec.digest(content, size=HASH_BYTES)
        with self._lock:
            # Before anything is looked at: a prune beside this leaves the blob alone from here on.
            self._put.add(name)
        path = paths.blob(self._directory, name)
        try:
            if name not in self._durable or not self._has_size(path, len(content)):
                self._store(name, path, content)
        except OSError as error:
            raise StorageError(
                f"{path}: the blob of {len(content)} bytes could not be stored: {error}. No event "
                "names it yet; put it again when the cause is gone.",
                path=path,
                errno=error.errno,
            ) from error
        return name

    def read(self, hash: str) -> bytes:
        """The bytes of a blob, proven by their hash.

        Raises ValueError when `hash` is not 64 hex digits, CorruptionError when the blob is missing
        or has other bytes, StorageError when the system cannot read it.
        """
        if not paths.is_blob(hash):
            raise ValueError(f"a blob's hash is {_DIGITS} lower-case hex digits, not {hash!r:.80}")
        path = paths.blob(self._directory, hash)
        try:
            content = publishing.read_whole(self._disk, path)
        except FileNotFoundError:
            raise CorruptionError(
                f"{path}: expected a blob, found nothing: it was deleted, or pruned because no "
                "event named it any more. Copy the file back, or put the same bytes again.",
                path=path,
            ) from None
        except OSError as error:
            raise StorageError(
                f"{path}: the blob cannot be read: {error}.", path=path, errno=error.errno
            ) from error
        reason = _problem(content, hash)
        if reason is not None:
            raise CorruptionError(
                f"{path}: {reason}. Copy the file back, or put the same bytes again.", path=path
            )
        return content

    def is_in_use(self, name: str) -> bool:
        """Whether it was put through this handle: an event that names it may be on its way."""
        return name in self._put

    def discard(self, name: str) -> bool:
        """Remove a blob that nothing names; False when somebody put it here meanwhile."""
        return self._remove(name, name)

    def sweep(self) -> None:
        """Remove what publishes that were cut short left, while no other writer lives."""
        for entry in _names(self._disk, self._folder):
            name = paths.blob_of_tmp(entry)
            if name is not None:
                self._remove(name, entry)

    def _remove(self, name: str, entry: str) -> bool:
        with self._lock:
            if name in self._put:
                return False
            try:
                self._disk.unlink(paths.join(self._folder, entry))
            except FileNotFoundError:
                pass
            return True

    def _has_size(self, path: str, size: int) -> bool:
        try:
            return self._disk.stat(path).size == size
        except FileNotFoundError:
            return False

    def _store(self, name: str, path: str, content: bytes) -> None:
        self._make_folder()
        try:
            if not self._is_kept(name, path, content):
                self._publish(name, path, content)
            # Also for a blob that was there: whoever made it may not have come to this.
            self._disk.sync_dir(self._folder)
            if not self._has_folder:
                self._disk.sync_dir(self._directory)
                self._has_folder = True
        except OSError:
            # What a failed sync left visible may not be on the disk, and no later sync of the same
            # thing tells: from here on a blob is written anew (R9).
            self._is_trusting = False
            raise
        self._durable.add(name)

    def _make_folder(self) -> None:
        try:
            self._disk.mkdir(self._folder)
        except FileExistsError:
            return
        self._has_folder = False

    def _is_kept(self, name: str, path: str, content: bytes) -> bool:
        """Whether the blob is there, synced; other bytes under its name are put aside."""
        try:
            fd = self._disk.open(path)
        except FileNotFoundError:
            return False
        try:
            found = self._disk.read_at(fd, self._disk.fstat(fd).size, 0)
            if found == content and self._is_trusting:
                # It may have been copied here by hand.
                self._disk.sync(fd)
                return True
        finally:
            self._disk.close(fd)
        if found != content:
            with self._lock:
                copy = quarantine.keep(self._disk, self._directory, name, found)
                self.notices.append(f"{path} had other bytes and was replaced; {copy} keeps them")
        return False

    def _publish(self, name: str, path: str, content: bytes) -> None:
        tmp = paths.blob_tmp(self._directory, name, self._token())
        publishing.write_tmp(self._disk, tmp, content)
        try:
            self._disk.replace(tmp, path)
        except BaseException:
            publishing.discard(self._disk, tmp)
            raise


def stored(disk: files.Files, directory: str) -> dict[str, int]:
    """The blobs that are there: hash → bytes. What else is in the folder is passed over."""
    found = {}
    folder = paths.join(directory, paths.BLOBS)
    for name in sorted(filter(paths.is_blob, _names(disk, folder))):
        try:
            found[name] = disk.stat(paths.join(folder, name)).size
        except FileNotFoundError:
            continue
    return found


def named(text: bytes) -> Iterator[str]:
    """The hashes that the references in a line or a state name: FORMAT.md §9."""
    for reference in _REFERENCE.findall(text):
        yield from (found.decode() for found in _NAME.findall(reference))


def mentioned(text: bytes, among: Container[str]) -> Iterator[str]:
    """Every hash of `among` that stands anywhere in the text, in a reference or not."""
    for run in _RUN.findall(text):
        for at in range(len(run) - _DIGITS + 1):
            name = run[at : at + _DIGITS].decode()
            if name in among:
                yield name


def check(disk: files.Files, directory: str, named: Mapping[str, int]) -> list[Damage]:
    """What is wrong with the blobs: other bytes than their name says, or not there though `named`
    (hash → seq of an event or a snapshot that names it)."""
    damage = []
    missing = dict(named)
    for name in stored(disk, directory):
        path = paths.blob(directory, name)
        try:
            reason = _problem(publishing.read_whole(disk, path), name)
        except FileNotFoundError:
            # A prune took it meanwhile.
            continue
        seq = missing.pop(name, None)
        if reason is not None:
            damage.append(Damage(path=path, offset=0, first_seq=seq, rule="blob", reason=reason))
    for name, seq in missing.items():
        reason = "expected a blob, found nothing"
        path = paths.blob(directory, name)
        damage.append(Damage(path=path, first_seq=seq, rule="blob", reason=reason))
    return damage


def _content(data: bytes) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise EventRejectedError(
            f"a blob is made of bytes, not of {type(data).__name__}. Nothing was written."
        )
    return bytes(data)


def _problem(content: bytes, name: str) -> str | None:
    found = codec.digest(content, size=HASH_BYTES)
    if found == name:
        return None
    return f"expected bytes with the hash {name}, found {len(content)} bytes with the hash {found}"


def _names(disk: files.Files, folder: str) -> list[str]:
    try:
        return disk.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
