"""The reducer: what each type of event does to the state, one small case for each rule."""

import pytest

from durasess.session import events
from durasess.session.reducer import Reducer
from durasess.session.state import CHILDREN_KEPT, Usage
from tests.support.harness import encoded, fold, numbered, reply, state_after

CREATED = ("session_created", {"title": "t", "labels": {"a": "b"}, "user_id": "u"})
RUN = ("run_started", {"request": "do it", "worker": {"worker_id": "w"}}, "r1")
ASKED = ("assistant_message", reply("c"), "r1")
STARTED = ("tool_started", {"key": "3.0", "operation_id": "o", "effect": "idempotent"}, "r1", "c")
DONE = ("tool_result", {"key": "3.0", "output": "ok"}, "r1", "c")
FINISHED = ("run_finished", {"status": "succeeded"}, "r1")
FAILED = ("run_finished", {"status": "failed", "error": "E: no"}, "r1")
UNSURE = ("tool_recovery", {"key": "3.0", "outcome": "uncertain", "reason": "crash"}, "r1", "c")
BEGUN = (CREATED, RUN, ASKED)
RUNNING = (*BEGUN, STARTED)


def of_call(field):
    return lambda state: getattr(state.tool_states["3.0"], field)


def roles(state):
    return [(one.seq, one.role) for one in state.messages]


def recovered(outcome, **more):
    return ("tool_recovery", {"key": "3.0", "outcome": outcome, **more}, "r1", "c")


