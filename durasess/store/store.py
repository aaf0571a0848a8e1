"""A store: a directory of sessions. Creates, opens, finds them; what is in one is the session's.

store = Store("~/.myagent/sessions")
with store.create(workspace="/project_A") as session: …
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from durasess.engine import meta, paths, workers
from durasess.engine.files import RealFiles
from durasess.engine.receipt import Receipt
from durasess.engine.types import LOCK_TIMEOUT_S, SNAPSHOT_EVERY, LineError, Migration, Mode
from durasess.errors import (
    SessionExistsError,
    SessionNotFoundError,
    StorageError,
)
from durasess.session import session_operations
from durasess.session.core import Mask
from durasess.session.custom import Custom, CustomReducer
from durasess.session.masking import mask_secrets
from durasess.session.opening import SelfCheckError, open_core
from durasess.session.options import SessionOptions
from durasess.session.out_of_line import THRESHOLD
from durasess.session.recovering import ChildSeen
from durasess.session.session import Session
from durasess.session.state import RESIDENT_MESSAGES
from durasess.session.tools import Tool, Verifier, declared
from durasess.session.workspace import same_place
from durasess.store import beginning, ids, keeping, placement
from durasess.store.async_opening import AsyncOpening

_LOGGER = logging.getLogger("durasess")


class Store:
    """A directory of sessions, made when the first one is.

    Parameters:

    * `path`: default is the directory that $DURASESS_HOME names, else the user's data directory.
    * `mask(data)`: takes secrets out of everything before it is written; None for nothing.
    * `reducers`: by type of the program's own events, `reducer(custom_state, event)` returns the
      next custom state, or None when it changed the one it got. `custom_version` and
      `custom_migrations[v]` (a Migration, from v to v + 1) are of those events and that state.
    * `resident_messages`: how many of the newest messages a state holds.
    * `blob_bytes`: the size in bytes beyond which a value is stored out of line; 0 for never.
    * `snapshot_every`: events between two snapshots. `lock_timeout`: seconds that a writer that
      shares a session waits for others.
    * `allow_network`: kinds of network file systems, as the kernel names them, to be taken though
      their locks may mean nothing; else one is refused.
    * `clock()`: nanoseconds since 1970.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        mask: Mask | None = mask_secrets,
        reducers: Mapping[str, CustomReducer] | None = None,
        custom_version: int = 1,
        custom_migrations: Mapping[int, Migration] | None = None,
        resident_messages: int = RESIDENT_MESSAGES,
        blob_bytes: int = THRESHOLD,
        snapshot_every: int = SNAPSHOT_EVERY,
        lock_timeout: float = LOCK_TIMEOUT_S,
        allow_network: Collection[str] = (),
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.path = _root(path)
        self._disk = RealFiles()
        self._has_warned = False
        self._tools: dict[str, Tool] = {}
        self._allow_network = allow_network
        self._options = SessionOptions(
            tools=self._tools,
            custom=Custom(
                reducers=reducers or {},
                version=custom_version,
                migrations=custom_migrations or {},
            ),
            mask=mask,
            blob_bytes=blob_bytes,
            resident_messages=resident_messages,
            snapshot_every=snapshot_every,
            lock_timeout=lock_timeout,
            clock=clock,
            look_at=self._look_at,
        )

    def tool(
        self,
        name: str,
        *,
        effect: str = "unsafe",
        timeout_s: float = 0.0,
        verify: Verifier | None = None,
    ) -> Tool:
        """Declare what running a tool twice would do: "read_only" and "idempotent" calls may be
        offered again after an interruption, "unsafe" ones never are.

        `timeout_s`: seconds after which nobody waits for it. `verify(call)` is asked in recovery
        whether a call without a result was "applied", "not_applied" or cannot be told (None); it
        must look, and never repeat the effect.
        """
        made = declared(name, effect=effect, timeout_s=timeout_s, verify=verify)
        self._tools[name] = made
        return made

    def create(
        self,
        session_id: str | None = None,
        *,
        workspace: str | os.PathLike[str] | None = None,
        model: str = "",
        system: Any = None,
        title: str = "",
        labels: Mapping[str, str] | None = None,
        user_id: str = "",
        origin: str = "",
        config: Mapping[str, Any] | None = None,
        mode: Mode = "own",
        parent: str = "",
        parent_call: str = "",
    ) -> Session:
        """Make a session and open it.

        Raises SessionExistsError when there is one with this id, SessionNotFoundError when the id
        is none, WorkspaceNotFoundError, StorageError.
        """
        first = beginning.first_events(
            workspace=workspace,
            model=model,
            system=system,
            title=title,
            labels=dict(labels or {}),
            user_id=user_id,
            origin=origin,
            config=dict(config or {}),
            parent=parent,
            parent_call=parent_call,
            custom_version=self._options.custom.version,
        )
        if mode == "read":
            raise ValueError('a session is made with mode "own" or "shared", not "read"')
        chosen = self.new_id() if session_id is None else session_id
        path = self._path_of(chosen)
        self._prepare()
        if self._is_there(path):
            raise SessionExistsError(
                f"{path}: there is a session {chosen!r} already; it was left alone. Choose another "
                "id, or open it.",
                path=path,
            )
        session = self._open(path, mode, create=True, at_least=None)
        try:
            session.begin(first)
        except BaseException:
            session.close()
            raise
        return session

    def open(
        self,
        session_id: str,
        *,
        mode: Mode = "own",
        at_least: Receipt | None = None,
        workspace: str | os.PathLike[str] | None = None,
    ) -> Session:
        """Open a session; as a writer, say what became of what was open when its last one died.

        `mode`: "own" for one writer, "shared" for several processes, "read" takes no lock and
        changes nothing. `at_least`: a receipt that it must reach. `workspace`: where the project is
        now, if it moved. Raises SessionNotFoundError, SessionLockedError, CorruptionError,
        FormatVersionError, StorageError; a failed open changes nothing.
        """
        bound = None if workspace is None else session_operations.workspace_path(workspace)
        session = self._opened(session_id, mode, at_least=at_least, made_with={})
        if mode == "read":
            return session
        try:
            if bound is not None and bound != session.state.meta.workspace:
                session.rebind(bound)
        except BaseException:
            session.close()
            raise
        return session

    def open_or_create(self, session_id: str, *, mode: Mode = "own", **options: Any) -> Session:
        """Open the session with this id, or make it; `options` are those of `create`."""
        self._path_of(session_id)
        try:
            return self._opened(session_id, mode, at_least=None, made_with=options)
        except SessionNotFoundError:
            try:
                return self.create(session_id, mode=mode, **options)
            except SessionExistsError:
                # Somebody made it in this moment.
                return self._opened(session_id, mode, at_least=None, made_with=options)

    def open_async(self, session_id: str, **options: Any) -> AsyncOpening:
        """`open` for tasks: `async with store.open_async(…) as session`, or await it."""
        return AsyncOpening(lambda: self.open(session_id, **options))

    def create_async(self, session_id: str | None = None, **options: Any) -> AsyncOpening:
        """`create` for tasks."""
        return AsyncOpening(lambda: self.create(session_id, **options))

    def open_or_create_async(self, session_id: str, **options: Any) -> AsyncOpening:
        """`open_or_create` for tasks."""
        return AsyncOpening(lambda: self.open_or_create(session_id, **options))

    def latest_async(self, **options: Any) -> AsyncOpening:
        """`latest` for tasks."""
        return AsyncOpening(lambda: self.latest(**options))

    def latest(
        self, *, workspace: str | os.PathLike[str] | None = None, mode: Mode = "own"
    ) -> Session:
        """Open the session with the newest event, of those for this workspace if one is given;
        archived ones and children don't count. SessionNotFoundError when there is none."""
        place = None if workspace is None else os.path.abspath(os.path.expanduser(workspace))
        best: tuple[str, str] | None = None
        for session_id, shown in self._summaries():
            if shown.get("status") == "archived" or shown.get("parent"):
                continue
            if place is not None and not same_place(str(shown.get("workspace") or ""), place):
                continue
            key = (str(shown.get("updated_at") or ""), session_id)
            best = key if best is None else max(best, key)
        if best is None:
            where = "" if place is None else f" for the workspace {place}"
            raise SessionNotFoundError(
                f"there is no session in {self.path}{where}. Create one.", path=self.path
            )
        return self.open(best[1], mode=mode)

    def _summaries(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Id and summary of every session whose meta can be read; reads nothing else."""
        try:
            names = self._disk.listdir(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(
                f"{self.path} cannot be read: {error}.", path=self.path, errno=error.errno
            ) from error
        for name in names:
            if paths.session_id_problem(name) is not None:
                continue
            with contextlib.suppress(OSError, LineError):
                found = meta.read(self._disk, paths.join(self.path, name))
                shown = found.summary.data if found.summary is not None else {}
                updated = {"updated_at": found.updated}
                yield name, {**updated, **shown} if isinstance(shown, dict) else updated

    def new_id(self) -> str:
        """A session id that nobody has."""
        return ids.new_id(self._options.clock())

    def create_child(
        self, session_id: str, *, parent: str, parent_call: str, options: dict[str, Any]
    ) -> Session:
        """Make a session that works for another; `options` are those of `create`."""
        return self.create(session_id, parent=parent, parent_call=parent_call, **options)

    def _opened(
        self, session_id: str, mode: Mode, *, at_least: Receipt | None, made_with: dict[str, Any]
    ) -> Session:
        """An existing session. When its maker was killed between making it and saying what it is,
        that is said now: `made_with`, options of `create`."""
        session = self._open(self._path_of(session_id), mode, create=False, at_least=at_least)
        try:
            if mode != "read" and session.last_seq == 0:
                version = self._options.custom.version
                session.begin(beginning.first_events(custom_version=version, **made_with))
        except BaseException:
            session.close()
            raise
        return session

    def _open(self, path: str, mode: Mode, *, create: bool, at_least: Receipt | None) -> Session:
        try:
            core, report = open_core(
                path, self._options, mode=mode, create=create, at_least=at_least
            )
        except SelfCheckError as error:
            self._keep(path, error)
            raise
        warnings = tuple(placement.warnings_for(self.path))
        if warnings and not self._has_warned:
            self._has_warned = True
            for warning in warnings:
                _LOGGER.warning("%s", warning)
        return Session(core, msgspec.structs.replace(report, warnings=warnings), self)

    def _keep(self, path: str, error: SelfCheckError) -> None:
        try:
            kept = keeping.keep_copy(self._disk, self.path, os.path.basename(path))
        except OSError as refused:
            error.add_note(f"no copy of it could be kept: {refused}")
        else:
            error.add_note(f"a copy of it as it is was kept in {kept}")

    def _path_of(self, session_id: str) -> str:
        problem = paths.session_id_problem(session_id) if isinstance(session_id, str) else "no text"
        if problem is not None:
            raise SessionNotFoundError(f"{session_id!r:.80} is no session id: {problem}.")
        return paths.join(self.path, session_id)

    def _is_there(self, path: str) -> bool:
        try:
            return bool(self._disk.listdir(path))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StorageError(
                f"{path} cannot be looked at: {error}.", path=path, errno=error.errno
            ) from error

    def _prepare(self) -> None:
        """Make the store's directory; refuse one where two hosts could write one session."""
        placement.refuse_network(self.path, allow=self._allow_network)
        missing = []
        path = self.path
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for one in reversed(missing):
            try:
                self._disk.mkdir(one)
            except FileExistsError:
                continue
            except OSError as error:
                raise StorageError(
                    f"the store {self.path} cannot be made: {error}.",
                    path=self.path,
                    errno=error.errno,
                ) from error

    def _look_at(self, session_id: str) -> ChildSeen:
        """How a child of an interrupted run is, without changing it."""
        path = self._path_of(session_id)
        try:
            core, _ = open_core(path, self._options, mode="read")
        except SessionNotFoundError:
            return ChildSeen("not_made")
        status, answer = session_operations.outcome_of(core.state)
        if status == "running" and not self._is_held(session_id):
            status = "interrupted"
        return ChildSeen(status, answer)

    def _is_held(self, session_id: str) -> bool:
        """Whether somebody has the session open for writing."""
        path = paths.join(self.path, session_id)
        return workers.held_as(self._disk, path) is not None

    def __repr__(self) -> str:
        return f"<Store {self.path}>"


def _root(path: str | os.PathLike[str] | None) -> str:
    if path is None:
        path = os.environ.get("DURASESS_HOME") or beginning.data_directory()
    return os.path.abspath(os.path.expanduser(os.fspath(path)))
