"""Lines whose values are not what they should be: no importer raises, and nothing is lost."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest

from durasess.interop.importing import NotRecognizedError
from durasess.store.store import Store
from tests.interop.test_importing import GROWING
from tests.support.foreign import Imported, assert_nothing_lost, write

ODD: list[Any] = [None, True, 0, -1, 1.5, "", "x", [], {}, [None], [[]], {"": {}}, [{}], ["x"]]
ROUNDS = 120


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container with every key or index in it."""
    found: list[tuple[Any, Any]] = []
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inside:
        found.append((value, key))
        if isinstance(one, dict | list):
            found += places(one)
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", GROWING)
def test_odd_values_anywhere_lose_nothing(tmp_path: Path, name: str, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(ROUNDS // 4):
        lines = copy.deepcopy(GROWING[name])
        for _ in range(chance.randint(1, 4)):
            container, key = chance.choice(places(lines[1:]))
            if container is not lines and isinstance(container, dict) and chance.random() < 0.3:
                container.pop(key, None)
            elif isinstance(container, dict) or key < len(container):
                container[key] = copy.deepcopy(chance.choice(ODD))
        lines = [line for line in lines if isinstance(line, dict)]
        path = write(tmp_path / f"{number}.jsonl", lines)
        store = Store(tmp_path / f"store-{number}", mask=None)
        try:
            found = Imported(store, path)
        except NotRecognizedError:
            continue
        assert_nothing_lost(found)
        with store.open(found.report.session_id) as session:
            assert not session.recovery.was_interrupted
