"""Which session a text means, and where a session comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from durasess import SessionNotFoundError, Store
from durasess.store import lookup
from tests.support import stores


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three sessions."""
    store = stores.store_at(tmp_path)
    for name, title in (("abc1", "Fix the login"), ("abd2", "Fix the logout"), ("x", "abc")):
        stores.make(store, name, title=title)
    return store


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("abc1", "abc1"),
        ("abd", "abd2"),
        ("abc", "abc1"),
        ("fix  the LOGIN", "abc1"),
        ("logout", "abd2"),
        ("x", "x"),
    ],
)
def test_text_means_one_session(store: Store, text: str, found: str) -> None:
    assert store.find(text) == found


def test_text_that_may_be_several_names_them(store: Store) -> None:
    with pytest.raises(SessionNotFoundError, match=r"2 sessions: abd2 .*, abc1"):
        store.find("ab")


@pytest.mark.parametrize("text", ["nothing", "", "  ", "../abc1", "a/b", "\0"])
def test_text_that_means_none_is_not_found(store: Store, text: str) -> None:
    with pytest.raises(SessionNotFoundError):
        store.find(text)


def test_lineage_goes_back_to_the_first(store: Store) -> None:
    store.make_fork("abc1", new_id="f1")
    store.make_fork("f1", new_id="f2")
    assert store.lineage("f2") == lookup.Lineage(("f2", "f1", "abc1"))


def test_lineage_says_that_a_parent_is_gone(store: Store) -> None:
    store.make_fork("abc1", new_id="f1")
    store.delete("abc1")
    assert store.lineage("f1") == lookup.Lineage(("f1",), "abc1 is not there")
