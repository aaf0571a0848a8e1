"""Secrets are masked with their paths before anything is written; code and prose stay as they are.

Shapes in what the command shows: tests/cli/test_masking.py.
"""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durasess.session.masking import MASK, Masked, mask_secrets

# Put together here, so that no scanner takes this file for a leak.
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0" + ".c2ln" + "bmF0dXJl"
KEY_LINES = f"{LETTERS}\n{LETTERS}="
PEM = f"-----BEGIN PRIVATE KEY-----\n{KEY_LINES}\n-----END PRIVATE KEY-----"

MASKED = {
    "sk-": ("sk-" + LETTERS, "sk-" + MASK),
    "sk-ant": ("sk-ant-api03-" + LETTERS, "sk-" + MASK),
    "sk-proj": ("sk-proj-" + "T3Blbk_FJ0aB1cD2eF3gH4-x", "sk-" + MASK),
    "ghp": ("git clone with ghp_" + LETTERS + " now", f"git clone with ghp_{MASK} now"),
    "ghs": ("ghs_" + LETTERS, "ghs_" + MASK),
    "github_pat": ("github_pat_" + LETTERS + "_x", "github_pat_" + MASK),
    "hf": ("hf_" + LETTERS, "hf_" + MASK),
    "npm": ("npm_" + LETTERS, "npm_" + MASK),
    "gitlab": ("glpat-" + LETTERS[-20:], "glpat-" + MASK),
    "aws": ("AKIA" + "IOSFODNN7EXAMPLE", "AKIA" + MASK),
    "aws, for a time": ("ASIA" + "IOSFODNN7EXAMPLE", "ASIA" + MASK),
    "google": ("AIza" + LETTERS, "AIza" + MASK),
    "slack": ("xoxb-" + "123456789012-" + LETTERS, "xoxb-" + MASK),
    "slack app": ("xapp-" + "1-A0-" + LETTERS, "xapp-" + MASK),
    "stripe": ("sk_" + "live_" + LETTERS, "sk_live_" + MASK),
    "jwt": (f"cookie: {JWT};", f"cookie: eyJ{MASK};"),
    "pem": (f"a {PEM} b", f"a -----BEGIN PRIVATE KEY-----{MASK} b"),
    "pem in json": (json.dumps(PEM), f'"-----BEGIN PRIVATE KEY-----{MASK}"'),
    "pem cut off": (PEM[:60], "-----BEGIN PRIVATE KEY-----" + MASK),
    "bearer": ("Authorization: Bearer " + LETTERS, "Authorization: Bearer " + MASK),
    "url": ("postgres://me:pa$$word@host/db", f"postgres://me:{MASK}@host/db"),
    "url, token": ("https://x:" + LETTERS + "@git.example", f"https://x:{MASK}@git.example"),
    "json": ('{"password": "hunter2", "n": 1}', f'{{"password": "{MASK}", "n": 1}}'),
    "json, escaped": (r"{\"api_key\":\"a b\"}", rf"{{\"api_key\":\"{MASK}\"}}"),
    "json, twice": ('{"a_token":"x","secret":"y"}', f'{{"a_token":"{MASK}","secret":"{MASK}"}}'),
    "environment": ("GITHUB_TOKEN=abc123def make", f"GITHUB_TOKEN={MASK} make"),
    "environment, quoted": ("DB_PASSWORD='a (b) c'", f"DB_PASSWORD='{MASK}'"),
    "environment, joined": ("PGPASSWORD=hunter22 psql", f"PGPASSWORD={MASK} psql"),
    "environment, suffix": ("API_KEY_PROD=hunter22", f"API_KEY_PROD={MASK}"),
    "dotenv": ("A=1\nCLIENT_SECRET=ab.cd-ef\nB=2", f"A=1\nCLIENT_SECRET={MASK}\nB=2"),
}

LEFT = {
    "git hash": "commit 9f1c22ab03d7e610aa5a0e21f01b0a755a1da19ff0",
    "uuid": "id 3f2b8c1e-9d4a-4b6f-8e2a-1c5d7f9b0a3e",
    "sha256": "sha256:" + "0123456789abcdef" * 4,
    "base64": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
    "number": '{"token": 17, "max_tokens": 4096}',
    "limit": "MAX_TOKEN=4096 TOKEN=1234567",
    "words": "tokenize the secretary's keyboard; passwords are hashed",
    "variable": "connect(user=user, password=password)",
    "call": "client = Client(token=get_token(), api_key=os.environ['API_KEY'])",
    "constant from a call": "API_KEY=get_key() or SECRET_KEY=config['key']",
    "constant from the environment": 'API_KEY=os.environ["X"]; TOKEN=process.env.TOKEN',
    "constant without a value": "TOKEN=None; SECRET=True, PASSWORD=null",
    "other constant": "TOKENIZERS_PARALLELISM=false TOKEN_URL=https://example.org",
    "file of a secret": "DB_PASSWORD=/run/secrets/db",
    "shell variable": 'export API_KEY="$OTHER" TOKEN=${TOKEN} PASSWORD=$(cat file)',
    "placeholder": '{"api_key": "<your key>", "token": "${TOKEN}", "secret": "{secret}"}',
    "format string": 'f"postgres://{user}:{password}@{host}" "redis://%s:%s@%s"',
    "url put together": """'https://' + user + ':' + secret + '@' + host""",
    "port": "http://localhost:8080/a@b and git@github.com:me/it.git",
    "header, in code": 'if text.startswith("-----BEGIN PRIVATE KEY-----"):\n    load_private(text)',
    "certificate": f"-----BEGIN CERTIFICATE-----\n{KEY_LINES}\n-----END CERTIFICATE-----",
    "names in code": "hf_hub_download(x); npm_config_registry; sk-container-id-1; ghp_x",
    "branch": "git switch sk-1234-fix-the-login-page-again",
    "css": "task-runner-with-a-very-long-name-1 { }",
    "eyJ": "eyJust a word. And. Another",
    "prose": "Bearer tokens are sent in a header",
    "masked before": f'sk-{MASK} {{"password": "{MASK}"}} TOKEN={MASK} a://b:{MASK}@c',
}


