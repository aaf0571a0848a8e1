"""A session's events for the index and for searches: read beside whoever writes, changing nothing.

The state is not folded: what is asked here is in the events.
"""

from __future__ import annotations

from durasess.engine.engine import Engine
from durasess.session import events
from durasess.session.migrations import MIGRATIONS


def opened(path: str) -> Engine:
    """A handle for reading; older events come as the newest version has them. What cannot be read
    raises as opening does; damage is passed over and told in its `damage`."""
    return Engine.open(
        path, mode="read", schema_version=events.SCHEMA_VERSION, migrations=MIGRATIONS
    )
