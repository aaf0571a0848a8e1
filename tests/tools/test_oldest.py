"""The constraints that pin each dependency to the oldest version allowed."""

from __future__ import annotations

import pytest

from tools import oldest


def test_each_dependency_is_pinned_to_its_lower_bound():
    pyproject = '[project]\ndependencies = ["one>=0.19", "two-b>=3.2.1"]\n'
    assert oldest.constraints(pyproject) == ["one==0.19", "two-b==3.2.1"]


def test_dependency_without_a_lower_bound_is_refused():
    with pytest.raises(ValueError, match="one"):
        oldest.constraints('[project]\ndependencies = ["one"]\n')
