"""A secret that comes in pieces is in no event of a streamed reply; other text hardly waits."""

from __future__ import annotations

import asyncio
import errno
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durasess import StorageError, Store
from durasess.engine.files import RealFiles
from durasess.session import held_back
from durasess.session.held_back import HeldBack
from durasess.session.masking import mask_secrets

BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
SECRETS = {
    "openai": "sk-proj-" + "a1B2" * 10,
    "stripe": "sk_live_" + "a1B2c3D4" * 3,
    "github": "ghp_" + "a1B2c3D4e5" * 4,
    "github, fine": "github_pat_" + "a1B2c3D4e5" * 4,
    "hugging face": "hf_" + "a1B2c3D4e5" * 3,
    "npm": "npm_" + "a1B2c3D4e5" * 3,
    "gitlab": "glpat-" + "a1B2c3D4e5" * 2,
    "aws": "AKIA" + "ABCDEFGHIJKLMNOP",
    "aws, for a while": "ASIA" + "ABCDEFGHIJKLMNOP",
    "google": "AIza" + "a1B2c3D4e5" * 4,
    "slack": "xoxb-123456789012-abcdefABCDEF",
    "slack, app": "xapp-1-A1B2C3D4E5-123456",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN",
}
SAID = {
    **{name: (secret, secret[8:]) for name, secret in SECRETS.items()},
    "bearer": ("Authorization: Bearer abcDEF123456.ghiJKL", "abcDEF123456"),
    "address": ("postgres://admin:hunter22@db/x", "hunter22"),
    "json": ('{"api_key": "correct horse battery"}', "horse battery"),
    "json in json": ('{\\"password\\":\\"correct-horse\\"}', "correct-horse"),
    "variable": ("export DB_PASSWORD=correcthorse99\n", "correcthorse99"),
    "variable, quoted": ('API_KEY="correct horse"', "correct horse"),
    "file": (
        f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n{BODY}\n-----END RSA PRIVATE KEY-----",
        BODY[:20],
    ),
}


def add(held: HeldBack, piece: str) -> str:
    """What is written with a piece."""
    ready = held.ready(piece)
    held.keep(piece, ready)
    return ready


def written(pieces: list[str]) -> list[str]:
    """What becomes of the pieces, each masked as an event is."""
    held = HeldBack()
    ready = [add(held, one) for one in pieces]
    return [mask_secrets({"text": one}).value["text"] for one in ready if one]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 1000])
@pytest.mark.parametrize("name", SAID)
def test_secret_in_pieces_of_any_size_is_masked(name: str, size: int) -> None:
    secret, part = SAID[name]
    text = f"Look: {secret} and so on.\n"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    said = "".join(written(pieces))
    assert part not in said and "[masked]" in said
    assert said.startswith("Look: ") and said.endswith(" and so on.\n")


@given(st.sampled_from(sorted(SAID)), st.lists(st.integers(1, 9), max_size=80), st.text(max_size=9))
def test_secret_in_pieces_of_chance_sizes_is_masked(
    name: str, sizes: list[int], before: str
) -> None:
    secret, part = SAID[name]
    text, pieces = f"{before} {secret} \n", []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    assert part not in "".join(written([*pieces, text]))


@given(st.lists(st.text(max_size=5), max_size=60))
def test_nothing_is_lost_or_turned_round(pieces: list[str]) -> None:
    held = HeldBack()
    said = "".join(add(held, one) for one in pieces)
    assert "".join(pieces).startswith(said)
    assert said + add(held, "\n\n ") == "".join(pieces) + "\n\n "


def test_words_wait_for_nothing() -> None:
    held = HeldBack()
    text = "The fix is in login.py: it compares the hash of both, and returns early. "
    waited = [word for word in text.split(" ") if add(held, word + " ") == ""]
    assert waited == []
    assert [add(held, one) for one in ("Fix", "ed.", " No", "w g", "o")] == [
        *("Fix", "ed.", " No", "w "),
        "go",
    ]


def test_what_is_too_long_to_be_a_key_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_back, "WINDOW", 100)
    held = HeldBack()
    said = "".join(add(held, "sk-a1B2" if n == 0 else "a1B2") for n in range(60))
    assert len(said) > 100


def test_long_replies_take_no_quadratic_time() -> None:
    held = HeldBack()
    pieces = [
        *('"', "-----BEGIN ", "A", "sk-", ":/", "API_KEY=", '"a": "', "x"),
        *("A=", '"a":"', "sk-", "://", "eyJ", "-----BEGIN ", "API_KEY=x "),
    ]
    began = time.process_time()
    given = [piece for piece in pieces[:8] for _ in range(3000)]
    given += [piece * 100_000 + "(" for piece in pieces[8:]]
    said = "".join(add(held, piece) for piece in [*given, " "])
    # Quadratic would be minutes; this bound is no measure of speed.
    assert time.process_time() - began < 20
    assert said == "".join([*given, " "])


DELTAS = ["key: s", "k-", "a1B2" * 5, "a1B2" * 5, " is it"]


def texts_in(folder: Path) -> str:
    return "".join(one.read_text() for one in folder.glob("events_*.jsonl"))


def test_streamed_secret_is_in_no_event_and_the_running_program_has_the_text(
    tmp_path: Path,
) -> None:
    with Store(tmp_path).create("s1") as session, session.run("go") as run, run.stream() as reply:
        for one in DELTAS:
            reply.delta(one)
        assert reply.text == "".join(DELTAS)
    assert "a1B2" not in texts_in(tmp_path / "s1") and "is it" in texts_in(tmp_path / "s1")


def test_streamed_secret_of_a_task_is_in_no_event(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            Store(tmp_path).create_async("s1") as session,
            session.run("go") as run,
            run.stream() as reply,
        ):
            for one in DELTAS:
                await reply.delta(one)

    asyncio.run(main())
    assert "a1B2" not in texts_in(tmp_path / "s1") and "is it" in texts_in(tmp_path / "s1")


def test_reply_that_is_cut_off_has_what_was_held_back_masked(tmp_path: Path) -> None:
    with Store(tmp_path).create("s1") as session, session.run("go") as run:
        with pytest.raises(ValueError, match="cut"), run.stream() as reply:
            for one in DELTAS[:-1]:
                reply.delta(one)
            raise ValueError("cut")
        assert session.state.messages[-1].content == "key: sk-[masked]"


def test_without_a_mask_nothing_waits(tmp_path: Path) -> None:
    store = Store(tmp_path, mask=None)
    with store.create("s1") as session, session.run("go") as run, run.stream() as reply:
        reply.delta("s")
        session.flush()
        assert [one.data["text"] for one in session.events() if one.type == "message_delta"]


def test_piece_that_could_not_be_written_may_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path).create("s1") as session, session.run("go") as run, run.stream() as reply:
        reply.delta("s")
        with monkeypatch.context() as broken, pytest.raises(StorageError):
            broken.setattr(RealFiles, "write_at", refuse)
            reply.delta("ee ")
        reply.delta("ee ")
        reply.delta("it")
        assert reply.text == "see it"
    with Store(tmp_path).open("s1", mode="read") as session:
        said = [one.data["text"] for one in session.events() if one.type == "message_delta"]
        assert "".join(said) == "see it"


def refuse(*given: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")
