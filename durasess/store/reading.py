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


def damage_of(engine: Engine) -> str:
    """What was found damaged until now, for people; empty when nothing was."""
    if not engine.damage:
        return ""
    more = f" and {len(engine.damage) - 1} more" if len(engine.damage) > 1 else ""
    return f"damaged, searched as far as it can be read: {engine.damage[0]}{more}"
