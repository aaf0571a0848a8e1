"""What a new session is told: the store's own mask says what a credential is."""

import pytest

from durasess import EventRejectedError
from durasess.session.masking import Masked
from tests.support.harness import store_at

SECRET = "sk-" + "a1B2" * 10


def no_ham(value):
    return Masked(value, ["$.meat"]) if "ham" in str(value) else Masked(value, [])


def test_config_that_the_stores_mask_finds_a_secret_in_is_refused_and_nothing_made(tmp_path):
    store = store_at(tmp_path, mask=no_ham)
    with pytest.raises(EventRejectedError, match=r"\$\.meat looks like a credential"):
        store.create("s", config={"meat": "ham"})
    assert store.list().total == 0


def test_config_of_a_store_without_a_mask_is_taken_as_it_is(tmp_path):
    with store_at(tmp_path, mask=None).create("s", config={"api_key": SECRET}) as session:
        assert session.state.runtime_config == {"api_key": SECRET}


def test_config_changed_later_is_judged_by_the_same_mask(tmp_path):
    session = store_at(tmp_path, mask=no_ham).create("s")
    with pytest.raises(EventRejectedError, match="credential"):
        session.configure(meat="ham")
    session.close()


def test_secrets_of_an_event_are_named_beside_those_that_its_caller_masked(tmp_path):
    with store_at(tmp_path).create("s") as session:
        session.emit("note", {"text": SECRET, "masked": ["$.gone"]})
        [event] = session.events(after=1)
    assert event.data == {"text": "sk-[masked]", "masked": ["$.gone", "$.text"]}
