"""Sessions opened from tasks: each way to open one, awaited or in a block, which closes it."""

import asyncio

import pytest

from durasess import SessionClosedError, SessionExistsError, SessionNotFoundError
from tests.support.harness import store_at


@pytest.fixture
def store(tmp_path):
    made = store_at(tmp_path)
    with made.create("s", title="first", workspace=tmp_path) as session:
        session.note("n")
    return made


def in_task(opening, look):
    """What `look` makes of the session while the block has it open."""

    async def main():
        async with opening as session:
            return look(session)

    return asyncio.run(main())


def test_open_async_opens_the_session_that_is_there(store):
    assert in_task(store.open_async("s"), lambda one: one.title) == "first"


def test_open_async_of_no_session_raises_what_open_raises(store):
    with pytest.raises(SessionNotFoundError):
        in_task(store.open_async("absent"), lambda one: one)


def test_open_async_binds_the_workspace_that_is_given(store, tmp_path):
    (tmp_path / "moved").mkdir()
    opening = store.open_async("s", workspace=tmp_path / "moved")
    assert in_task(opening, lambda one: one.workspace.root) == str(tmp_path / "moved")


def test_open_or_create_async_makes_what_is_missing_and_opens_what_is_there(store):
    titles = [
        in_task(store.open_or_create_async(name, title="new"), lambda one: one.title)
        for name in ("s", "t")
    ]
    assert titles == ["first", "new"]


def test_create_async_refuses_an_id_that_is_taken(store):
    with pytest.raises(SessionExistsError):
        in_task(store.create_async("s"), lambda one: one)


def test_fork_async_gives_the_fork_up_to_the_seq(store):
    fork = in_task(store.fork_async("s", at_seq=2, new_id="f"), lambda one: one.state.meta)
    assert (fork.parent, fork.parent_seq) == ("s", 2)


def test_latest_async_opens_the_newest_of_the_workspace(store, tmp_path):
    with store.create("other") as other:
        other.note("newer")
    opening = store.latest_async(workspace=tmp_path)
    assert in_task(opening, lambda one: one.session_id) == "s"


def test_session_is_closed_behind_the_block(store):
    session = in_task(store.open_async("s"), lambda one: one)
    with pytest.raises(SessionClosedError):
        asyncio.run(session.note("too late"))


def test_awaited_session_stays_open_until_it_is_closed(store):
    async def main():
        session = await store.open_async("s")
        await session.note("more")
        await session.close()
        return session.last_seq

    assert asyncio.run(main()) == 4
