"""Any state and history gives a context that every provider takes, and the truth about the rest."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from durasess.session.context import plan
from tests.support.contexts import broken, histories

BUDGETS = st.none() | st.integers(0, 400)


@given(histories(), BUDGETS)
@settings(deadline=None, max_examples=300)
def test_any_history_gives_a_context_that_every_provider_takes(history, budget):
    state, older = history
    context = plan(state, older=older, max_tokens=budget, workspace_note="moved")
    assert broken(context) == []


@given(histories(), BUDGETS)
@settings(deadline=None, max_examples=200)
def test_every_message_that_was_read_is_told_or_counted(history, budget):
    state, older = history
    pulled = []
    context = plan(state, older=_watched(older, pulled), max_tokens=budget)
    read = [*state.messages, *(one for chunk in pulled for one in chunk[0])]
    told = {message["seq"] for message in context.messages} - {0}
    left = context.left_out
    counted = left.messages + left.orphans + left.duplicates + left.empty
    assert len(read) == len(told) + counted
    users = {one.seq for one in read if one.role == "user"}
    assert left.turns == len(users - told)
    assert left.unread or len(pulled) == len(older) or not state.older_since


@given(histories(), st.integers(0, 400))
@settings(deadline=None, max_examples=200)
def test_more_than_the_minimum_never_goes_beyond_the_budget(history, budget):
    state, older = history
    context = plan(state, older=older, max_tokens=budget)
    minimum = plan(state, older=older, max_tokens=0)
    assert context.tokens <= budget or context == minimum


@given(histories())
@settings(deadline=None, max_examples=100)
def test_a_plan_changes_nothing_and_the_next_one_is_the_same(history):
    state, older = history
    before = repr((state, older))
    first = plan(state, older=older)
    rendered = repr((first.openai(), first.openai_responses(), first.anthropic()))
    for made in (first.openai(), first.openai_responses()["input"], first.anthropic()["messages"]):
        _spoil(made)
    assert repr((first.openai(), first.openai_responses(), first.anthropic())) == rendered
    _spoil(first.messages)
    assert repr((state, older)) == before
    again = plan(state, older=copy.deepcopy(older))
    assert repr((again.openai(), again.openai_responses(), again.anthropic())) == rendered


def _watched(chunks, pulled):
    for chunk in chunks:
        pulled.append(chunk)
        yield chunk


def _spoil(value):
    """Change everything that can be changed in a value."""
    if isinstance(value, dict):
        for inner in value.values():
            _spoil(inner)
        value["spoiled"] = True
    elif isinstance(value, list):
        for inner in value:
            _spoil(inner)
        value.append("spoiled")
