"""The reducer takes whatever a log holds; what it makes can be stored, and is bounded in size."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durasess.engine import state as stored
from durasess.session import events
from durasess.session.reducer import Reducer
from durasess.session.state import OPEN_CALLS, SessionState
from tests.support.harness import fold, numbered
from tests.support.random_logs import JSON, busy_log, random_log

FIELDS = sorted({name for kind in events.TYPES.values() for name in kind.__struct_fields__})


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_any_log_becomes_states_that_come_back_equal(seed, resident):
    reducer = Reducer(resident_messages=resident)
    state = reducer.initial()
    for event in random_log(seed):
        state = reducer.apply(state, event)
        assert stored.decode(stored.encode(state, SessionState), SessionState) == state


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_state_before_any_event_is_left_as_it_was(seed, resident):
    reducer = Reducer(resident_messages=resident)
    state = reducer.initial()
    for event in random_log(seed):
        kept = stored.encode(state, SessionState)
        after = reducer.apply(state, event)
        assert event.type == "message_delta" or stored.encode(state, SessionState) == kept
        state = after


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*events.TYPES, "weather"]), JSON, st.lists(st.sampled_from(FIELDS)))
def test_any_json_as_data_is_taken(type, value, names):
    said = [(type, value), (type, dict.fromkeys(names, value))]
    state = fold(numbered(("run_started", {"request": "x"}, "r1"), *said))
    assert state.seq == 3


@pytest.mark.parametrize("resident", [1, 4, 200])
def test_state_of_20000_events_is_bounded(resident):
    reducer = Reducer(resident_messages=resident)
    state = reducer.initial()
    for event in busy_log(20_000 if resident == 200 else 3_000, seed=resident):
        state = reducer.apply(state, event)
        assert len(state.messages) <= resident * 1.25 + 1 or _is_one_turn(state, resident)
    asked = {key for message in state.messages for key in message.calls}
    closed = {key for key, one in state.tool_states.items() if one.status not in OPEN_CALLS}
    assert closed <= asked


def _is_one_turn(state, resident):
    """A reply with so many results that it stays as a whole."""
    return not any(one.role != "tool" for one in state.messages[len(state.messages) - resident :])


@pytest.mark.parametrize("value", ["inf", "nan", -1, 1e300])
def test_odd_time_limits_of_a_log_can_be_stored(value):
    said = ("tool_started", {"detached": True, "operation_id": "o", "timeout_s": value})
    state = fold(numbered(said))
    assert stored.decode(stored.encode(state, SessionState), SessionState) == state