CASES = {
    "session_created": ([CREATED], lambda s: (s.meta.title, s.meta.labels), ("t", {"a": "b"})),
    "session_changed": (
        [CREATED, ("session_changed", {"status": "archived", "pinned": True})],
        lambda s: (s.meta.title, s.meta.status, s.meta.pinned),
        ("t", "archived", True),
    ),
    "workspace_bound": ([("workspace_bound", {"path": "/w"})], lambda s: s.meta.workspace, "/w"),
    "config_changed": (
        [
            ("config_changed", {"config": {"a": 1, "b": 2}}),
            ("config_changed", {"config": {"a": None}}),
        ],
        lambda s: s.runtime_config,
        {"b": 2},
    ),
    "system_message": ([("system_message", {"content": "S"})], lambda s: s.system[0].content, "S"),
    "system_message replaced": (
        [
            ("system_message", {"content": "S"}),
            ("system_message", {"content": "X", "name": "x"}),
            ("system_message", {"content": "T"}),
        ],
        lambda s: [one.content for one in s.system],
        ["T", "X"],
    ),
    "system_message removed": (
        [("system_message", {"content": "S"}), ("system_message", {"content": None})],
        lambda s: s.system,
        [],
    ),
    "run_started": (
        [CREATED, RUN],
        lambda s: (s.open_run.run_id, s.open_run.request, roles(s)),
        ("r1", "do it", [(2, "user")]),
    ),
    "run_started without a request": (
        [CREATED, ("run_started", {"resumes": "r0"}, "r1")],
        lambda s: (s.open_run.resumes, roles(s)),
        ("r0", []),
    ),
    "run_started in a completed session": (
        [CREATED, ("session_changed", {"status": "completed"}), RUN],
        lambda s: s.meta.status,
        "active",
    ),
    "run_started inside a run": (
        [CREATED, RUN, ("run_started", {"request": "more"}, "r2")],
        lambda s: [(one.run_id, one.status) for one in s.runs],
        [("r1", "interrupted"), ("r2", "running")],
    ),
    "user_message": (
        [CREATED, RUN, ("user_message", {"content": "x"})],
        roles,
        [(2, "user"), (3, "user")],
    ),
    "message_delta": (
        [
            CREATED,
            RUN,
            ("message_delta", {"text": "a"}, "r1"),
            ("message_delta", {"text": "b"}, "r1"),
        ],
        lambda s: s.partial.chunks,
        ["a", "b"],
    ),
    "message_delta cut off": (
        [CREATED, RUN, ("message_delta", {"text": "a"}, "r1"), FAILED],
        lambda s: (s.partial, s.messages[-1].content, s.messages[-1].partial),
        (None, "a", True),
    ),
    "assistant_message": (
        [CREATED, RUN, ASKED],
        lambda s: (s.messages[-1].calls, s.tool_states["3.0"].status, s.counts.calls),
        (["3.0"], "pending", 1),
    ),
    "assistant_message with usage": (
        [CREATED, RUN, ("assistant_message", {"usage": {"prompt": 3, "completion": 2}}, "r1")],
        lambda s: (s.usage, s.open_run.usage),
        (Usage(3, 2, 5), Usage(3, 2, 5)),
    ),
    "approval_requested": (
        [*BEGUN, ("approval_requested", {"key": "3.0", "prompt": "sure?"}, "r1", "c")],
        lambda s: (of_call("status")(s), of_call("waits_for")(s), of_call("prompt")(s)),
        ("waiting", "approval", "sure?"),
    ),
    "approval_decided": (
        [
            *BEGUN,
            ("approval_requested", {"key": "3.0"}, "r1", "c"),
            ("approval_decided", {"key": "3.0", "approved": True, "by": "ann"}, "r1", "c"),
        ],
        lambda s: (of_call("status")(s), of_call("approved")(s), of_call("decided_by")(s)),
        ("pending", True, "ann"),
    ),
    "callback_requested": (
        [*RUNNING, ("callback_requested", {"key": "3.0"}, "r1", "c")],
        lambda s: (of_call("status")(s), of_call("waits_for")(s)),
        ("waiting", "callback"),
    ),
    "tool_started": (
        RUNNING,
        lambda s: tuple(of_call(f)(s) for f in ("status", "started_seq", "effect", "attempt")),
        ("running", 4, "idempotent", 1),
    ),
    "tool_started by no message": (
        [CREATED, ("tool_started", {"detached": True, "operation_id": "o", "name": "n"})],
        lambda s: (s.tool_states["once:o"].status, s.tool_states["once:o"].detached),
        ("running", True),
    ),
    "tool_result": (
        [*RUNNING, DONE],
        lambda s: (of_call("status")(s), of_call("result_seq")(s), roles(s)[-1]),
        ("completed", 5, (5, "tool")),
    ),
    "tool_result that is an error": (
        [*RUNNING, ("tool_result", {"key": "3.0", "ok": False, "output": "no"}, "r1", "c")],
        lambda s: (of_call("status")(s), s.messages[-1].ok),
        ("failed", False),
    ),
    "tool_result twice": (
        [*RUNNING, DONE, DONE],
        lambda s: (s.counts.duplicates, len(s.messages)),
        (1, 3),
    ),
    "tool_result of no call": (
        [CREATED, ("tool_result", {"output": 1}, "r1", "zz")],
        lambda s: (s.counts.orphans, s.messages),
        (1, []),
    ),
    "tool_result by the provider's id": (
        [*RUNNING, ("tool_result", {"output": "ok"}, "r1", "c")],
        of_call("status"),
        "completed",
    ),
    "tool_recovery uncertain": (
        [*RUNNING, UNSURE],
        lambda s: (of_call("status")(s), of_call("reason")(s), of_call("recovery_seq")(s)),
        ("uncertain", "crash", 5),
    ),
    "tool_recovery not_started": (
        [*BEGUN, recovered("not_started")],
        of_call("status"),
        "not_started",
    ),
    "tool_recovery applied": (
        [*RUNNING, UNSURE, recovered("applied", output="yes", by="ann")],
        lambda s: (of_call("status")(s), of_call("decision")(s), s.messages[-1].content),
        ("completed", "applied", "yes"),
    ),
    "tool_recovery applied without output": (
        [*RUNNING, UNSURE, recovered("applied")],
        lambda s: (of_call("status")(s), len(s.messages)),
        ("completed", 2),
    ),
    "tool_recovery not_applied": (
        [*RUNNING, UNSURE, recovered("not_applied")],
        lambda s: (of_call("status")(s), of_call("decision")(s)),
        ("failed", "not_applied"),
    ),
    "tool_recovery abandoned": (
        [*RUNNING, UNSURE, recovered("abandoned")],
        lambda s: (of_call("status")(s), of_call("decision")(s)),
        ("failed", "abandoned"),
    ),
    "tool_recovery rerun": (
        [*RUNNING, UNSURE, recovered("rerun")],
        lambda s: (of_call("status")(s), of_call("operation_id")(s)),
        ("pending", "o"),
    ),
    "tool_recovery of an outcome nobody knows": (
        [*RUNNING, recovered("exploded")],
        lambda s: (of_call("status")(s), s.counts.orphans),
        ("running", 1),
    ),
    "run_finished": (
        [*RUNNING, DONE, FINISHED],
        lambda s: (s.open_run, s.runs[-1].status, s.runs[-1].finished_seq, s.notice),
        (None, "succeeded", 6, None),
    ),
    "run_finished interrupted": (
        [*RUNNING, UNSURE, ("run_finished", {"status": "interrupted", "reason": "kill"}, "r1")],
        lambda s: (s.notice.run_id, s.notice.keys, s.notice.reason),
        ("r1", ["3.0"], "kill"),
    ),
    "run_finished interrupted, and answered": (
        [
            *RUNNING,
            UNSURE,
            ("run_finished", {"status": "interrupted"}, "r1"),
            ("assistant_message", {}),
        ],
        lambda s: s.notice,
        None,
    ),
    "run_finished without a run": ([CREATED, FINISHED], lambda s: s.runs, []),
    "checkpoint": (
        [CREATED, ("checkpoint", {"dispatched": 1, "next": {"step": 2}})],
        lambda s: (s.checkpoint.dispatched, s.checkpoint.next, s.checkpoint.seq),
        (1, {"step": 2}, 2),
    ),
    "context_compacted": (
        [
            CREATED,
            RUN,
            ("assistant_message", {"content": "a"}),
            ("context_compacted", {"summary": "S", "through": 2}),
        ],
        lambda s: (roles(s), s.compaction.summary),
        ([(3, "assistant")], "S"),
    ),
    "usage_recorded": (
        [CREATED, RUN, ("usage_recorded", {"usage": {"prompt": 1, "cost": 0.5}}, "r1")],
        lambda s: (s.usage, s.runs[-1].usage),
        (Usage(1, 0, 1, 0.5), Usage(1, 0, 1, 0.5)),
    ),
    "usage_recorded with a source": (
        [
            CREATED,
            ("usage_recorded", {"usage": {"prompt": 1}, "source": "s", "counters": {"prompt": 9}}),
        ],
        lambda s: s.counters["s"].prompt,
        9,
    ),
    "task_changed": (
        [("task_changed", {"goal": "g", "pending": ["p"]}), ("task_changed", {"status": "half"})],
        lambda s: (s.task.goal, s.task.status, s.task.pending),
        ("g", "half", ["p"]),
    ),
    "state_set": (
        [("state_set", {"name": "a", "value": [1]})],
        lambda s: s.custom_state,
        {"a": [1]},
    ),
    "state_set to null": (
        [("state_set", {"name": "a", "value": 1}), ("state_set", {"name": "a", "value": None})],
        lambda s: s.custom_state,
        {},
    ),
    "child_started": (
        [*RUNNING, ("child_started", {"session_id": "k", "key": "3.0"}, "r1", "c")],
        lambda s: (s.children["k"].status, s.children["k"].key, of_call("child")(s)),
        ("running", "3.0", "k"),
    ),
    "child_finished": (
        [
            CREATED,
            ("child_started", {"session_id": "k"}),
            ("child_finished", {"session_id": "k", "status": "succeeded", "result": 7}),
        ],
        lambda s: (s.children["k"].status, s.children["k"].result),
        ("succeeded", 7),
    ),
    "child_finished of no child": (
        [("child_finished", {"session_id": "k", "status": "succeeded"})],
        lambda s: (s.children, s.counts.orphans),
        ({}, 1),
    ),
    "rewound": (
        [CREATED, RUN, FINISHED, ("user_message", {"content": "no"}), ("rewound", {"to": 3})],
        lambda s: (roles(s), s.hidden),
        ([(2, "user")], [[4, 5]]),
    ),
    "rewound behind a compaction": (
        [
            CREATED,
            RUN,
            FINISHED,
            ("context_compacted", {"summary": "S", "through": 2}),
            ("rewound", {"to": 3}),
        ],
        lambda s: (s.compaction, s.older_since),
        (None, 1),
    ),
    "note": ([CREATED, ("note", {"text": "x"})], lambda s: (s.seq, s.counts.unreadable), (2, 0)),
    "custom_schema_changed": (
        [CREATED, ("custom_schema_changed", {"version": 3})],
        lambda s: s.custom_version,
        3,
    ),
    "an unknown type": (
        [CREATED, ("weather", {"rain": True})],
        lambda s: (s.seq, s.counts.unreadable),
        (2, 0),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_event_changes_the_state_as_the_table_says(name):
    said, look, expected = CASES[name]
    assert look(state_after(*said)) == expected


def test_every_type_has_a_case_in_the_table():
    assert {name.split()[0].rstrip(",") for name in CASES} >= set(events.TYPES)


@pytest.mark.parametrize("name", CASES)
def test_state_before_an_event_is_as_it_was(name):
    said, _, _ = CASES[name]
    *before, last = numbered(*said)
    state = fold(before)
    kept = encoded(state)
    Reducer().apply(state, last)
    if last.type != "message_delta":
        assert encoded(state) == kept


@pytest.mark.parametrize("type", events.TYPES)
@pytest.mark.parametrize("data", [None, [], "x", 7, {"status": 3, "key": [], "usage": []}])
def test_data_that_the_type_does_not_hold_changes_nothing_but_a_count(type, data):
    state = state_after(CREATED, RUN, (type, data, "r1"))
    before = state_after(CREATED, RUN)
    assert state.messages == before.messages
    assert state.counts.unreadable in (0, 1)


@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("assistant_message", {"content": "a", "usage": {"prompt": "12"}}),
        ("usage_recorded", {"usage": {"prompt": "12"}, "extra": [1]}),
        ("usage_recorded", {"usage": {"prompt": 12, "weird": 3}}),
    ],
)
def test_v1_numbers_as_texts_and_fields_of_newer_writers_are_read(type, data):
    assert state_after(CREATED, RUN, (type, data, "r1")).usage.prompt == 12


def test_ids_of_once_are_bounded_and_counted(monkeypatch):
    monkeypatch.setattr("durasess.session.reduce_calls.OPERATIONS_KEPT", 3)
    said = [CREATED]
    for n in range(5):
        said.append(("tool_started", {"detached": True, "operation_id": f"o{n}"}))
        said.append(("tool_result", {"key": f"once:o{n}", "output": n}))
    state = state_after(*said)
    assert (list(state.operations), state.operations_left_out) == (["o2", "o3", "o4"], 2)


def test_children_that_ended_are_kept_by_number_and_those_that_work_all():
    said = [("session_created", {})]
    for number in range(CHILDREN_KEPT + 10):
        said.append(("child_started", {"session_id": f"k{number}"}))
        if number > 2:
            said.append(("child_finished", {"session_id": f"k{number}", "status": "succeeded"}))
    state = state_after(*said)
    assert len(state.children) == CHILDREN_KEPT + 3 and state.children_left_out == 7
    assert list(state.children)[:4] == ["k0", "k1", "k2", "k10"]
    again = state_after(*said, ("child_finished", {"session_id": "k3", "status": "failed"}))
    assert again.counts.orphans == 1 and again.children == state.children
