"""A store: a directory of sessions. Creates, opens, finds them; what is in one is the session's.

store = Store("~/.myagent/sessions")
with store.create(workspace="/project_A") as session: …
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Unpack

import msgspec

from durasess.engine import paths, workers
from durasess.engine.receipt import Receipt
from durasess.engine.types import LOCK_TIMEOUT_S, SNAPSHOT_EVERY, Migration, Mode
from durasess.errors import SessionExistsError, SessionNotFoundError
from durasess.session import session_operations
from durasess.session.core import Core, Mask
from durasess.session.custom import Custom, CustomReducer
from durasess.session.engines import SelfCheckError
from durasess.session.masking import mask_secrets
from durasess.session.opening import open_core, open_for_import
from durasess.session.options import SessionOptions
from durasess.session.out_of_line import THRESHOLD
from durasess.session.recovering import ChildSeen
from durasess.session.session import Session
from durasess.session.state import RESIDENT_MESSAGES
from durasess.session.tools import Tool, Verifier, declared
from durasess.store import beginning, keeping, listing, placement
from durasess.store.async_opening import AsyncOpening
from durasess.store.beginning import CreateOptions
from durasess.store.catalog import Catalog

_LOGGER = logging.getLogger("durasess")


class Store(Catalog):
    """A directory of sessions, made with the first of them. What is done with sessions without
    opening them (list, search, pack, delete …) is in its base class, Catalog.

    Parameters:

    * `path`: default is the directory that $DURASESS_HOME names, else the user's data directory.
    * `mask(data)`: takes secrets out of everything before it is written; None for nothing.
    * `reducers`: by type of the program's own events, `reducer(custom_state, event)` returns the
      next custom state, or None when it changed the one it got. `custom_version` and
      `custom_migrations[v]` (a Migration, from v to v + 1) are of those events and that state.
    * `resident_messages`: how many of the newest messages a state holds.
    * `blob_bytes`: the size in bytes beyond which a value is stored out of line; 0 for never.
    * `snapshot_every`: events between two snapshots, fewer where they have more than 4 KiB each.
    * `lock_timeout`: seconds that a writer that shares a session waits for others.
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
        self._has_warned = False
        self._tools: dict[str, Tool] = {}
        options = SessionOptions(
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
        super().__init__(path, options, allow_network=allow_network)

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

        `workspace`: the directory that its tools work in. `model` and `config` go into
        `runtime_config`; credentials are refused. `system`: the system prompt. `title`, `labels`,
        `user_id` and `origin` are for lists. `parent`, `parent_call`: the session, and the call
        there, that it works for. Raises SessionExistsError when there is one with this id,
        SessionNotFoundError for a text that cannot be an id, WorkspaceNotFoundError,
        EventRejectedError, StorageError.
        """
        first = beginning.first_events(
            workspace=workspace,
            model=model,
            system=system,
            title=title,
            labels=labels,
            user_id=user_id,
            origin=origin,
            config=config,
            parent=parent,
            parent_call=parent_call,
            custom_version=self._options.custom.version,
            mask=self._options.mask,
        )
        if mode == "read":
            raise ValueError('a session is made with mode "own" or "shared", not "read"')
        chosen = self.new_id() if session_id is None else session_id
        path = self._path_of(chosen)
        self._prepare()
        if self._is_there(path):
            raise beginning.exists_error(path)
        session = self._open(path, mode, create=True, at_least=None)
        if not beginning.begin(session, lambda: first):
            session.close()
            raise beginning.exists_error(path)
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
        now, if it moved; a reader records nothing and leaves it as it is. Raises
        SessionNotFoundError, SessionLockedError, CorruptionError, FormatVersionError, StorageError;
        a failed open changes nothing.
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

    def open_or_create(
        self, session_id: str, *, mode: Mode = "own", **options: Unpack[CreateOptions]
    ) -> Session:
        """Open the session with this id, or make it; `options` are those of `create`."""
        self._path_of(session_id)
        try:
            return self._opened(session_id, mode, at_least=None, made_with=options)
        except SessionNotFoundError:
            try:
                return self.create(session_id, mode=mode, **options)
            except SessionExistsError:
                # Somebody made it meanwhile.
                return self._opened(session_id, mode, at_least=None, made_with=options)

    def open_async(
        self,
        session_id: str,
        *,
        mode: Mode = "own",
        at_least: Receipt | None = None,
        workspace: str | os.PathLike[str] | None = None,
    ) -> AsyncOpening:
        """`open` for tasks: `async with store.open_async(…) as session`, or await it."""
        return AsyncOpening(
            lambda: self.open(session_id, mode=mode, at_least=at_least, workspace=workspace)
        )

    def create_async(
        self,
        session_id: str | None = None,
        *,
        mode: Mode = "own",
        **options: Unpack[CreateOptions],
    ) -> AsyncOpening:
        """`create` for tasks."""
        return AsyncOpening(lambda: self.create(session_id, mode=mode, **options))

    def open_or_create_async(
        self, session_id: str, *, mode: Mode = "own", **options: Unpack[CreateOptions]
    ) -> AsyncOpening:
        """`open_or_create` for tasks."""
        return AsyncOpening(lambda: self.open_or_create(session_id, mode=mode, **options))

    def fork_async(
        self,
        session_id: str,
        *,
        at_seq: int | None = None,
        new_id: str | None = None,
        mode: Mode = "own",
    ) -> AsyncOpening:
        """`fork` for tasks."""
        return AsyncOpening(lambda: self.fork(session_id, at_seq=at_seq, new_id=new_id, mode=mode))

    def latest_async(
        self, *, workspace: str | os.PathLike[str] | None = None, mode: Mode = "own"
    ) -> AsyncOpening:
        """`latest` for tasks."""
        return AsyncOpening(lambda: self.latest(workspace=workspace, mode=mode))

    def latest(
        self, *, workspace: str | os.PathLike[str] | None = None, mode: Mode = "own"
    ) -> Session:
        """Open the session with the newest event, of those for this workspace if one is given;
        archived ones and children don't count, forks do. SessionNotFoundError when there is none,
        StorageError when those that there are cannot be read."""
        best = listing.latest(self._disk, self.path, workspace)
        return self.open(best, mode=mode)

    def fork(
        self,
        session_id: str,
        *,
        at_seq: int | None = None,
        new_id: str | None = None,
        mode: Mode = "own",
    ) -> Session:
        """Make a session of the events 1 to `at_seq` of another, by default all, and open it.

        The parent stays as it is and may be open. Calls that were open at the cut are closed as not
        run in this branch. EventRejectedError when there is no such seq, StorageError when it was
        pruned, SessionExistsError for a `new_id` that is taken.
        """
        return self.open(self.make_fork(session_id, at_seq=at_seq, new_id=new_id), mode=mode)

    def create_child(
        self, session_id: str, *, parent: str, parent_call: str, options: dict[str, Any]
    ) -> Session:
        """Make a session that works for another; `options` are those of `create`."""
        return self.create(session_id, parent=parent, parent_call=parent_call, **options)

    def open_for_import(self, session_id: str) -> tuple[Core, SessionOptions]:
        """For importers: the session's engine, unchecked and not recovered, the session made when
        it is missing; and the options of this store. Close the engine. Raises as `open`."""
        path = self._path_of(session_id)
        self._prepare()
        return open_for_import(path, self._options), self._options

    def _opened(
        self, session_id: str, mode: Mode, *, at_least: Receipt | None, made_with: CreateOptions
    ) -> Session:
        """An existing session. When its maker was killed between making it and saying what it is,
        that is said now: `made_with`, options of `create`."""
        session = self._open(self._path_of(session_id), mode, create=False, at_least=at_least)
        if mode != "read" and session.last_seq == 0:
            custom, mask = self._options.custom, self._options.mask
            beginning.begin(
                session,
                lambda: beginning.first_events(
                    custom_version=custom.version, mask=mask, **made_with
                ),
            )
        return session

    def _open(self, path: str, mode: Mode, *, create: bool, at_least: Receipt | None) -> Session:
        try:
            core, report = open_core(
                path, self._options, mode=mode, create=create, at_least=at_least
            )
        except SelfCheckError as error:
            self._keep(path, error)
            raise
        warnings = placement.warnings_where(self.path)
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

    def _look_at(self, session_id: str) -> ChildSeen:
        """How a child of an interrupted run is, without changing it."""
        path = self._path_of(session_id)
        try:
            core, _ = open_core(path, self._options, mode="read")
        except SessionNotFoundError:
            return ChildSeen("not_made")
        status, answer = session_operations.outcome_of(core)
        if status == "running" and not self._is_held(session_id):
            status = "interrupted"
        return ChildSeen(status, answer, core.state.meta.parent)

    def _is_held(self, session_id: str) -> bool:
        """Whether somebody has the session open for writing."""
        path = paths.join(self.path, session_id)
        return workers.held_as(self._disk, path) is not None

    def __repr__(self) -> str:
        return f"<Store {self.path}>"
