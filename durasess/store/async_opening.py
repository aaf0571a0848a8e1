"""Opening a session from a task: it waits, the event loop goes on."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any

from durasess.session.async_session import AsyncSession
from durasess.session.session import Session
from durasess.session.tasks import opened_in_thread


class AsyncOpening:
    """A session to be opened: in an `async with` block, which closes it, or with `await`."""

    def __init__(self, open_now: Callable[[], Session]) -> None:
        self._open_now = open_now
        self._session: AsyncSession | None = None

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        return self._open().__await__()

    async def _open(self) -> AsyncSession:
        return AsyncSession(await opened_in_thread(self._open_now))

    async def __aenter__(self) -> AsyncSession:
        self._session = await self._open()
        return self._session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.__aexit__(kind, error, traceback)
