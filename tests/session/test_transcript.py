"""Messages that are only in the log: history and older chunks give what an unbounded fold has."""

import random

import pytest

from durasess.session.context import plan
from durasess.session.reducer import Reducer
from durasess.session.state import OPEN_CALLS, SessionState
from durasess.session.transcript import history, older_chunks
from tests.support.chance_harness import Driver
from tests.support.harness import ask, event, fold, numbered, reply, store_at


def told(messages):
    """What each message says, in order."""
    return [(one.seq, one.role, one.content, one.key) for one in messages]


def events_of(log):
    return lambda after: iter([one for one in log if one.seq > after])


def live(log, resident):
    """Live messages as the context planner gets them: older chunks, then the resident ones."""
    reducer = Reducer(resident_messages=resident)
    state = fold(log, reducer)
    chunks = [messages for messages, _ in older_chunks(events_of(log), state, reducer)]
    return [one for chunk in reversed(chunks) for one in chunk] + state.messages


def whole(log, resident):
    """The history as a session with so few messages in its state reads it."""
    reducer = Reducer(resident_messages=resident)
    state = fold(log, reducer)
    return [one for chunk, _ in history(iter(log), state, reducer) for one in chunk]


def by_place(messages):
    """Results are told behind their calls, whenever they came."""
    return sorted(told(messages))


def conversation(turns, *, calls=2, seed=0):
    """Turns of a request, a reply with calls, their results in some order, an answer."""
    chance = random.Random(seed)
    said = [("session_created", {})]
    for turn in range(turns):
        said.append(("user_message", {"content": f"u{turn}"}))
        said.append(("assistant_message", reply(*["x"] * calls, content=f"a{turn}")))
        seq = len(said)
        keys = [f"{seq}.{index}" for index in range(calls)]
        chance.shuffle(keys)
        said += [("tool_result", {"key": key, "output": f"r{key}"}) for key in keys]
        said.append(("assistant_message", {"content": f"done{turn}"}))
    return numbered(*said)


@pytest.mark.parametrize("resident", [1, 2, 4, 7])
@pytest.mark.parametrize("turns", [1, 3, 40])
def test_history_is_the_unbounded_fold(resident, turns):
    log = conversation(turns)
    assert told(whole(log, resident)) == told(fold(log, Reducer(resident_messages=10**6)).messages)


@pytest.mark.parametrize("resident", [1, 2, 4, 7])
@pytest.mark.parametrize("first_chunk", [3, 10, 1000])
def test_older_chunks_and_resident_messages_are_the_unbounded_fold(
    monkeypatch, resident, first_chunk
):
    monkeypatch.setattr("durasess.session.transcript.FIRST_CHUNK", first_chunk)
    log = conversation(30)
    assert told(live(log, resident)) == told(fold(log, Reducer(resident_messages=10**6)).messages)


def test_chunks_have_the_states_of_their_calls():
    log = conversation(20)
    reducer = Reducer(resident_messages=4)
    state = fold(log, reducer)
    for messages, calls in older_chunks(events_of(log), state, reducer):
        keys = {key for one in messages for key in one.calls}
        assert set(calls) >= keys
        assert {calls[key].status for key in keys} == {"completed"}


def test_nothing_older_is_read_when_all_is_resident():
    log = conversation(3)
    reducer = Reducer()
    assert list(older_chunks(lambda after: pytest.fail("read"), fold(log, reducer), reducer)) == []


def test_result_that_came_after_the_next_request_is_told_with_its_call():
    log = numbered(
        ("session_created", {}),
        ("user_message", {"content": "u1"}),
        ("assistant_message", reply("x")),
        ("user_message", {"content": "u2"}),
        ("tool_result", {"key": "3.0", "output": "late"}),
        ("assistant_message", {"content": "a"}),
        ("user_message", {"content": "u3"}),
    )
    for resident in (3, 4):
        unbounded = fold(log, Reducer(resident_messages=10**6))
        assert by_place(live(log, resident)) == by_place(unbounded.messages)
        assert by_place(whole(log, resident)) == by_place(unbounded.messages)


