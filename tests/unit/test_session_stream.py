"""A streamed reply that an exception cuts off is told at once, in the run that goes on."""

import asyncio
import contextlib

from tests.support.harness import store_at


def test_what_came_of_a_reply_before_an_exception_is_a_message_that_was_cut_off(tmp_path):
    with store_at(tmp_path).create("s") as session, session.run("q") as run:
        with contextlib.suppress(ValueError), run.stream() as reply:
            reply.delta("Wor")
            raise ValueError
        newest = session.state.messages[-1]
    assert (newest.content, newest.partial) == ("Wor", True)


def test_what_came_of_a_reply_in_a_task_is_a_message_that_was_cut_off(tmp_path):
    async def main():
        async with store_at(tmp_path).create_async("s") as session, session.run("q") as run:
            with contextlib.suppress(ValueError):
                async with run.stream() as reply:
                    await reply.delta("Wor")
                    raise ValueError
            return session.state.messages[-1]

    newest = asyncio.run(main())
    assert (newest.content, newest.partial) == ("Wor", True)
