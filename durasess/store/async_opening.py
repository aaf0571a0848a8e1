"""Opening a session from a task: it waits, the event loop goes on."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from durasess.session.async_session import AsyncSession
from durasess.session.session import Session

if TYPE_CHECKING:
    import asyncio


class AsyncOpening:
    """A session to be opened: in an `async with` block, which closes it, or with `await`."""

    def __init__(self, open_now: Callable[[], Session]) -> None:
        self._open_now = open_now
        self._session: AsyncSession | None = None

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        return self._open().__await__()

    async def _open(self) -> AsyncSession:
        import asyncio

        opening = asyncio.ensure_future(asyncio.to_thread(self._open_now))
        try:
            return AsyncSession(await asyncio.shield(opening))
        except asyncio.CancelledError:
            # The thread goes on; what it opens is let go of again.
            opening.add_done_callback(_close)
            raise

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
            await self._session.close()


def _close(opening: asyncio.Future[Session]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
