"""Usage of tokens: what providers report → deltas that can be summed. No state of its own."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from durasess.errors import EventRejectedError
from durasess.session.state import Usage

MOST = 2**53
"""Of what is counted: every reader of JSON has it exactly."""

_PROMPT = ("prompt", "prompt_tokens", "input_tokens")
_COMPLETION = ("completion", "completion_tokens", "output_tokens")
_BESIDE_PROMPT = ("cache_read_input_tokens", "cache_creation_input_tokens")
_TOTAL = ("total", "total_tokens")
_COST = ("cost", "total_cost")


def normalized(reported: Any) -> Usage:
    """The counters in what a provider reports: a mapping, or an object with such attributes.

    Known names: prompt(_tokens), input_tokens, completion(_tokens), output_tokens, total(_tokens),
    cost, and the cached input tokens that Anthropic counts beside input_tokens. What is missing is
    0; a missing total is prompt plus completion. Raises EventRejectedError for what is no number
    or negative.
    """
    if reported is None:
        return Usage()
    if isinstance(reported, Usage):
        return reported
    _check_known(reported)
    prompt = _number(reported, _PROMPT) + sum(_number(reported, (one,)) for one in _BESIDE_PROMPT)
    completion = _number(reported, _COMPLETION)
    total = max(_number(reported, _TOTAL), prompt + completion)
    return Usage(int(prompt), int(completion), int(total), float(_number(reported, _COST)))


def _check_known(reported: Any) -> None:
    """Something that counts nothing is a mistake, not a usage of 0."""
    if isinstance(reported, Mapping) and not reported:
        return
    known = (*_PROMPT, *_COMPLETION, *_TOTAL, *_COST, *_BESIDE_PROMPT)
    has = reported.__contains__ if isinstance(reported, Mapping) else _attribute_of(reported)
    if not any(has(name) for name in known):
        raise EventRejectedError(
            f"event rejected: usage {reported!r:.80} has none of {', '.join(known)}. Nothing was "
            "written."
        )


def _attribute_of(reported: Any) -> Callable[[str], bool]:
    return lambda name: hasattr(reported, name)


def _number(reported: Any, names: tuple[str, ...]) -> float:
    for name in names:
        value = (
            reported.get(name) if isinstance(reported, Mapping) else getattr(reported, name, None)
        )
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise EventRejectedError(
                f"event rejected: usage {name} is {value!r:.60}, expected a number. Nothing was "
                "written."
            )
        if not 0 <= value <= MOST:
            raise EventRejectedError(
                f"event rejected: usage {name} is {value!r:.60}, expected 0 or more, at most "
                f"{MOST}: usage is recorded as deltas. Nothing was written."
            )
        return value
    return 0


def as_data(usage: Usage) -> dict[str, float]:
    """The deltas as an event holds them; nothing for what is 0."""
    fields = {
        "prompt": usage.prompt,
        "completion": usage.completion,
        "total": usage.total,
        "cost": usage.cost,
    }
    return {name: value for name, value in fields.items() if value}


def from_data(data: Mapping[str, float]) -> Usage:
    """Deltas of an event; what is no number of tokens counts 0, so that no sum goes down."""
    if not data:
        return NOTHING
    prompt, completion = _tokens(data.get("prompt")), _tokens(data.get("completion"))
    total = max(_tokens(data.get("total")), prompt + completion)
    return Usage(prompt, completion, total, _counted(data.get("cost")))


NOTHING = Usage()


def _tokens(value: Any) -> int:
    return int(min(_counted(value), MOST))


def _counted(value: Any) -> float:
    if value is None:
        return 0
    if type(value) is float:
        return value if 0 < value < math.inf else 0
    if type(value) is int:
        return min(value, MOST) if value > 0 else 0
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) and value > 0 else 0


def plus(one: Usage, other: Usage) -> Usage:
    """The sum, at most as much as a state can hold."""
    prompt, completion = one.prompt + other.prompt, one.completion + other.completion
    total, cost = one.total + other.total, one.cost + other.cost
    if total > MOST or prompt + completion > MOST or cost == math.inf:
        prompt, completion, total = min(prompt, MOST), min(completion, MOST), min(total, MOST)
        cost = min(cost, sys.float_info.max)
    return Usage(prompt, completion, total, cost)


def since(counters: Usage, before: Usage) -> Usage:
    """Deltas of cumulative counters; one that went down has started again from 0."""
    return Usage(
        _since(counters.prompt, before.prompt),
        _since(counters.completion, before.completion),
        _since(counters.total, before.total),
        _since(counters.cost, before.cost),
    )


def _since(counter: Any, before: Any) -> Any:
    return counter - before if counter >= before else counter
