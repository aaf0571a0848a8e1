"""FAULTS R: deep nesting, long chains, cycles."""

import pytest

from durasess import EventRejectedError
from tests.support.sessions import open_inline, state_of


def test_r1_ten_thousand_events_each_the_child_of_the_one_before(tmp_path):
    with open_inline(tmp_path / "s1") as engine:
        for start in range(0, 10_000, 1000):
            engine.append_many([("child", {"parent": n}) for n in range(start, start + 1000)])
    assert state_of(tmp_path / "s1")[-1] == {"parent": 9999}


@pytest.mark.parametrize("depth", [101, 1000, 100_000])
def test_r1_value_that_is_too_deep_is_refused_not_a_stack_overflow(tmp_path, depth):
    value = []
    for _ in range(depth):
        value = [value]
    with open_inline(tmp_path / "s1") as engine:
        with pytest.raises(EventRejectedError, match="more than 100 containers"):
            engine.append("t", value)
        assert engine.append("t", 1).seq == 1


@pytest.mark.parametrize("kind", [list, dict])
def test_r2_cycle_is_refused(tmp_path, kind):
    value = kind()
    if kind is list:
        value.append(value)
    else:
        value["self"] = {"again": value}
    with open_inline(tmp_path / "s1") as engine:
        with pytest.raises(EventRejectedError, match="or a cycle"):
            engine.append("t", value)
        assert engine.append("t", 1).seq == 1


def test_r2_state_with_a_cycle_or_too_deep_is_refused_at_the_snapshot_alone(tmp_path):
    def tie(state, event):
        state.append(state)

    with open_inline(tmp_path / "s1", apply=tie) as engine:
        engine.append("t", 1)
        with pytest.raises(EventRejectedError, match="state"):
            engine.snapshot()
        assert engine.append("t", 2).seq == 2


def test_r2_state_deeper_than_every_reader_takes_is_refused(tmp_path):
    """Newer interpreters would store it, and what they store an older one could not open."""

    def deepen(state, event):
        return [state]

    engine = open_inline(tmp_path / "s1", apply=deepen)
    engine.append_many([("t", 1)] * 3000)
    with pytest.raises(EventRejectedError, match="the state cannot be stored"):
        engine.snapshot()
    engine.close()
    with open_inline(tmp_path / "s1", apply=deepen) as again:
        assert again.last_seq == 3000