def test_result_of_a_call_whose_message_left_is_told_as_news():
    said = [("session_created", {}), ("assistant_message", reply("x", content="asks"))]
    said += [("user_message", {"content": f"u{n}"}) for n in range(8)]
    said += [("tool_result", {"key": "2.0", "output": "at last"})]
    state = fold(numbered(*said), Reducer(resident_messages=4))
    last = state.messages[-1]
    assert (last.role, last.seq, last.key) == ("user", 11, "")
    assert "late result" in str(last.content) and "at last" in str(last.content)
    assert "2.0" not in state.tool_states


@pytest.mark.parametrize("resident", [1, 3])
def test_answer_to_a_call_that_was_never_started_is_read_with_fewer_messages_too(resident):
    """A state of more messages took it; read with fewer, it was the result of no call."""
    said = [("session_created", {}), ("assistant_message", reply("x", content="asks"))]
    said += [("tool_recovery", {"key": "2.0", "outcome": "not_started"})]
    said += [("user_message", {"content": f"u{n}"}) for n in range(8)]
    said += [("tool_result", {"key": "2.0", "output": "at last"})]
    log = numbered(*said)
    assert str(told(whole(log, resident))).count("at last") == 1


# Rewinds and compactions


@pytest.mark.parametrize("resident", [1, 4])
@pytest.mark.parametrize("to", [2, 7, 12, 20, 33])
def test_rewound_messages_are_in_no_reading(resident, to):
    log = conversation(10)
    log.append(event(len(log) + 1, "rewound", {"to": to}))
    log.append(event(len(log) + 1, "user_message", {"content": "anew"}))
    unbounded = told(fold(log, Reducer(resident_messages=10**6)).messages)
    assert told(whole(log, resident)) == unbounded
    assert told(live(log, resident)) == unbounded


@pytest.mark.parametrize("resident", [1, 4])
@pytest.mark.parametrize("through", [2, 6, 11, 16, 26, 41])
def test_compacted_messages_are_not_live_but_in_the_history(resident, through):
    log = conversation(10)
    log.append(event(len(log) + 1, "context_compacted", {"summary": "S", "through": through}))
    unbounded = fold(log, Reducer(resident_messages=10**6))
    assert told(live(log, resident)) == told(unbounded.messages)
    everything = fold(log[:-1], Reducer(resident_messages=10**6)).messages
    assert told(whole(log, resident)) == told(everything)


@pytest.mark.parametrize("resident", [1, 4, 200])
def test_rewind_behind_a_compaction_brings_its_messages_back(resident):
    log = conversation(10)
    end = len(log)
    log.append(event(end + 1, "context_compacted", {"summary": "S", "through": 30}))
    log.append(event(end + 2, "user_message", {"content": "later"}))
    log.append(event(end + 3, "rewound", {"to": end}))
    everything = fold(log[:end], Reducer(resident_messages=10**6)).messages
    assert told(live(log, resident)) == told(everything)


def test_result_behind_an_undone_compaction_is_told_with_its_call():
    log = numbered(
        ("session_created", {}),
        ("user_message", {"content": "u1"}),
        ("assistant_message", reply("x")),
        ("user_message", {"content": "u2"}),
        ("tool_result", {"key": "3.0", "output": "r"}),
        ("user_message", {"content": "u3"}),
        ("context_compacted", {"summary": "S", "through": 3}),
        ("rewound", {"to": 6}),
    )
    everything = fold(log[:6], Reducer()).messages
    assert by_place(live(log, 200)) == by_place(everything)


def result_behind(cut, turns=0):
    """A call, then what takes its message out of the talk, its result behind that, and turns that
    push both out of the state."""
    return numbered(
        ("session_created", {}),
        ("user_message", {"content": "u1"}),
        ("assistant_message", reply("x", "y")),
        ("tool_started", {"key": "3.0"}),
        ("tool_started", {"key": "3.1"}),
        ("tool_result", {"key": "3.1", "output": "taken back too"}),
        cut,
        ("user_message", {"content": "u2"}),
        ("tool_result", {"key": "3.0", "output": "at last"}),
        ("user_message", {"content": "u3"}),
        *(("user_message", {"content": f"u{n}"}) for n in range(turns)),
    )


