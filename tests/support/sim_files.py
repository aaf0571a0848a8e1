"""A disk in memory for tests: the engine's `Files` with a log of every operation, and faults.

The live view (what a running process sees) serves the engine. The log serves the crash: from it
`crash_states` computes what a power cut may leave. `SimFiles.from_tree(tree)` is a disk on which
everything is durable; a tree maps absolute paths to bytes, or to None for a directory.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from durasess.engine.files import FileStat

DEVICE = 1
ROOT = 1
FIRST_DESCRIPTOR = 3
DIRECTORY = "directory"

CHANGES = frozenset(
    ["mkdir", "create", "write_at", "truncate", "sync", "replace", "unlink", "rmdir", "sync_dir"]
)

Tree = dict[str, bytes | None]
Size = int | Callable[[bytes], int]


class Op(NamedTuple):
    """One entry of the log.

    | kind     | node          | other fields                                             |
    |----------|---------------|----------------------------------------------------------|
    | write    | file          | offset, data                                             |
    | truncate | file          | offset (the new size)                                    |
    | sync     | file          |                                                          |
    | syncfail | file          | data: "keep" or "drop", what became of the dirty pages   |
    | link     | directory     | name, child; data is DIRECTORY for a new directory       |
    | unlink   | directory     | name, child (also rmdir)                                 |
    | rename   | directory     | name, child, target (directory), target_name             |
    | sync_dir | directory     |                                                          |
    | mark     | 0             | data: whatever the driver wants to remember at this point |
    """

    kind: str
    node: int = 0
    name: str = ""
    child: int = 0
    offset: int = 0
    data: Any = b""
    target: int = 0
    target_name: str = ""
    site: str = ""


class Killed(BaseException):
    """Raised out of a call in whose middle the process was killed."""


class Node:
    """A file (`data`) or a directory (`entries`: name → number). `pending` has for each write that
    was not synced its offset, its length, and what was there before."""

    __slots__ = ("data", "entries", "locks", "number", "pending")

    def __init__(self, number: int, *, directory: bool = False, data: bytes = b"") -> None:
        self.number = number
        self.data: bytes | bytearray = data
        self.entries: dict[str, int] | None = {} if directory else None
        self.locks: dict[int, bool] = {}
        self.pending: list[tuple[int, int, bytes]] = []

    def writable(self) -> bytearray:
        """The content as a bytearray; shared bytes are copied at the first change."""
        data = self.data
        if type(data) is not bytearray:
            data = self.data = bytearray(data)
        return data


class Descriptor:
    """An open file description: what flock locks belong to."""

    __slots__ = ("node", "path", "write")

    def __init__(self, node: Node, path: str, write: bool) -> None:
        self.node = node
        self.path = path
        self.write = write


@dataclass
class Fault:
    """Something that goes wrong at the `nth` call of `kind` ("*": of any kind, "change": of any
    that changes the disk) from now on.

    `code` is the errno raised; without one the call is only cut short to `size` bytes (negative:
    all but so many; a function: so many as it says of the data). `kill` raises Killed, behind what
    effect there is. `pages` is for sync: "keep" or "drop". `meanwhile` is what somebody else does
    just before the call.
    `where` limits the fault to calls whose path ends in this text.
    """

    kind: str
    nth: int = 1
    code: int | None = errno.EIO
    sticky: bool = False
    size: Size | None = None
    kill: bool = False
    meanwhile: Callable[[], None] | None = None
    pages: str = "keep"
    where: str = ""
    seen: int = field(default=0, init=False)

    def hits(self, kind: str, path: str) -> bool:
        """Count this call and say whether it is the one."""
        if not self._means(kind) or (self.where and not path.endswith(self.where)):
            return False
        self.seen += 1
        return self.seen == self.nth or (self.sticky and self.seen > self.nth)

    def _means(self, kind: str) -> bool:
        return self.kind in ("*", kind) or (self.kind == "change" and kind in CHANGES)


class SimFiles:
    """The `Files` protocol on inodes in memory."""

    def __init__(self, *, trace: Callable[[str, str], str] | None = None) -> None:
        self.nodes: dict[int, Node] = {ROOT: Node(ROOT, directory=True)}
        self.log: list[Op] = []
        self.base: dict[int, bytes | dict[str, int]] = {ROOT: {}}
        self.descriptors: dict[int, Descriptor] = {}
        self.faults: list[Fault] = []
        self.quota: int | None = None
        self.trace = trace
        self.reads: set[str] | None = None
        self._dead: set[int] = set()
        self._killed = False
        self._node_numbers = itertools.count(ROOT + 1)
        self._descriptor_numbers = itertools.count(FIRST_DESCRIPTOR)
        self._directories: dict[str, Node] = {}
        self._all_descriptors = [self.descriptors]

    # Building and looking at disks

    @classmethod
    def from_tree(
        cls, tree: Mapping[str, bytes | None], *, trace: Callable[[str, str], str] | None = None
    ) -> SimFiles:
        """A disk that holds this tree and has nothing pending."""
        files = cls(trace=trace)
        for path, data in tree.items():
            directory, name = os.path.split(path)
            parent = files._grown(directory)
            if data is None:
                if name not in parent.entries:
                    files._add(parent, name, Node(0, directory=True))
            else:
                files._add(parent, name, Node(0, data=bytes(data)))
        base = files.base
        for number, node in files.nodes.items():
            base[number] = dict(node.entries) if node.entries is not None else node.data
        return files

    def join(self, disk: SimFiles) -> None:
        """Become another process on `disk`: the files, the page cache and the log are the same; the
        descriptors with their locks, the faults and the death are this process's own."""
        self.nodes, self.log, self.base = disk.nodes, disk.log, disk.base
        self._node_numbers = disk._node_numbers
        self._descriptor_numbers = disk._descriptor_numbers
        self._directories = disk._directories
        self._all_descriptors = disk._all_descriptors
        self._all_descriptors.append(self.descriptors)

    def tree(self) -> Tree:
        """The live view."""
        found: Tree = {}
        self._walk(self.nodes[ROOT], "", found)
        return found

    def mark(self, value: Any) -> None:
        """Put the driver's own mark into the log."""
        self.log.append(Op("mark", data=value))

    def restart(self) -> None:
        """The machine came up again with everything written out: the live view is durable."""
        self.log.clear()
        self.descriptors.clear()
        self.base = {}
        for number, node in self.nodes.items():
            node.locks.clear()
            node.pending.clear()
            self.base[number] = dict(node.entries) if node.entries is not None else bytes(node.data)

    def die(self) -> None:
        """The process is gone: descriptors and locks with it, the page cache stays. What is left
        of its handle may still close them, without an effect."""
        self._killed = False
        self._dead.update(self.descriptors)
        for fd, descriptor in self.descriptors.items():
            descriptor.node.locks.pop(fd, None)
        self.descriptors.clear()

    def used(self) -> int:
        """Bytes in all files that have a name or a descriptor."""
        return sum(len(node.data) for node in self.nodes.values())

    # Faults

    def fail(self, kind: str, *, nth: int = 1, code: int = errno.EIO, **more: Any) -> Fault:
        """The nth call of this kind raises; nothing else happens. See Fault."""
        return self._plant(Fault(kind, nth=nth, code=code, **more))

    def short_write(
        self, size: Size, *, nth: int = 1, then: int | None = errno.ENOSPC, where: str = ""
    ) -> Fault:
        """The nth write takes only `size` bytes (negative: all but so many), the next one raises
        `then`, once."""
        if then is not None:
            self._plant(Fault("write_at", nth=nth + 1, code=then, where=where))
        return self._plant(Fault("write_at", nth=nth, code=None, size=size, where=where))

    def fail_sync(
        self, *, nth: int = 1, pages: str = "keep", code: int = errno.EIO, **more: Any
    ) -> Fault:
        """The nth sync fails once. The dirty pages are clean from now on: what they hold stays
        visible ("keep") but no later sync writes it, or the old content is back ("drop")."""
        return self._plant(Fault("sync", nth=nth, code=code, pages=pages, **more))

    def kill_write(self, size: int, *, nth: int = 1, where: str = "") -> Fault:
        """The process is killed when the nth write has taken `size` bytes."""
        return self._plant(Fault("write_at", nth=nth, code=None, size=size, kill=True, where=where))

    def kill_before(self, nth: int) -> Fault:
        """The process is killed just before its nth call that changes the disk."""
        return self._plant(Fault("change", nth=nth, code=None, kill=True))

    def meanwhile(self, kind: str, act: Callable[[], None], *, where: str = "") -> Fault:
        """Somebody else does something just before the next call of this kind."""
        return self._plant(Fault(kind, code=None, meanwhile=act, where=where))

    def lose_locks(self) -> None:
        """What holds a lock does not learn that it is free for others."""
        for node in self.nodes.values():
            node.locks.clear()

    def _plant(self, fault: Fault) -> Fault:
        self.faults.append(fault)
        return fault

    def _fault(self, kind: str, path: str) -> Fault | None:
        """The fault that hits this call; one that only raises is raised here. A killed process
        does nothing any more, not even what its exception handlers would like to do."""
        if self._killed:
            raise Killed
        hit = None
        for fault in self.faults:
            if fault.hits(kind, path) and hit is None:
                hit = fault
        if hit is None:
            return None
        if hit.kill:
            self._killed = True
            if hit.size is None:
                raise Killed
            return hit
        if not hit.sticky:
            self.faults.remove(hit)
        if hit.code is not None and kind != "sync":
            raise _error(hit.code, path)
        if hit.meanwhile is not None:
            hit.meanwhile()
        return hit

    # Names

    def mkdir(self, path: str) -> None:
        """Make a directory."""
        if self.faults:
            self._fault("mkdir", path)
        parent, name = self._parent(path)
        if name in parent.entries:
            raise _error(errno.EEXIST, path)
        node = self._add(parent, name, Node(0, directory=True))
        self._record("link", path, parent.number, name, node.number, data=DIRECTORY)

    def listdir(self, path: str) -> list[str]:
        """The names in a directory."""
        if self.faults:
            self._fault("listdir", path)
        return list(self._directory(path).entries)

    def stat(self, path: str) -> FileStat:
        """Raises FileNotFoundError when there is nothing."""
        if self.faults:
            self._fault("stat", path)
        return self._stat(self._node(path))

    def create(self, path: str) -> int:
        """A new empty file, open for reading and writing."""
        if self.faults:
            self._fault("create", path)
        parent, name = self._parent(path)
        if name in parent.entries:
            raise _error(errno.EEXIST, path)
        node = self._add(parent, name, Node(0))
        self._record("link", path, parent.number, name, node.number)
        return self._opened(node, path, True)

    def open(self, path: str, *, write: bool = False) -> int:
        """An existing file, never a directory."""
        if self.faults:
            self._fault("open", path)
        node = self._node(path)
        if node.entries is not None:
            raise _error(errno.EISDIR if write else errno.EINVAL, path)
        return self._opened(node, path, write)

    def replace(self, source: str, target: str) -> None:
        """Rename atomically over `target`."""
        if self.faults:
            self._fault("replace", source)
        parent, name = self._parent(source)
        number = parent.entries.get(name)
        if number is None:
            raise _error(errno.ENOENT, source)
        target_parent, target_name = self._parent(target)
        self._check_target(self.nodes[number], target_parent, target_name, target)
        if target_parent.entries.get(target_name) != number:
            del parent.entries[name]
            target_parent.entries[target_name] = number
        self._moved(self.nodes[number], target)
        self._record(
            "rename",
            target,
            parent.number,
            name,
            number,
            target=target_parent.number,
            target_name=target_name,
        )

    def unlink(self, path: str) -> None:
        """Remove the name of a file."""
        if self.faults:
            self._fault("unlink", path)
        parent, name = self._parent(path)
        number = parent.entries.get(name)
        if number is None:
            raise _error(errno.ENOENT, path)
        if self.nodes[number].entries is not None:
            raise _error(errno.EISDIR, path)
        del parent.entries[name]
        self._record("unlink", path, parent.number, name, number)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        if self.faults:
            self._fault("rmdir", path)
        parent, name = self._parent(path)
        node = self._directory(path)
        if node.entries:
            raise _error(errno.ENOTEMPTY, path)
        del parent.entries[name]
        self._directories.clear()
        self._record("unlink", path, parent.number, name, node.number)

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        if self.faults:
            self._fault("sync_dir", path)
        self._record("sync_dir", path, self._directory(path).number)

    # Content

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes."""
        descriptor = self._descriptor(fd)
        if self.faults:
            self._fault("read_at", descriptor.path)
        if self.reads is not None:
            self.reads.add(descriptor.path)
        return bytes(descriptor.node.data[offset : offset + size])

    def first_bytes(self, path: str, size: int) -> bytes:
        """Up to `size` bytes that a file begins with."""
        fd = self.open(path)
        try:
            return self.read_at(fd, size, 0)
        finally:
            self.close(fd)

    def write_at(self, fd: int, data: bytes, offset: int) -> int:
        """One write; how many bytes were taken."""
        descriptor = self._descriptor(fd)
        if not descriptor.write:
            raise _error(errno.EBADF, descriptor.path)
        fault = self._fault("write_at", descriptor.path) if self.faults else None
        data = bytes(data)
        if fault is not None and fault.size is not None:
            data = data[: fault.size(data) if callable(fault.size) else fault.size]
        if self.quota is not None:
            data = self._within_quota(descriptor, data, offset)
        if data:
            content = descriptor.node.writable()
            before = bytes(content[offset : offset + len(data)])
            descriptor.node.pending.append((offset, len(data), before))
            _overlay(content, data, offset)
            self._record("write", descriptor.path, descriptor.node.number, offset=offset, data=data)
        if fault is not None and fault.kill:
            raise Killed
        return len(data)

    def fstat(self, fd: int) -> FileStat:
        """The open file."""
        descriptor = self._descriptor(fd)
        if self.faults:
            self._fault("fstat", descriptor.path)
        return self._stat(descriptor.node)

    def size(self, fd: int) -> int:
        """The open file's length."""
        descriptor = self._descriptor(fd)
        if self.faults:
            self._fault("size", descriptor.path)
        return len(descriptor.node.data)

    def leads_to(self, path: str, fd: int) -> bool:
        """Whether a name leads to this open file."""
        if self.faults:
            self._fault("leads_to", path)
        try:
            return self._node(path) is self._descriptor(fd).node
        except FileNotFoundError:
            return False

    def _stat(self, node: Node) -> FileStat:
        return FileStat((DEVICE, node.number), len(node.data), node.entries is not None)

    def truncate(self, fd: int, size: int) -> None:
        """Cut, or extend with zeros."""
        descriptor = self._descriptor(fd)
        if self.faults:
            self._fault("truncate", descriptor.path)
        if not descriptor.write:
            raise _error(errno.EINVAL, descriptor.path)
        node = descriptor.node
        data = node.writable()
        if len(data) > size:
            del data[size:]
            # What is cut off does not come back when the file grows again.
            node.pending = [(at, n, old[: max(0, size - at)]) for at, n, old in node.pending]
        else:
            data.extend(bytes(size - len(data)))
        self._record("truncate", descriptor.path, descriptor.node.number, offset=size)

    def sync(self, fd: int) -> None:
        """Make the content durable."""
        descriptor = self._descriptor(fd)
        node = descriptor.node
        fault = self._fault("sync", descriptor.path) if self.faults else None
        if fault is None:
            node.pending.clear()
            self._record("sync", descriptor.path, node.number)
            return
        if fault.pages == "drop":
            self._drop_pages(node)
        node.pending.clear()
        self._record("syncfail", descriptor.path, node.number, data=fault.pages)
        raise _error(fault.code or errno.EIO, descriptor.path)

    def close(self, fd: int) -> None:
        """Give the descriptor back, and its lock."""
        if fd in self._dead:
            return
        descriptor = self._descriptor(fd)
        descriptor.node.locks.pop(fd, None)
        del self.descriptors[fd]
        if self.faults:
            self._fault("close", descriptor.path)

    def lock(self, fd: int, *, shared: bool = False, wait: bool = False) -> bool:
        """flock. One that has to wait calls `waiting` until the lock is free; as in the kernel, one
        that changes a lock gives it up first."""
        descriptor = self._descriptor(fd)
        if self.faults:
            self._fault("lock", descriptor.path)
        locks = descriptor.node.locks
        locks.pop(fd, None)
        while not may_lock(locks, shared):
            if not wait:
                return False
            self.waiting(descriptor.path, lambda: may_lock(locks, shared))
        locks[fd] = shared
        return True

    def waiting(self, path: str, is_free: Callable[[], bool]) -> None:
        """Called while a lock is waited for. Alone on this disk that would be for ever."""
        raise AssertionError(f"{path} is locked, and nobody is there who could unlock it")

    def unlock(self, fd: int) -> None:
        """Release the lock."""
        descriptor = self._descriptor(fd)
        if self.faults:
            self._fault("unlock", descriptor.path)
        descriptor.node.locks.pop(fd, None)

    # Inside

    def _record(
        self,
        kind: str,
        path: str,
        node: int,
        name: str = "",
        child: int = 0,
        *,
        offset: int = 0,
        data: Any = b"",
        target: int = 0,
        target_name: str = "",
    ) -> None:
        site = self.trace(kind, path) if self.trace is not None else ""
        self.log.append(Op(kind, node, name, child, offset, data, target, target_name, site))

    def _opened(self, node: Node, path: str, write: bool) -> int:
        fd = next(self._descriptor_numbers)
        self.descriptors[fd] = Descriptor(node, path, write)
        return fd

    def _descriptor(self, fd: int) -> Descriptor:
        descriptor = self.descriptors.get(fd)
        if descriptor is None:
            raise _error(errno.EBADF, f"descriptor {fd}")
        return descriptor

    def _add(self, parent: Node, name: str, node: Node) -> Node:
        node.number = next(self._node_numbers)
        self.nodes[node.number] = node
        parent.entries[name] = node.number
        return node

    def _grown(self, path: str) -> Node:
        """The directory at `path`, made with its parents if it is missing."""
        node = self._directories.get(path)
        if node is not None:
            return node
        node = self.nodes[ROOT]
        for name in _parts(path):
            number = node.entries.get(name)
            if number is None:
                number = self._add(node, name, Node(0, directory=True)).number
            node = self.nodes[number]
        self._directories[path] = node
        return node

    def _parent(self, path: str) -> tuple[Node, str]:
        directory, _, name = path.rpartition("/")
        if not name:
            raise _error(errno.EINVAL, path)
        return self._directory(directory), name

    def _directory(self, path: str) -> Node:
        node = self._directories.get(path)
        if node is None:
            node = self._node(path)
            if node.entries is None:
                raise _error(errno.ENOTDIR, path)
            self._directories[path] = node
        return node

    def _node(self, path: str) -> Node:
        directory, _, name = path.rpartition("/")
        parent = self._directories.get(directory)
        if parent is not None and name:
            number = parent.entries.get(name)
            if number is None:
                raise _error(errno.ENOENT, path)
            return self.nodes[number]
        node = self.nodes[ROOT]
        for name in _parts(path):
            if node.entries is None:
                raise _error(errno.ENOTDIR, path)
            number = node.entries.get(name)
            if number is None:
                raise _error(errno.ENOENT, path)
            node = self.nodes[number]
        return node

    def _check_target(self, moved: Node, parent: Node, name: str, path: str) -> None:
        number = parent.entries.get(name)
        if number is None:
            return
        entries = self.nodes[number].entries
        if entries is None:
            if moved.entries is not None:
                raise _error(errno.ENOTDIR, path)
        elif moved.entries is None:
            raise _error(errno.EISDIR, path)
        elif entries:
            raise _error(errno.ENOTEMPTY, path)

    def _moved(self, node: Node, target: str) -> None:
        if node.entries is not None:
            self._directories.clear()
            return
        for descriptors in self._all_descriptors:
            for descriptor in descriptors.values():
                if descriptor.node is node:
                    descriptor.path = target

    def _within_quota(self, descriptor: Descriptor, data: bytes, offset: int) -> bytes:
        free = max(0, self.quota - self.used())
        growth = max(0, offset + len(data) - len(descriptor.node.data))
        taken = data[: len(data) - max(0, growth - free)]
        if data and not taken:
            raise _error(errno.ENOSPC, descriptor.path)
        return taken

    def _drop_pages(self, node: Node) -> None:
        """As after a failed sync and a dropped cache: what the disk has, and zeros where the file
        was made longer by bytes that never reached it."""
        data = node.writable()
        for offset, length, before in reversed(node.pending):
            end = min(len(data), offset + length)
            data[offset:end] = before.ljust(length, b"\0")[: max(0, end - offset)]

    def _walk(self, node: Node, path: str, found: Tree) -> None:
        for name, number in node.entries.items():
            child = self.nodes[number]
            if child.entries is None:
                found[f"{path}/{name}"] = bytes(child.data)
            else:
                found[f"{path}/{name}"] = None
                self._walk(child, f"{path}/{name}", found)


def may_lock(locks: Mapping[int, bool], shared: bool) -> bool:
    """Whether these locks of others (True: shared) leave room for one more."""
    return all(shared and other_shared for other_shared in locks.values())


def apply_write(content: bytearray, offset: int, data: bytes) -> None:
    """What a write does to the bytes of a file; a gap before it reads as zeros."""
    _overlay(content, data, offset)


def _overlay(content: bytearray, data: bytes, offset: int) -> None:
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _error(code: int, path: str) -> OSError:
    """OSError makes the subclass (FileNotFoundError …) that belongs to the number."""
    return OSError(code, os.strerror(code), path)


def _parts(path: str) -> Iterator[str]:
    return (part for part in path.split("/") if part)
