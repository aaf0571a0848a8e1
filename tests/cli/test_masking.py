"""Secrets in what is shown: every shape of key is masked and counted, ordinary text is not."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from durasess.cli.masking import MASK, Masker, is_credential_name

# Put together here, so that no scanner takes this file for a leak.
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0" + ".c2ln" + "bmF0dXJl"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{LETTERS}\n{LETTERS}\n-----END RSA PRIVATE KEY-----"

SECRETS = [
    ("sk-" + LETTERS, "sk-" + MASK),
    ("sk-ant-api03-" + LETTERS, "sk-" + MASK),
    ("ghp_" + LETTERS, "ghp_" + MASK),
    ("github_pat_" + LETTERS, "github_pat_" + MASK),
    ("AKIA" + "IOSFODNN7EXAMPLE", "AKIA" + MASK),
    ("xoxb-" + "123456789012-" + LETTERS, "xoxb-" + MASK),
    ("sk_" + "live_" + LETTERS, "sk_live_" + MASK),
    ("AIza" + LETTERS, "AIza" + MASK),
    (JWT, "eyJ" + MASK),
    (PEM, "-----BEGIN RSA PRIVATE KEY-----" + MASK),
    (PEM[:60], "-----BEGIN RSA PRIVATE KEY-----" + MASK),
    ("Authorization: Bearer " + LETTERS, "Authorization: Bearer " + MASK),
    ("postgres://me:pass@host/db", f"postgres://me:{MASK}@host/db"),
    ("export DB_PASSWORD='hunter22' x", f"export DB_PASSWORD='{MASK}' x"),
    ("OPENAI_API_KEY=" + LETTERS, "OPENAI_API_KEY=" + MASK),
    ('{"api_key": "abc", "n": 1}', f'{{"api_key": "{MASK}", "n": 1}}'),
    (r"{\"password\":\"abc\"}", rf"{{\"password\":\"{MASK}\"}}"),
]


@pytest.mark.parametrize(("text", "shown"), SECRETS, ids=[shown[:24] for _, shown in SECRETS])
def test_known_shape_is_masked_wherever_it_stands(text: str, shown: str) -> None:
    masker = Masker()
    assert masker.value({"output": [f"before {text}\nbehind"]}) == {
        "output": [f"before {shown}" + ("" if text == PEM[:60] else "\nbehind")]
    }
    assert masker.count == 1


@pytest.mark.parametrize(
    "text",
    [
        "task-force and disk-usage",
        "the token is read by next_token()",
        "total_tokens=512",
        "https://example.org/a:b@c?d",
        "SELECT secret FROM keys",
        "eyJust a word",
        "-----BEGIN",
        "commit 9f1c22ab03d7e610aa5a0e21f01b0a755a1da19ff0",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    masker = Masker()
    assert masker.text(text) == text and masker.count == 0


CREDENTIALS = """
    password DB_PASSWORD apiKey x-api-key aws_secret_access_key accessToken token Authorization
    credentials client_secret Set-Cookie passphrase
"""

HOSTILE = [
    "-----BEGIN " * 20_000,
    "-eyJ" * 50_000,
    "A_" * 100_000 + "TOKEN",
    '"' * 200_000,
    "a.b-" * 50_000,
    "://" * 60_000,
    '"' + "a" * 200_000 + 'key" : ',
    "bearer " * 30_000,
]


@pytest.mark.parametrize("key", CREDENTIALS.split())
def test_value_under_a_key_named_like_a_credential_is_masked_whole(key: str) -> None:
    masker = Masker()
    assert is_credential_name(key)
    assert masker.value({key: "short", "n": 1}) == {key: MASK, "n": 1}
    assert masker.value({key: {"user": "u", "list": ["a", ""]}})[key] == {
        "user": MASK,
        "list": [MASK, ""],
    }
    assert masker.count == 3


@pytest.mark.parametrize(
    "value",
    [
        {"prompt_tokens": 812, "token": 17, "tokenizer": "bpe", "password": None, "secret": True},
        {"key": "a", "keys": ["b"], "author": "c", "secretary": "d", "cookie_count": 4},
    ],
)
def test_counts_flags_and_other_keys_stay(value: dict[str, Any]) -> None:
    masker = Masker()
    assert masker.value(value) == value and masker.count == 0


def test_secret_as_a_key_is_masked_and_no_entry_is_lost() -> None:
    masker = Masker()
    shown = masker.value({"sk-" + LETTERS: 1, "sk-" + LETTERS[::-1]: 2})
    assert sorted(shown.values()) == [1, 2] and LETTERS not in json.dumps(shown)
    assert masker.count == 2


def test_show_changes_and_counts_nothing() -> None:
    masker = Masker(show=True)
    value = {"password": "a", "text": "sk-" + LETTERS}
    assert masker.value(value) is value and masker.count == 0


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:12])
def test_hostile_text_takes_no_quadratic_time(text: str) -> None:
    began = time.process_time()
    Masker().text(text)
    # Quadratic would be minutes; this bound is no measure of speed.
    assert time.process_time() - began < 20
