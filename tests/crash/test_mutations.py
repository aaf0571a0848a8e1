"""Every small damage of a whole session is recovered from exactly, or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from durasess.engine import codec, lock, torn, walk
from durasess.engine.scan import Scan
from durasess.engine.torn import Verdict
from durasess.engine.torn import classify_end as torn_rule
from durasess.engine.types import FILLER, LineError
from tests.support import mutations as mutations_module
from tests.support.mutations import (
    FORMS,
    Form,
    Mutation,
    Tally,
    Trial,
    build,
    main,
    mutations,
    pinned,
    suite_stride,
)
from tests.support.tiers import FULL

READERS_SEE_EVERY = 16
"""Of bits and lengths, the writer sees all; reader, verify and the open after it every 16th."""

CUT_OFF = "the last batch cut off whole, caught by the receipt"
SEVERAL_CUT_OFF = "several batches cut off whole, caught by the receipt"


@pytest.fixture(scope="module")
def forms() -> dict[str, Form]:
    """Each form once."""
    with pinned():
        return {name: build(name) for name in FORMS}


@pytest.mark.parametrize("name", FORMS)
def test_no_mutation_is_silently_wrong(
    forms: dict[str, Form], name: str, record_property: Callable[[str, Any], None]
) -> None:
    form = forms[name]
    found = mutations(form, bit_stride=suite_stride(form))
    tally = Tally().run(form, found, every=READERS_SEE_EVERY)
    print(f"\n{name}: {tally}")
    record_property(f"mutations of a session {name}", str(tally))
    assert tally.total > (7000 if FULL else 2000)
    assert sum(tally.writer.values()) == tally.total
    assert tally.wrong == []
    # The anchor finds a batch that is missing; without it only the receipt does.
    assert bool(tally.writer[CUT_OFF]) == (name in ("power", "power filled"))
    assert bool(tally.writer[SEVERAL_CUT_OFF]) == (name in ("power", "power filled"))


def test_building_a_session_twice_gives_the_same_bytes(forms: dict[str, Form]) -> None:
    for name, form in forms.items():
        with pinned():
            assert build(name) == form


def test_forms_have_two_snapshots_and_four_segments(forms: dict[str, Form]) -> None:
    for form in forms.values():
        assert {"snapshot.json.zst", "snapshot.prev.json.zst"} < set(form.files)
        assert sum(name.startswith("events_") for name in form.files) == 4
        kinds = {one.kind for one in mutations(form, bit_stride=lambda name: 0)}
        assert {"truncate", "drop line", "repeat line", "swap lines", "remove"} < kinds
        assert {"older", "foreign", "twin", "zero 512", "zero 4096", "tab 512"} < kinds
        assert ("cut in filler" in kinds) == form.name.endswith(" filled")
        assert form.files[form.newest].endswith(FILLER) == form.name.endswith(" filled")
        assert ("events_0001.jsonl.zst" in form.files) == form.name.endswith(" compressed")


def test_a_session_without_damage_is_exact_in_all_ways(forms: dict[str, Form]) -> None:
    for form in forms.values():
        trial = Trial(form, Mutation("none", "lock", 0, form.files["lock"]))
        with pinned():
            assert trial.writer() == trial.reader() == "exact"
            assert trial.verified().startswith("sound")
            assert trial.afterwards() == "goes on"


# Teeth: an engine with one check less is caught by the same loop.


def _obvious_torn_rule(rest: bytes, *, base: int, chain: int, next_seq: int) -> Verdict | None:
    """The rule of most logs: what cannot be read at the end, and nothing valid follows, is torn."""
    for text in rest.split(b"\n")[1:]:
        try:
            codec.head(text)
            codec.stored_crc(text)
        except LineError:
            continue
        return None
    return Verdict("nothing valid follows")


def _tabs_are_proof(rest: bytes, **more: int) -> Verdict | None:
    """A write that was cut short has filler behind it, so where filler is, a write was cut."""
    if rest.endswith(FILLER):
        return Verdict("tabs at the end")
    return torn_rule(rest, **more)


def _unchecked(line: bytes, chain: int) -> int:
    return codec.stored_crc(line)


NO_CHECKSUM = ((codec, "check", _unchecked), (Scan, "_check_seal", lambda self, seal: None))
WEAKENED = {
    "what is unreadable at the end is torn": (
        "power",
        "bit",
        ((torn, "classify_end", _obvious_torn_rule),),
    ),
    "tabs at the end prove that a write was cut": (
        "power filled",
        "bit",
        ((torn, "classify_end", _tabs_are_proof),),
    ),
    "no anchor": ("open", "truncate", ((lock, "read_anchor", lambda *_: None),)),
    "no floor and no anchor": ("closed", "truncate", ((walk, "marks", lambda claims: []),)),
    "no checksum": ("closed", "bit", NO_CHECKSUM),
}


@pytest.mark.parametrize("weakness", WEAKENED)
def test_a_weaker_engine_is_silently_wrong(
    forms: dict[str, Form], weakness: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, kind, patches = WEAKENED[weakness]
    form = forms[name]
    found = [
        one
        for one in mutations(form, bit_stride=lambda name: 5)
        if one.kind == kind and one.name == form.newest
    ]
    sound = Tally().run(form, found, every=len(found) + 1)
    for owner, attribute, weaker in patches:
        monkeypatch.setattr(owner, attribute, weaker)
    weak = Tally().run(form, found, every=len(found) + 1)
    print(f"\n{weakness}: {weak.writer['WRONG']} of {weak.total} silently wrong")
    assert sound.writer["WRONG"] == 0
    assert weak.writer["WRONG"] >= 20


def test_command_line_prints_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutations_module, "suite_stride", lambda form: lambda name: 0)
    main(["--forms", "power"])
    text = capsys.readouterr().out
    assert "mutations in all" in text and CUT_OFF in text
