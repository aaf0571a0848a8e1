"""Ids and names: what is legal stays, the rest gets a free one, always the same."""

import re

from hypothesis import given
from hypothesis import strategies as st

from durasess.session.context_ids import legal_ids, legal_name

IDS = st.lists(st.sampled_from(["x", "x_2", "", "a b", "a_b", "é" * 70, "i" * 65]) | st.text())


@given(IDS, st.integers(5, 64))
def test_ids_are_legal_unique_and_the_same_each_time(ids, longest):
    made = legal_ids(ids, longest=longest)
    assert len(set(made)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", one) and len(one) <= longest for one in made)
    assert legal_ids(ids, longest=longest) == made


def test_legal_id_keeps_its_first_use_even_after_one_that_would_become_it():
    assert legal_ids(["a b", "a_b", "a_b"]) == ["a_b_2", "a_b", "a_b_3"]


def test_sixty_four_characters_stay_and_one_more_is_cut():
    assert legal_ids(["i" * 64]) == ["i" * 64]
    assert legal_ids(["j" * 65]) == ["j" * 64]


def test_names_lose_illegal_characters():
    assert [legal_name(one) for one in ("fs.read", "", "n" * 70)] == [
        "fs_read",
        "unnamed",
        "n" * 64,
    ]
