"""The order of a tree of sessions: whole families, parents first, circles cut, any depth."""

from __future__ import annotations

import random

import pytest

from durasess.store.families import Member, ordered


def shown(*members: tuple[int, str, str], descending: bool = True) -> str:
    """The tree as text: `a b.1` is b under a."""
    found = ordered([Member(*one) for one in members], descending=descending)
    return " ".join(one.session_id + (f".{one.depth}" if one.depth else "") for one in found)


def test_forks_and_children_stand_under_their_parent() -> None:
    assert shown((1, "a", ""), (2, "b", "a"), (3, "c", "b"), (4, "d", "a")) == "a d.1 b.1 c.2"


def test_family_stands_where_the_first_of_it_would() -> None:
    members = ((1, "old", ""), (2, "new", ""), (9, "fork", "old"))
    assert shown(*members) == "old fork.1 new"
    assert shown(*members, descending=False) == "old fork.1 new"
    assert shown((5, "a", ""), (4, "b", ""), (1, "c", "b"), descending=False) == "b c.1 a"


def test_parent_that_is_not_among_them_makes_a_top() -> None:
    assert shown((1, "a", "gone"), (2, "b", "a")) == "a b.1"


def test_session_that_is_its_own_parent_is_a_top() -> None:
    assert shown((1, "a", "a"), (2, "b", "a")) == "a b.1"


@pytest.mark.parametrize("descending", [True, False])
def test_circle_is_cut_where_it_comes_round(descending: bool) -> None:
    members = ((1, "a", "b"), (2, "b", "c"), (3, "c", "a"), (4, "d", "c"), (5, "e", "d"))
    found = ordered([Member(*one) for one in members], descending=descending)
    assert sorted(one.session_id for one in found) == list("abcde")
    assert found[0].depth == 0
    assert sum(one.depth == 0 for one in found) == 1


def test_ten_thousand_generations_are_no_problem() -> None:
    members = [Member(n, f"s{n}", f"s{n - 1}" if n else "") for n in range(10_000)]
    random.Random(1).shuffle(members)
    found = ordered(members, descending=True)
    assert [one.depth for one in found] == list(range(10_000))


def test_any_parents_show_each_session_once_and_behind_its_parent() -> None:
    chance = random.Random(7)
    for _ in range(200):
        names = [f"s{n}" for n in range(chance.randint(1, 9))]
        members = [
            Member(n, name, chance.choice([*names, "", "gone"])) for n, name in enumerate(names)
        ]
        found = ordered(members, descending=chance.random() < 0.5)
        assert sorted(one.session_id for one in found) == sorted(names)
        depths = {one.session_id: one.depth for one in found}
        place = {one.session_id: at for at, one in enumerate(found)}
        for one in members:
            if depths[one.session_id]:
                assert depths[one.session_id] == depths[one.parent] + 1
                assert place[one.session_id] > place[one.parent]
