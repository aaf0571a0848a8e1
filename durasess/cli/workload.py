"""Made-up agent sessions, the same for the same seed: what `durasess drill` records and kills.

Tests and benchmarks use it too, and `tools/generate.py` prints it; it lives here because an
installed `durasess drill` needs it and a wheel has no `tools/`. Sizes are nearly log-normal: median
about 600 bytes of JSON, mean about 1,300, none above `EVENT_BYTES_MAX`. The text compresses like
code and logs do. Nothing in it was taken from a real session.
"""

import json
from collections.abc import Iterator
from functools import cache
from itertools import chain, islice, product, repeat
from random import Random
from typing import Any, NamedTuple

EVENT_BYTES_MAX = 60_000
"""Of the JSON of `data`, also when it is written in ASCII only."""

RESULT_TEXT_BYTES_MAX = 59_000
"""A tool result holds one text."""

TEXT_BYTES_MAX = 8_000
"""An assistant message holds up to seven: its own and two for each of three calls."""

CHARACTER_BYTES_MAX = 12
"""Of one character above U+FFFF in ASCII-only JSON."""

CONTEXT_TOKENS_MAX = 160_000
CONTEXT_TOKENS_COMPACTED = 12_000


def generate_events(seed: int, *, count: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield `(type, data)` of one long session, run after run, without end unless `count` is given.

    A run is run_started, user_message, some steps, a last assistant_message, run_finished. A step
    is an assistant_message with one to three tool calls, then each call's start and result.
    """
    rng = Random(seed)
    tokens = _prompt_tokens(rng)
    runs = chain.from_iterable(_run_events(rng, tokens) for _ in repeat(None))
    return islice(runs, count)


def _prompt_tokens(rng: Random) -> Iterator[int]:
    """The prompt's size from call to call: it grows, and falls when the context is compacted."""
    tokens = CONTEXT_TOKENS_COMPACTED
    while True:
        yield tokens
        tokens += rng.randrange(200, 2_400)
        if tokens > CONTEXT_TOKENS_MAX:
            tokens = CONTEXT_TOKENS_COMPACTED


def _run_events(rng: Random, tokens: Iterator[int]) -> Iterator[tuple[str, dict[str, Any]]]:
    run_id = _made_id(rng, "run")
    request = _text(rng, "prose", _size(rng, 480, 0.8))
    worker = f"worker-{rng.randrange(1, 9)}"
    code_version = rng.choice(("1.4.0", "1.4.1", "2.0.0rc1"))
    yield (
        "run_started",
        {"run_id": run_id, "request": request, "worker": worker, "code_version": code_version},
    )
    yield "user_message", {"content": request}
    for _ in range(rng.randrange(2, 9)):
        calls = [_tool_call(rng) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
        yield "assistant_message", _assistant_message(rng, next(tokens), calls)
        yield from _call_events(rng, calls)
    yield "assistant_message", _assistant_message(rng, next(tokens), [])
    status = rng.choices(("succeeded", "failed", "cancelled"), (90, 7, 3))[0]
    error = _text(rng, "log", 160) if status == "failed" else None
    yield "run_finished", {"run_id": run_id, "status": status, "error": error}


def _assistant_message(
    rng: Random, prompt_tokens: int, calls: list[dict[str, Any]]
) -> dict[str, Any]:
    content = _text(rng, "prose", _size(rng, 300 if calls else 800, 0.9))
    completion_tokens = len(content) // 4 + rng.randrange(12, 90)
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return {"content": content, "tool_calls": calls, "usage": usage}


def _tool_call(rng: Random) -> dict[str, Any]:
    tool = rng.choices(TOOLS, TOOL_WEIGHTS)[0]
    arguments = {name: _argument(rng, name, tool.writes) for name in tool.arguments}
    return {"call_id": _made_id(rng, "call"), "name": tool.name, "arguments": arguments}


def _argument(rng: Random, name: str, kind: str) -> str | int:
    match name:
        case "path":
            return rng.choice(_pool("paths"))
        case "line" | "limit":
            return rng.randrange(1, 2_000)
        case "pattern":
            return rng.choice(PATTERNS)
        case "command":
            return rng.choice(COMMANDS) + rng.choice(_pool("paths"))
        case _:
            return _text(rng, kind, _size(rng, 330, 1.0))


def _call_events(rng: Random, calls: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """One call after the other; now and then all of a message start side by side."""
    side_by_side = rng.random() < 0.2
    for batch in [calls] if side_by_side else [[call] for call in calls]:
        for call in batch:
            yield "tool_started", _tool_started(rng, call)
        for call in batch:
            yield "tool_result", _tool_result(rng, call)


def _tool_started(rng: Random, call: dict[str, Any]) -> dict[str, Any]:
    tool = TOOLS_BY_NAME[call["name"]]
    return {
        "call_id": call["call_id"],
        "operation_id": _made_id(rng, "op"),
        "effect": tool.effect,
        "time_limit_s": tool.time_limit_s,
        "preview": _text(rng, tool.writes, _size(rng, 330, 0.8)),
    }


def _tool_result(rng: Random, call: dict[str, Any]) -> dict[str, Any]:
    tool = TOOLS_BY_NAME[call["name"]]
    failed = rng.random() < 0.06
    if failed:
        status, kind, size = "error", "log", _size(rng, 300, 0.7)
    else:
        kind = "escapes" if rng.random() < 0.04 else tool.prints
        status, size = "ok", _size(rng, tool.output_median, 1.2)
    output = _text(rng, kind, size, bytes_max=RESULT_TEXT_BYTES_MAX)
    return {"call_id": call["call_id"], "status": status, "output": output}


def _made_id(rng: Random, prefix: str) -> str:
    return f"{prefix}_{rng.getrandbits(48):012x}"


def _size(rng: Random, median: float, sigma: float) -> int:
    return int(median * rng.lognormvariate(0.0, sigma)) + 1


def _text(rng: Random, kind: str, size: int, *, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """About `size` characters; each line takes one piece out of each pool of its kind."""
    size = min(size, bytes_max)
    pools, line_length = _kind(kind)
    lines = zip(*[rng.choices(pool, k=size // line_length + 2) for pool in pools], strict=True)
    text = "".join(chain.from_iterable(lines))[:size]
    while len(text) * CHARACTER_BYTES_MAX > bytes_max and len(json.dumps(text)) > bytes_max:
        text = text[: len(text) * 7 // 8]
    return text


class _Tool(NamedTuple):
    name: str
    arguments: tuple[str, ...]
    effect: str
    time_limit_s: int
    writes: str
    """Kind of the text in its arguments and preview."""
    prints: str
    """Kind of its output."""
    output_median: float


TOOLS = (
    _Tool("read_file", ("path", "line", "limit"), "read_only", 30, "prose", "code", 1_600),
    _Tool("search", ("pattern", "path"), "read_only", 60, "prose", "matches", 1_000),
    _Tool("shell", ("command",), "unsafe", 600, "log", "log", 1_100),
    _Tool("run_tests", ("path",), "idempotent", 900, "prose", "tests", 1_200),
    _Tool("write_file", ("path", "content"), "unsafe", 30, "code", "prose", 200),
    _Tool("patch_file", ("path", "old", "new"), "unsafe", 30, "code", "diff", 450),
    _Tool("fetch", ("pattern",), "read_only", 45, "prose", "answer", 1_400),
)
TOOL_WEIGHTS = (28, 16, 22, 10, 6, 12, 6)
TOOLS_BY_NAME = {tool.name: tool for tool in TOOLS}

COMMANDS = ("git log --oneline -- ", "python -m pytest -x ", "ls -la ", "sed -n '1,80p' ", "wc -l ")
PATTERNS = (r"def \w+_token\(", "except .*Error", '"status": "failed"', r"^import \w+$", "größe|長")

KINDS = {
    "code": ("heads", "names", "middles", "names", "tails"),
    "diff": ("signs", "heads", "names", "middles", "names", "tails"),
    "matches": ("paths", "lines", "heads", "names", "tails"),
    "log": ("stamps", "levels", "names", "messages", "names", "values", "breaks"),
    "tests": ("paths", "test_names", "names", "verdicts", "seconds"),
    "answer": ("keys", "numbers", "fields", "names", "values", "closes"),
    "prose": ("openings", "names", "verbs", "names", "links", "names", "reasons"),
    "escapes": ("colours", "quoted", "names", "windows", "names", "ends"),
}
"""Of a kind of text: the pools that one of its lines is put together from."""


@cache
def _kind(kind: str) -> tuple[list[tuple[str, ...]], int]:
    """The pools of a kind, and the mean length of its lines."""
    pools = [_pool(name) for name in KINDS[kind]]
    return pools, round(sum(sum(map(len, pool)) / len(pool) for pool in pools))


@cache
def _pool(name: str) -> tuple[str, ...]:
    """The pieces of that name: as written below, or put together the same way each time."""
    rng = Random(name)
    match name:
        case "names":
            snake = ["_".join(pair) for pair in product(WORDS, WORDS)]
            camel = [first.title() + second.title() for first, second in product(WORDS, WORDS)]
            numbered = [f"{word}{rng.randrange(1_000)}" for word in WORDS for _ in range(90)]
            return (*snake, *camel, *numbered)
        case "paths":
            trees = product(("src", "tests", "app/api", "/home/dev/shop", "./docs"), WORDS, WORDS)
            return tuple(f"{top}/{tree}/{leaf}.py" for top, tree, leaf in rng.sample([*trees], 900))
        case "stamps":
            seconds = sorted(rng.uniform(0, 3_599) for _ in range(4_000))
            return tuple(f"10:{s // 60:02.0f}:{s % 60:06.3f} " for s in seconds)
        case "values":
            return tuple(f"={rng.getrandbits(36):09x}" for _ in range(4_000))
        case "lines":
            return tuple(f":{number}:" for number in range(1, 800))
        case "numbers":
            return tuple(f"{rng.uniform(0, 9_999):.2f}, " for _ in range(4_000))
        case "seconds":
            return tuple(f"{rng.expovariate(2):.4f}s\n" for _ in range(4_000))
        case _:
            return PIECES[name]


WORD_LIST = """
    account active batch block buffer cache call chunk client cursor default entry error event
    field file frame handle header index item key label layer limit line lock login message meta
    model name node offset option order page parent part path patch pool price query queue range
    reader record request result retry route row run scope session shape signal size source stage
    state stream table target task text ticket time token total tree user value view window worker
"""
WORDS = WORD_LIST.split()

PIECES = {
    "heads": (
        "    def ", "class ", "        return self.", "        if not ", "    async def ", "from ",
        '        raise ValueError(f"', "        for ", "            yield ", "        self._",
        "    assert ", "        with ", "        # ", "    @property\n    def ", "import ",
        "            await ", '    """', "        elif ", "    log.info(", "        del ",
    ),
    "middles": (
        "(self, ", " = ", ".", " in self.", ": dict[str, ", " is None or ", "(path, ", " -> ",
        ' {', "[index].", " == ", "(*, ", ", timeout=", " += len(", ' % "', " and ",
    ),
    "tails": (
        ":\n", "()\n", ") -> None:\n", "\n", "\n\n", "]\n", '}")\n', " or []:\n", ", key=str)\n",
        " is not None\n", ' = "über"\n', '."""\n', ") as file:\n", "[-1]\n", ", 0) + 1\n",
        "  # naïve, see café.md\n",
    ),
    "verdicts": (" PASSED ", " PASSED ", " PASSED ", " FAILED ", " SKIPPED (größer) "),
    "breaks": ("\n", "\n", " ms\n", " (retry)\n"),
    "links": ("`, `", "` or `", "` and `", "` (not `", "`, und `"),
    "signs": ("  ", "  ", "+ ", "+ ", "- ", "@@ -12,7 +12,9 @@ "),
    "levels": ("INFO  ", "INFO  ", "INFO  ", "DEBUG ", "WARN  ", "ERROR "),
    "messages": (
        ": done in ", ": timeout, ", ": lost db-2 while ", ': "HTTP/1.1 200 OK" for ', ": missing ",
        ": Traceback: ", ": 12 rows to ", ": ✓ ", ": geschlossen, Größe ", ": slow, ", ": queued ",
        ": пропущено ", " <- ", " -> ", ": retry ", ": open ", ": ", ": skip ", ": why ", ": got ",
    ),
    "test_names": ("::test_", "::TestApi::test_", "::test_empty_", "::test_unicode_ñ_"),
    "keys": ('{"id": ', '{"count": ', '{"preis_€": ', '{"ratio": ', '{"offset": -'),
    "fields": ('"name": "', '"url": "https://example.org/v2/', '"tags": ["', '"title": "東京 '),
    "closes": ('"},\n', '", "ok": true},\n', '", "next": null},\n', '"]},\n'),
    "openings": (
        "I will look at `", "Test `", "First, `", "Please fix `", "Next: `", "Seems `", "- [ ] `",
        "Nobody calls `", "Der Fehler liegt in `", "まず `", "🔧 `", "Log says `", "1. `", "## `",
        "We can't drop `", "Then `", "Both `", "Renamed `", "> `", "Now `", "Is `", "Only `",
    ),
    "verbs": (
        "` needs `", "` fails before `", "` calls `", "` should return `", "`, then `", "` → `",
        "` hides `", "` statt `", "` reads `", "` != `", "` beats `", "` is now `", "` after `",
    ),
    "reasons": (
        "`, as the lock is held. ", "`.\n", "`; test first.\n\n", "`? ", '`: "not found". ',
        "` on retry. ", "`。\n", "` 🎉\n", "` (see above).\n", "`, wie im Ticket. ", "`! ", "`. ",
    ),
    "colours": ("\x1b[31m", "\x1b[1;32m", "\x1b[0m\t", "\x1b[2K\r"),
    "quoted": (r'{\"a\": \"\\n\"} ', '"""', "'\\''", '\\"\\"', "\\u00e9\\x1b ", "\"'\"'\" "),
    "windows": ("C:\\Users\\dev\\", "\\\\server\\share\\", "D:\\tmp\\größe\\", "..\\..\\"),
    "ends": ("\x1b[0m\r\n", "\\\n", '\\\\"\n', "\b\b\f\n", "\\0\x00\n"),
}  # fmt: skip
