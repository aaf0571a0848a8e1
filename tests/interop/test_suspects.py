"""A line that is no suspect has no secret in any text: the look at bytes may say yes too often, but
never too rarely."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from durasess.interop.decoding import Decoding
from durasess.interop.suspects import is_suspect, suspects
from durasess.session.masking import mask_secrets

TAIL = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2dF4hJ6kL8"
SECRETS = [
    f"-----BEGIN RSA PRIVATE KEY-----\n{TAIL}\n-----END RSA PRIVATE KEY-----",
    f"sk-{TAIL}",
    f"sk_live_{TAIL}",
    f"pk_test_{TAIL}",
    *(f"gh{one}_{TAIL}" for one in "psuro"),
    f"github_pat_{TAIL}",
    "github_pat_1_A_b_2_C_d_3_E_f_4_G_h",
    f"hf_{TAIL}",
    f"npm_{TAIL}",
    f"glpat-{TAIL}",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    f"AIza{TAIL}",
    "xoxb-123456789012-abcdef",
    "xapp-1-A0123456789",
    f"eyJ{TAIL}.{TAIL}.{TAIL}",
    f"Authorization: Bearer {TAIL}",
    f"bearer {TAIL}",
    "postgres://user:s3cr3t@host/db",
    "redis://:s3cr3t@host",
    "http://ü\x1b€:s3cr3t@host",
    "http://" + "\U0001f511" * 60 + ":s3cr3t@host",
    "http://a@b c://user:pass:word@host @/",
    '{"token": "hush-hush"}',
    '{"api_key" :\n\t"hush-hush"}',
    '{\\"password\\": \\"hush-hush\\"}',
    '{\\\\\\"client_secret\\\\\\":\\\\\\"hush-hush\\\\\\"}',
    '{"PASSPHRASE":\u2003"hush-hush"}',
    '{"my_passwd\\":"hush-hush"}',
    '{"\u017fecret": "hush-hush", "key": 1}',
    '{"pas\u017fwd": "hush-hush", "passw": 1}',
    '{"to\u212aen": "hush-hush", "token": 1}',
    '{"ap\u0131_key": "hush-hush", "key": 1}',
    "TOKEN=hush-hush",
    "export DB_PASSWORD='hush hush'",
    "API_KEY_PRODUCTION=hush-hush",
    "AWS_SECRET_1=hush-hush",
    "CREDENTIALS=hush-hush x",
    "SIGNING_KEY_DEV=hush-hush",
    "ACCESS_KEY_LIVE=hush-hush",
    "APIKEY_STAGING=hush-hush",
    "TOKEN_TEST=hush-hush",
    "PASSWD_PROD=hush-hush",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_every_secret_makes_its_line_suspect(secret: str) -> None:
    text = f"before {secret} after"
    plain = json.dumps(text, ensure_ascii=False)
    escaped = [plain, json.dumps(text), plain.replace("/", "\\/")]
    units = text.encode("utf-16-be").hex()
    escaped.append(
        '"' + "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)) + '"'
    )
    for one in escaped:
        line = f'{{"a":{one}}}'.encode()
        assert json.loads(line) == {"a": text}
        assert mask_secrets({"a": text}).paths
        assert suspects(b'{"a":1}\n' + line), line
        assert is_suspect(line), line


@pytest.mark.parametrize("filler", ["Y J @ ", "@", "://a:b", "://", "\xc5", "x"])
def test_no_secret_is_missed_where_rare_bytes_are_many(filler: str) -> None:
    for secret in SECRETS:
        line = json.dumps({"a": f"{filler * 3000} {secret} {filler}"}, ensure_ascii=False)
        assert suspects(line.encode()), secret
        assert is_suspect(line.encode()), secret


def as_json(text: str, chance: random.Random) -> str:
    """A JSON string for the text, with escapes that need not be there."""
    made = []
    for one in text:
        if ord(one) < 0x10000 and chance.random() < 0.02:
            made.append(f"\\u{ord(one):04{chance.choice('xX')}}")
        elif one == "/" and chance.random() < 0.1:
            made.append("\\/")
        else:
            made.append(json.dumps(one, ensure_ascii=chance.random() < 0.5)[1:-1])
    return f'"{"".join(made)}"'


def mutated(text: str, chance: random.Random) -> str:
    """The text with a few characters changed, left out, doubled."""
    made = list(text)
    for _ in range(chance.randrange(3)):
        at = chance.randrange(len(made))
        made[at] = chance.choice(["", made[at] * 2, " ", "\\", '"', ":", "x", "é", "A", "_", "\n"])
    return "".join(made)


@pytest.mark.parametrize("seed", range(8))
def test_no_text_with_a_secret_is_on_a_line_that_is_no_suspect(seed: int) -> None:
    chance = random.Random(seed)
    found = 0
    for _ in range(600):
        pieces = [mutated(chance.choice(SECRETS), chance) for _ in range(chance.randrange(1, 3))]
        text = chance.choice(["", " ", '"', "x", "\n", "="]).join(pieces)
        if chance.random() < 0.3:
            text = json.dumps({"cmd": text}, ensure_ascii=chance.random() < 0.5)
        line = f'{{"a":{as_json(text, chance)}}}'.encode()
        if mask_secrets(json.loads(line)).paths:
            found += 1
            assert suspects(line), line
            assert is_suspect(line), line
    assert found > 300


@pytest.mark.parametrize("key", ["token", "apiKey", "db-password", "to.k.en"])
def test_key_of_a_credential_is_masked_on_a_line_that_is_no_suspect(key: str) -> None:
    item: dict[str, Any] = {"a": [{"b": {key: "hush-hush"}}]}
    line = Decoding(mask_secrets)(2, json.dumps(item).encode(), is_suspect=False)
    assert "hush-hush" not in json.dumps(line.item)
    assert len(line.masked) >= 1
