"""The sessions of a store as a whole: listed, found, named, forked, packed, searched, put away.

Nothing here opens a session for a program; that is store.py's. What each method does is in the
module it calls; here is where the store lies and what its sessions are made with. SQLite and zip
files are imported by the methods that need them: a program that only opens sessions does not pay.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from durasess.engine.files import RealFiles
from durasess.errors import StorageError
from durasess.session.options import SessionOptions
from durasess.session.state import SessionStatus
from durasess.store import (
    beginning,
    changing,
    deleting,
    forking,
    ids,
    listing,
    lookup,
    placement,
    pruning,
    rows,
)
from durasess.store.changing import Moved
from durasess.store.listing import Listing, Sort, Wanted
from durasess.store.lookup import Lineage
from durasess.store.pruning import PrunedSessions

if TYPE_CHECKING:
    from durasess.store.doctor import Examined
    from durasess.store.index import By, Group, IndexedRun
    from durasess.store.packing import Packed, Unpacked
    from durasess.store.search import Found, Indexed


class Catalog:
    """A directory of sessions, looked at and kept in order.

    `path`: default is the directory that $DURASESS_HOME names, else the user's data directory.
    Methods that change a session raise SessionLockedError, naming the holder, while it is open
    anywhere, and SessionNotFoundError when there is none with this id.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        options: SessionOptions,
        *,
        allow_network: Collection[str] = (),
    ) -> None:
        self.path = placement.root_of(path)
        self._disk = RealFiles()
        self._options = options
        self._allow_network = allow_network

    # -- looking ------------------------------------------------------------------------------

    def list(
        self,
        *,
        status: SessionStatus | None = None,
        workspace: str | os.PathLike[str] | None = None,
        user_id: str | None = None,
        since: datetime.datetime | str | None = None,
        until: datetime.datetime | str | None = None,
        label: str | None = None,
        parent: str | None = None,
        sort: Sort = "activity",
        descending: bool = True,
        limit: int | None = 50,
        offset: int = 0,
        tree: bool = False,
        sizes: bool = False,
    ) -> Listing:
        """A page of the sessions, the last used first; with `tree` each with its forks and children
        under it, a family standing where its first one would.

        Reads `meta.json` of each, and of those on the page the first bytes of the files that an
        opening begins with; a session that cannot be read is a marked row. Where a run has no end,
        the kernel is asked whether its writer lives. `since` and `until` (a day: with that day) are
        about `active_at`; `label` is `name` or `name=value`; `parent` "" is for those without one.
        `sizes` adds up the bytes of the page's sessions. StorageError: the store cannot be read.
        """
        wanted = Wanted(
            status=status,
            workspace=None if workspace is None else listing.absolute(workspace),
            user_id=user_id,
            since=_checked("since", since, listing.moment(since)),
            until=_checked("until", until, listing.last_moment(until)),
            label=label,
            parent=parent,
        )
        if offset < 0 or (limit is not None and limit < 0):
            raise ValueError(f"limit and offset are 0 or more, not {limit!r} and {offset!r}")
        return listing.listing(
            self._disk,
            self.path,
            wanted,
            sort=sort,
            descending=descending,
            limit=limit,
            offset=offset,
            tree=tree,
            with_sizes=sizes,
        )

    def find(self, text: str) -> str:
        """The id of the one session that `text` means: an id, the beginning of one, a title or a
        part of one. SessionNotFoundError when no session fits, or several, which are named then."""
        return lookup.find(self._disk, self.path, text)

    def lineage(self, session_id: str) -> Lineage:
        """The session, its parent, and so on to the first."""

        def parent_of(one: str) -> str | None:
            row = rows.row_of(self._disk, self.path, one)
            return None if row is None else row.parent

        return lookup.lineage(self.required(session_id), parent_of)

    def search(
        self,
        text: str,
        *,
        status: SessionStatus | None = None,
        workspace: str | os.PathLike[str] | None = None,
        user_id: str | None = None,
        limit: int = 50,
    ) -> Found:
        """The newest messages, tool results and notes with every word of `text`, case aside, with
        secrets masked. Through the index; where that cannot be used, by reading every session."""
        from durasess.store import search

        place = None if workspace is None else listing.absolute(workspace)
        wanted = Wanted(status=status, workspace=place, user_id=user_id)
        return search.search(self._disk, self.path, text, wanted, limit=limit)

    def runs(self, *, limit: int = 100, failed: bool = False) -> tuple[IndexedRun, ...]:
        """The newest runs of all sessions; with `failed` every one that failed or was interrupted.
        StorageError when the index cannot be used; where it may not be written, it is made in
        memory."""
        from durasess.store import search

        return tuple(search.runs(self._disk, self.path, limit=limit, failed=failed))

    def statistics(self, by: By = "day") -> tuple[Group, ...]:
        """Runs, their mean time, tokens and cost, by day, model or workspace. What a fork has from
        its parent counts once. StorageError when the index cannot be used."""
        from durasess.store import search

        return tuple(search.groups(self._disk, self.path, by))

    def rebuild_index(self) -> Indexed:
        """Make the index anew; it is brought up to date by itself whenever it is asked."""
        from durasess.store import search

        return search.rebuild(self._disk, self.path)

    def examine(self) -> Examined:
        """Where the store lies, who has what open, what was left behind; changes nothing."""
        from durasess.store import doctor

        return doctor.examine(self._disk, self.path)

    def remove_leftovers(self) -> tuple[str, ...]:
        """Remove what deletions left that were cut short, and what was being made and has not
        changed for an hour; the paths. No session is touched, and nothing calls this by itself."""
        now = self._options.clock() / 1e9
        return tuple(deleting.remove_leftovers(self._disk, self.path, now=now))

    # -- changing what is closed --------------------------------------------------------------

    def rename(self, session_id: str, title: str) -> None:
        """Give the session another title."""
        changing.change(self._at(session_id), self._options, title=title)

    def rewind(self, session_id: str, *, to: int) -> None:
        """What was said behind seq `to` does not count any more; nothing is deleted.
        EventRejectedError when there is no such seq before the last one, or a run has no end."""
        changing.rewind(self._at(session_id), self._options, to=to)

    def archive(self, session_id: str) -> None:
        """Put it away: it takes no run, and `latest` passes it over."""
        changing.change(self._at(session_id), self._options, status="archived")

    def unarchive(self, session_id: str) -> None:
        """Make it active again."""
        changing.change(self._at(session_id), self._options, status="active")

    def pin(self, session_id: str) -> None:
        """Keep it: neither `delete` nor `prune` removes it."""
        changing.change(self._at(session_id), self._options, pinned=True)

    def unpin(self, session_id: str) -> None:
        """It may be removed again."""
        changing.change(self._at(session_id), self._options, pinned=False)

    def move_workspace(
        self,
        old: str | os.PathLike[str],
        new: str | os.PathLike[str],
        *,
        dry_run: bool = True,
    ) -> tuple[Moved, ...]:
        """A project moved from `old` to `new`: bind its sessions to the new place, or say which.
        WorkspaceNotFoundError when `new` is no directory."""
        return tuple(
            changing.move_workspace(
                self._disk,
                self.path,
                listing.absolute(old),
                listing.absolute(new),
                self._options,
                dry_run=dry_run,
            )
        )

    def delete(self, session_id: str, *, even_pinned: bool = False) -> None:
        """Remove a session for good. EventRejectedError when it is pinned and `even_pinned` is
        False."""
        self.required(session_id)
        deleting.delete(
            self._disk, self.path, session_id, token=ids.token(), even_pinned=even_pinned
        )

    def prune(
        self,
        *,
        older_than: datetime.timedelta | None = None,
        larger_than: int | None = None,
        status: SessionStatus | None = None,
        dry_run: bool = True,
    ) -> PrunedSessions:
        """Remove the sessions that fit every criterion given, or say which: whose last event is
        older, that take more bytes, that have this status. Pinned and open ones stay. Nothing calls
        this by itself. ValueError without a criterion."""
        now = datetime.datetime.fromtimestamp(self._options.clock() / 1e9, datetime.UTC)
        return pruning.prune(
            self._disk,
            self.path,
            older_than=older_than,
            larger_than=larger_than,
            status=status,
            now=now,
            token=ids.token,
            dry_run=dry_run,
        )

    # -- copies -------------------------------------------------------------------------------

    def make_fork(
        self, session_id: str, *, at_seq: int | None = None, new_id: str | None = None
    ) -> str:
        """Make a session of the events 1 to `at_seq` of another, by default all, and leave it
        closed; its id. See forking.fork."""
        self._at(session_id)
        chosen = self.new_id() if new_id is None else new_id
        if self._is_there(self._path_of(chosen)):
            raise beginning.exists_error(self._path_of(chosen))
        forking.fork(
            self._disk,
            self.path,
            session_id,
            self._options,
            at_seq=at_seq,
            new_id=chosen,
            token=ids.token(),
        )
        return chosen

    def pack(self, session_id: str, file: str | os.PathLike[str]) -> Packed:
        """Write a session into the new `file`, a zip archive. CorruptionError for a damaged one,
        StorageError when the file is there."""
        from durasess.store import packing

        self.required(session_id)
        return packing.pack(self._disk, self.path, session_id, _file(file))

    def unpack(self, file: str | os.PathLike[str]) -> Unpacked:
        """Bring a packed session into the store. Where another one has its id, it becomes a copy
        with an id of its own: nothing is overwritten or merged. CorruptionError for a damaged
        file; nothing of it is kept then."""
        from durasess.store import packing

        self._prepare()
        now = self._options.clock()
        return packing.unpack(self._disk, self.path, _file(file), now=now, token=ids.token())

    # -- where they are -----------------------------------------------------------------------

    def new_id(self) -> str:
        """A session id that nobody has."""
        return ids.new_id(self._options.clock())

    def required(self, session_id: str) -> str:
        """The id of a session that is there. SessionNotFoundError."""
        return rows.required(self._disk, self.path, session_id).session_id

    def _at(self, session_id: str) -> str:
        return rows.required(self._disk, self.path, session_id).path

    def _path_of(self, session_id: str) -> str:
        return rows.path_of(self.path, session_id)

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
        placement.prepare(self._disk, self.path, allow=self._allow_network)


def _file(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.path.expanduser(os.fspath(path)))


def _checked(
    name: str, given: datetime.datetime | str | None, found: datetime.datetime | None
) -> datetime.datetime | None:
    if found is None and given:
        raise ValueError(f"{name} is a datetime or an RFC 3339 text, not {given!r:.80}")
    return found