REWIND = ("rewound", {"to": 2})
COMPACTION = ("context_compacted", {"summary": "S", "through": 6})


@pytest.mark.parametrize("resident", [1, 4, 200])
@pytest.mark.parametrize("turns", [0, 3, 30])
@pytest.mark.parametrize("first_chunk", [2, 7, 1000])
@pytest.mark.parametrize("cut", [REWIND, COMPACTION], ids=["rewind", "compaction"])
def test_result_behind_what_took_its_call_away_is_news_wherever_it_is_read(
    monkeypatch, cut, turns, resident, first_chunk
):
    monkeypatch.setattr("durasess.session.transcript.FIRST_CHUNK", first_chunk)
    log = result_behind(cut, turns)
    unbounded = told(fold(log, Reducer(resident_messages=10**6)).messages)
    assert sum("at last" in str(one) for one in unbounded) == 1
    assert told(live(log, resident)) == unbounded
    said = str(told(whole(log, resident)))
    assert said.count("at last") == 1 and ("taken back too" in said) == (cut is COMPACTION)


def test_history_behind_a_rewind_is_the_unbounded_fold():
    for resident in (1, 4, 200):
        log = result_behind(REWIND, 30)
        unbounded = told(fold(log, Reducer(resident_messages=10**6)).messages)
        assert told(whole(log, resident)) == unbounded


def test_result_whose_call_was_pruned_with_its_summary_is_news_all_the_same():
    log = result_behind(COMPACTION, 30)
    reducer = Reducer(resident_messages=4)
    state = fold(log, reducer)
    left = [one for one in log if one.seq > 6]
    chunks = [chunk for chunk, _ in older_chunks(events_of(left), state, reducer)]
    (late,) = (one for chunk in chunks for one in chunk if "at last" in str(one.content))
    assert (late.seq, late.role) == (9, "user") and "of seq 3]" in str(late.content)


def streamed(seed, *, rewinds_within=False):
    """Runs whose replies come in pieces, whole or cut off, and rewinds to anywhere between them;
    with `rewinds_within` also while a run is open, as imported logs may have it."""
    chance = random.Random(seed)
    said = [("session_created", {})]
    run = ""
    for number in range(60):
        what = chance.choice(["run", "piece", "piece", "piece", "reply", "end", "user", "rewind"])
        if what == "run" and not run:
            run = f"r{number}"
            said.append(("run_started", {"request": f"q{number}"}, run))
        elif what == "piece" and run:
            said.append(("message_delta", {"text": f"p{number} "}, run))
        elif what == "reply" and run:
            said.append(("assistant_message", {"content": f"a{number}"}, run))
        elif what == "end" and run:
            said.append(("run_finished", {"status": "failed"}, run))
            run = ""
        elif what == "user":
            said.append(("user_message", {"content": f"u{number}"}, run))
        elif what == "rewind" and (rewinds_within or not run):
            said.append(("rewound", {"to": chance.randint(max(1, len(said) - 12), len(said))}))
    return numbered(*said)


@pytest.mark.parametrize("within", [False, True], ids=["between", "within"])
@pytest.mark.parametrize("resident", [1, 2, 4, 200])
@pytest.mark.parametrize(("first_chunk", "latest"), [(1000, 4000), (3, 3), (7, 4000)])
def test_streamed_replies_with_what_came_between_their_pieces_are_read_as_the_state_has_them(
    monkeypatch, first_chunk, latest, resident, within
):
    """Pieces before a rewind stood in the history as a reply of their own, one that was cut off was
    told without its last pieces; what the user said meanwhile was in no context; a chunk that began
    between two pieces told the second part as a reply, and the whole once more."""
    monkeypatch.setattr("durasess.session.transcript.FIRST_CHUNK", first_chunk)
    monkeypatch.setattr("durasess.session.transcript_reach.LATEST_RESULT", latest)
    for seed in range(100):
        log = streamed(seed, rewinds_within=within)
        unbounded = told(fold(log, Reducer(resident_messages=10**6)).messages)
        assert told(whole(log, resident)) == unbounded, seed
        assert told(live(log, resident)) == unbounded, seed


