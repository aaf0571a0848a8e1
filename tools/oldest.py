"""The oldest packages that pyproject.toml allows, as constraints for pip: what a range promises is
tested at its lower end too.

    python -m tools.oldest > oldest.txt && pip install . -c oldest.txt
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_LOWER_BOUND = re.compile(r"([A-Za-z0-9._-]+)>=([0-9.]+)")


def constraints(pyproject: str) -> list[str]:
    """`name==version` for each dependency; ValueError for one without a lower bound."""
    found = []
    for requirement in tomllib.loads(pyproject)["project"]["dependencies"]:
        match = _LOWER_BOUND.fullmatch(requirement)
        if match is None:
            raise ValueError(f"{requirement!r} is not of the form name>=version")
        found.append(f"{match[1]}=={match[2]}")
    return found


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[1]
    print("\n".join(constraints((root / "pyproject.toml").read_text())))
