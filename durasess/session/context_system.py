"""The system text: the program's own parts, then summary, task and recovery block as sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from durasess.session.context_content import spoken, text_of
from durasess.session.context_notice import recovery_block
from durasess.session.context_text import Cleaner, as_text, section
from durasess.session.state import SessionState, Task


def system_text(
    state: SessionState,
    cleaner: Cleaner,
    *,
    ids: Mapping[str, str],
    resolve: Callable[[Any], Any],
    workspace_note: str,
) -> str:
    """Parts in their order, then the sections that have something to tell, a blank line between.

    `ids` are the call ids of the context by key, where they are not those of the record.
    """
    texts = [text_of(spoken(cleaner.value(resolve(part.content)))) for part in state.system]
    if state.compaction is not None and state.compaction.summary:
        texts.append(section("summary", cleaner.text(state.compaction.summary)))
    texts.append(_task(state.task, cleaner))
    texts.append(recovery_block(state, ids=ids, resolve=resolve, workspace_note=workspace_note))
    return "\n\n".join(text for text in texts if text)


def _task(task: Task, cleaner: Cleaner) -> str:
    if task == Task():
        return ""
    lines = [f"Goal: {task.goal}"] if task.goal else []
    lines += [f"Status: {task.status}"] if task.status else []
    for title, steps in (("Completed", task.completed), ("Pending", task.pending)):
        if steps:
            lines += [f"{title}:", *(f"- {as_text(cleaner.value(step))}" for step in steps)]
    return section("task", cleaner.text("\n".join(lines)))
