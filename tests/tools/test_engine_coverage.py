"""The measure of the engine's branches fails where a test fails, and where a branch is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import engine_coverage


@pytest.fixture
def one_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one module of one branch and a test of half of it."""
    engine = tmp_path / "durasess" / "engine"
    engine.mkdir(parents=True)
    (engine.parent / "__init__.py").touch()
    (engine / "__init__.py").touch()
    (engine / "one.py").write_text("def half(x):\n    if x:\n        return 1\n    return 2\n")
    test = tmp_path / "test_one.py"
    test.write_text("from durasess.engine.one import half\n\ndef test_one():\n    half(1)\n")
    monkeypatch.setattr(engine_coverage, "ROOT", tmp_path)
    monkeypatch.setattr(engine_coverage, "TESTS", (("test_one.py",),))
    monkeypatch.setattr(engine_coverage, "LEAST", 100.0)
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)
    return test


def test_missing_branch_is_a_failure_and_is_named(
    one_module: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert engine_coverage.main([]) == 1
    assert "one.py" in capfd.readouterr().out
    assert engine_coverage.main(["--least", "50"]) == 0
    one_module.write_text(one_module.read_text() + "    half(0)\n")
    assert engine_coverage.main([]) == 0


def test_test_that_fails_is_a_failure_whatever_it_covers(one_module: Path) -> None:
    one_module.write_text(one_module.read_text() + "    half(0)\n    assert False\n")
    assert engine_coverage.main(["--least", "0"]) == 1