def test_what_came_while_a_reply_is_streamed_stays_in_the_state_until_it_ends():
    said = [("session_created", {}), ("run_started", {"request": "q"}, "r")]
    said += [("message_delta", {"text": "p"}, "r")]
    said += [("user_message", {"content": f"u{n}"}, "r") for n in range(9)]
    going_on = fold(numbered(*said), Reducer(resident_messages=2))
    assert [one.seq for one in going_on.messages] == [*range(4, 13)]
    said += [("run_finished", {"status": "failed"}, "r"), ("user_message", {"content": "on"})]
    over = fold(numbered(*said), Reducer(resident_messages=2))
    assert [one.seq for one in over.messages] == [12, 14]


@pytest.mark.parametrize("resident", [1, 200])
def test_reply_that_began_before_the_end_of_a_summary_brings_nothing_of_it_back(resident):
    """As other logs may have it."""
    said = [("session_created", {}), ("run_started", {"request": "q"}, "r")]
    said += [("message_delta", {"text": "p"}, "r"), ("user_message", {"content": "u"}, "r")]
    said += [("context_compacted", {"summary": "S", "through": 4})]
    said += [("run_finished", {"status": "failed"}, "r")]
    said += [("user_message", {"content": f"u{n}"}) for n in range(5)]
    assert [one.seq for one in live(numbered(*said), resident)] == [*range(7, 12)]


KINDS = ["user"] * 2 + ["reply"] * 2 + ["note"] * 3 + ["end"] * 2 + ["piece", "cut", "run"]


def talked(seed):
    """Replies with calls that end, early or late, or are decided about; pieces; what no message is
    made of; summaries and rewinds to anywhere."""
    chance = random.Random(seed)
    said = [("session_created", {}), ("run_started", {"request": "q"}, "r")]
    state, run = fold(numbered(*said), UNBOUNDED), "r"
    for number in range(90):
        kind = chance.choice(KINDS)
        one = ("note", {"text": "n"})
        calls = [call for call in state.tool_states.values() if call.status in OPEN_CALLS]
        if kind == "user":
            one = ("user_message", {"content": f"u{number}"}, run)
        elif kind == "reply":
            one = ("assistant_message", reply(*"xy"[: chance.randint(0, 2)], content="a"), run)
        elif kind == "piece":
            one = ("message_delta", {"text": f"p{number} "}, run)
        elif kind == "end" and calls:
            key = chance.choice(calls).key
            one = chance.choice(
                [
                    ("tool_result", {"key": key, "output": f"out of {key}"}),
                    ("tool_recovery", {"key": key, "outcome": "uncertain"}),
                    ("tool_recovery", {"key": key, "outcome": "not_applied"}),
                ]
            )
        elif kind == "cut" and chance.random() < 0.5:
            to = chance.randint(max(1, state.seq - 12), state.seq)
            last = state.compaction.through if state.compaction else 0
            if chance.random() < 0.5:
                one = ("rewound", {"to": to})
            elif to > last and all(call.seq > to for call in calls) and state.partial is None:
                one = ("context_compacted", {"summary": "S", "through": to})
        elif kind == "run":
            one = ("run_finished", {"status": "failed"}, run)
            said.append(one)
            state = UNBOUNDED.apply(state, event(len(said), *one))
            run = f"r{number}"
            one = ("run_started", {"request": f"q{number}"}, run)
        said.append(one)
        state = UNBOUNDED.apply(state, event(len(said), *one))
    return numbered(*said)


UNBOUNDED = Reducer(resident_messages=10**6)


