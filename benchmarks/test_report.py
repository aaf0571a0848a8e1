"""The page that a run writes: what it says of targets, and that its pictures are whole."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks import bounds, machine, pictures, report, targets
from benchmarks.findings import Findings, Picture, Table

LINES = {"durasess": [(10.0, 1.0), (100.0, 1.0)], "a < b": [(10.0, 1.0), (100.0, 3.0)]}
PICTURE = Picture("growth", "Growth", "events", "ms", LINES)


def test_a_figure_beyond_its_limit_is_not_met() -> None:
    most, least = targets.Target("a", "a", 2), targets.Target("b", "b", 2, "least")
    verdicts = [most.is_met(2.1), most.is_met(2.0), least.is_met(1.9), least.is_met(2.0)]
    assert verdicts == [False, True, False, True]


def test_a_missed_target_says_by_how_much() -> None:
    (row,) = targets.rows({"append_one": 2.7})
    assert row[1:] == ("at most 1.35×", "2.70×", "**not met**, 50 % short")


def test_targets_that_are_missed_for_one_reason_share_a_row() -> None:
    figures = {"append_one": 2.7, "append_sqlite": 0.9, "append_loop_sqlite": 1.2, "list_s": 0.9}
    first, second = bounds.rows(figures)
    assert first[0].count(";") == 1 and "Ctrl-C" in first[1]
    assert second == ("all sessions listed, the longest store", bounds.UNKNOWN)


def test_a_bound_is_that_of_a_target_and_names_decisions_that_are_there() -> None:
    assert bounds.BOUNDS.keys() <= {one.figure for one in targets.TARGETS}
    docs = Path(__file__).parents[1] / "docs"
    for text in bounds.BOUNDS.values():
        assert all((docs / name).exists() for name in re.findall(r"\(([^()]*\.md)\)", text))


def test_every_target_that_the_kept_report_misses_has_its_reason() -> None:
    text = (Path(__file__).parents[1] / "docs" / "BENCHMARKS.md").read_text(encoding="utf-8")
    missed = re.findall(r"^\| (.*?) \| .*\*\*not met\*\*", text, re.MULTILINE)
    figures = {one.what: one.figure for one in targets.TARGETS}
    assert missed and all(figures[what] in bounds.BOUNDS for what in missed)


def test_a_picture_is_well_formed_and_names_every_line() -> None:
    root = ET.fromstring(pictures.svg(PICTURE))
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"durasess", "a < b"} <= set(texts)


def test_a_picture_without_points_is_refused() -> None:
    with pytest.raises(ValueError, match="has no points"):
        pictures.svg(Picture("empty", "Empty", "x", "y", {}))


def test_the_report_names_the_machine_without_a_path(tmp_path: Path) -> None:
    found = Findings([Table("T", "Note.", ("a", "b"), [("1", "2")])], {}, [PICTURE])
    path = tmp_path / "BENCHMARKS.md"
    report.write(path, found, machine=machine.description(tmp_path), command="command")
    text = path.read_text(encoding="utf-8")
    assert "| 1 | 2 |" in text and str(tmp_path) not in text
    assert (tmp_path / "pictures" / "growth.svg").exists()