@pytest.mark.parametrize("name", MASKED)
def test_secret_in_a_text_is_masked_and_the_text_around_it_stays(name: str) -> None:
    text, shown = MASKED[name]
    assert mask_secrets(text) == Masked(shown, ["$"])


@pytest.mark.parametrize("name", LEFT)
def test_text_without_a_secret_is_the_same_object(name: str) -> None:
    value = {"content": [LEFT[name]]}
    shown, paths = mask_secrets(value)
    assert shown == value and shown is value and paths == []


def test_paths_lead_to_each_masked_place() -> None:
    secret = "sk-" + LETTERS
    value = {"a": [0, {"b": secret}], "x-y": secret, "token": "t", "n": {"password": {"it": 1234}}}
    assert mask_secrets(value).paths == ["$.a[1].b", "$['x-y']", "$.token", "$.n.password.it"]


def test_place_with_two_secrets_is_named_once() -> None:
    secret = "sk-" + LETTERS
    assert mask_secrets(["TOKEN=abcd1 PASSWORD=abcd2"]).paths == ["$[0]"]
    assert mask_secrets({secret: secret}).paths == [f"$['sk-{MASK}']"]


def test_argument_is_not_changed_and_what_has_no_secret_is_shared() -> None:
    value = {"clean": {"n": 1}, "list": [{"password": "a"}, [1]]}
    before = copy.deepcopy(value)
    shown = mask_secrets(value).value
    assert value == before
    assert shown == {"clean": {"n": 1}, "list": [{"password": MASK}, [1]]}
    assert shown["clean"] is value["clean"] and shown["list"][1] is value["list"][1]


def test_secret_in_a_key_is_in_no_path_and_no_entry_is_lost() -> None:
    found = mask_secrets({f"sk-{LETTERS}": 1, f"sk-{LETTERS[::-1]}": 2, f"sk-{MASK}": 3})
    assert sorted(found.value.values()) == [1, 2, 3]
    assert len(found.paths) == 2 and LETTERS not in json.dumps(found)


@pytest.mark.parametrize(
    "value",
    [
        {"token": 17, "password": None, "secret": True, "key": "a", "tokens": 5},
        {"password": "${DB_PASSWORD}", "token": "<token>", "secret": ""},
        {"properties": {"password": {"type": "string", "description": "of the user"}}},
        {"t" * 300 + "token": "no name"},
    ],
)
def test_key_named_like_a_credential_without_one_keeps_its_value(value: dict[str, Any]) -> None:
    assert mask_secrets(value) == Masked(value, [])


@pytest.mark.parametrize("value", [b"sk-" + LETTERS.encode(), object(), {1: 2}, {None: b""}, {3}])
def test_what_is_no_json_is_passed_through(value: Any) -> None:
    assert mask_secrets([value]).value[0] is value


def test_lone_surrogates_stay_beside_a_masked_secret() -> None:
    assert mask_secrets(f"\ud800 sk-{LETTERS} \udfff").value == f"\ud800 sk-{MASK} \udfff"


def test_as_deep_as_an_event_may_be_is_masked_and_deeper_passed_through() -> None:
    deepest: Any = "sk-" + LETTERS
    for _ in range(100):
        deepest = [deepest]
    assert mask_secrets(deepest).paths == ["$" + "[0]" * 100]
    assert mask_secrets([deepest]).paths == []
    endless: list[Any] = []
    endless.append(endless)
    assert mask_secrets(endless).value is endless


PIECES = [text for text, _ in MASKED.values()] + [*LEFT.values(), "'", '"', "=", "\\", " ", "@"]
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=4).map("".join),
    st.text(st.characters(), max_size=20),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXTS | st.sampled_from(["token", "password"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_any_value_is_masked_once_and_for_all(value: Any) -> None:
    before = copy.deepcopy(value)
    shown, paths = mask_secrets(value)
    assert value == before
    assert (shown is value) == (paths == [])
    assert mask_secrets(shown) == Masked(shown, [])


HOSTILE = [
    "sk-" * 100_000,
    "xoxb-" * 60_000,
    "A_" * 100_000 + "TOKEN=",
    "TOKEN=" * 50_000,
    "PASSWORD='" * 30_000,
    "://{" * 60_000,
    "://a:" * 60_000,
    '"token":"{' * 30_000,
    '"token":"' + "{" * 200_000,
    "-----BEGIN PRIVATE KEY-----\n" * 10_000 + "a" * 100_000,
    "eyJaaaaaaaa.aaaaaaaaa" * 15_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:12])
def test_hostile_text_takes_no_quadratic_time(text: str) -> None:
    began = time.process_time()
    mask_secrets(text)
    # Quadratic would be minutes; this bound is no measure of speed.
    assert time.process_time() - began < 20