def planned(log, resident):
    """The context of a session with so few messages in its state: what was said; what each call was
    told to be; and the results that came as news."""
    reducer = Reducer(resident_messages=resident)
    state = fold(log, reducer)
    context = plan(state, older=older_chunks(events_of(log), state, reducer))
    said, results, news = [], [], set()
    for one in context.messages:
        text = str(one["content"])
        if "[late " in text:
            news.add(text.partition("out of ")[2][:5].strip("'}]"))
        elif one["role"] == "tool":
            results.append(one["content"])
        else:
            said.append((one["role"], one["seq"], one["content"]))
    return said, results, news


@pytest.mark.parametrize("resident", [1, 2, 5])
@pytest.mark.parametrize(("first_chunk", "latest"), [(1000, 4000), (3, 2), (10, 4000)])
def test_contexts_tell_the_same_of_every_call_however_few_messages_the_state_has(
    monkeypatch, first_chunk, latest, resident
):
    """A call that had ended was told to be of unknown outcome, and its result was in no context:
    where a chunk began between them, where the end came long after the chunk, where the call was
    decided about when its message had left. And the end of a reply came back of which a summary had
    the beginning."""
    monkeypatch.setattr("durasess.session.transcript.FIRST_CHUNK", first_chunk)
    monkeypatch.setattr("durasess.session.transcript_reach.LATEST_RESULT", latest)
    for seed in range(60):
        log = talked(seed)
        said, results, news = planned(log, 10**6)
        found, told, late = planned(log, resident)
        assert found == said, seed
        assert late >= news, seed
        for one, other in zip(results, told, strict=True):
            is_below = other.startswith("Completed later") and one.removeprefix("out of ") in late
            assert other == one or is_below, seed


def test_reply_that_was_cut_off_is_told_though_its_run_began_before_what_is_read(monkeypatch):
    monkeypatch.setattr("durasess.session.transcript.FIRST_CHUNK", 6)
    said = [("session_created", {}), ("run_started", {"request": "q"}, "r1")]
    said += [("assistant_message", {"content": f"a{n}"}, "r1") for n in range(20)]
    said += [("user_message", {"content": "hurry"}, "r1"), ("message_delta", {"text": "I"}, "r1")]
    said += [("run_finished", {"status": "interrupted"}, "r1")]
    said += [("user_message", {"content": f"u{n}"}) for n in range(6)]
    log = numbered(*said)
    for resident in (4, 200):
        assert told(live(log, resident)) == told(fold(log, Reducer()).messages)


@pytest.mark.parametrize("seed", range(12))
def test_chance_history_is_the_unbounded_fold(tmp_path, seed):
    driver = Driver(store_at(tmp_path, resident_messages=4), seed)
    for _ in range(150):
        driver.step(may_rewind=seed % 2 == 1)
    driver.session.flush()
    log = list(driver.session.events())
    driver.session.close()
    unbounded = _without_late(whole(log, 10**6))
    assert by_place(_without_late(whole(log, 4))) == by_place(unbounded)
    kept = fold(log, Reducer(resident_messages=10**6))
    assert _seqs(live(log, 4)) >= _seqs(kept.messages)


def _without_late(messages):
    return [one for one in messages if one.role != "tool" and "late" not in str(one.content)]


def _seqs(messages):
    return {one.seq for one in messages if one.role != "tool"}


def test_history_of_a_session_reads_what_left_its_state(tmp_path):
    with store_at(tmp_path, resident_messages=4).create("s") as session:
        for turn in range(12):
            with session.run(f"u{turn}") as run:
                ask(run, "c")
                with run.tool("c") as call:
                    call.result(turn)
                run.assistant(f"a{turn}")
        assert len(session.state.messages) <= 6
        said = [one.content for one in session.history() if one.role != "tool"]
        assert said == [text for turn in range(12) for text in (f"u{turn}", "", f"a{turn}")]
        shown = [one for one in session.context().openai() if one["role"] == "tool"]
        assert [one["content"] for one in shown] == [str(turn) for turn in range(12)]


def test_history_of_an_empty_session_is_empty():
    assert list(history(iter([]), SessionState(), Reducer())) == []
