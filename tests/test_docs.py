"""The documents say what is true: README examples run, names and numbers match the code."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

import durasess
from durasess import errors
from durasess.cli.main import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FORMAT = (ROOT / "docs/FORMAT.md").read_text(encoding="utf-8")
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
CLOCK = 1_767_225_600_000_000_000
ARCHITECTURE = (ROOT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/SESSIONS.md"])
def test_examples_of_a_page_run_and_print_what_they_say(page: str, tmp_path: Path) -> None:
    examples = blocks((ROOT / page).read_text(encoding="utf-8"), "python")
    assert examples
    for example in examples:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", example],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        for expected in re.findall(r"print\(.*\)\s+# (.+)", example):
            assert expected in done.stdout


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{name}" for name in PAGES)])
def test_links_lead_to_something_that_is_there(page: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text("utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, heading = target.partition("#")
        place = (ROOT / page).parent / path if path else ROOT / page
        assert place.exists(), f"{page}: {target}"
        if heading:
            titles = re.findall(r"^#+ (.+)$", place.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in titles]
            assert heading in anchors, f"{page}: {target}"


def test_readme_commands_are_the_two_of_a_fresh_machine() -> None:
    commands = [block.strip() for block in blocks(README, "sh")]
    assert commands == ["pip install . && durasess drill", "pip install -e '.[test]' && pytest"]


def test_readme_error_tree_names_every_error() -> None:
    for name in errors.__all__:
        assert name in README, f"README's error tree lacks {name}"


def test_every_invariant_names_a_test_that_is_there() -> None:
    rows = re.findall(r"^\| (I\d+) \|.*\| (.+) \|$", ARCHITECTURE, re.MULTILINE)
    assert [name for name, _ in rows] == [f"I{number}" for number in range(1, len(rows) + 1)]
    for name, tests in rows:
        for path in re.findall(r"`(tests/[\w/.]+)`", tests):
            assert (ROOT / path).exists(), f"{name} names {path}"


@pytest.mark.parametrize("layer", ["engine", "session", "store", "interop"])
def test_architecture_names_every_module_of_a_layer_and_no_other(layer: str) -> None:
    table = ARCHITECTURE.split(f"\n**{layer}**")[1].split("\n**")[0]
    named = set(re.findall(r"`(\w+\*?)`", table.split("|", 1)[1]))
    there = {path.stem for path in (ROOT / "durasess" / layer).glob("*.py")} - {"__init__"}
    assert [one for one in sorted(there) if not any(fnmatch(one, name) for name in named)] == []
    assert [name for name in sorted(named) if not any(fnmatch(one, name) for one in there)] == []


def test_every_promise_and_rule_that_the_code_cites_is_in_the_architecture() -> None:
    said = ARCHITECTURE.split("### Promises and rules")[1]
    for path in (ROOT / "durasess").rglob("*.py"):
        cited = re.findall(r"\b[PR]\d+\b", path.read_text(encoding="utf-8"))
        assert set(cited) <= set(re.findall(r"\b[PR]\d+\b", said)), path


def test_every_decision_has_its_parts() -> None:
    for path in sorted((ROOT / "docs/decisions").glob("[0-9]*.md")):
        text = path.read_text(encoding="utf-8")
        for part in ("**Status**", "## Question", "## Decision", "## Why", "## Alternatives"):
            assert part in text, f"{path.name} lacks {part}"


def test_changelog_has_the_version() -> None:
    assert f"## {durasess.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_format_page_names_every_member_that_is_written() -> None:
    from durasess.engine import lock, meta, segment, snapshot

    for struct in (
        segment.Header,
        segment.Seal,
        meta.Meta,
        meta.Baseline,
        meta.Floor,
        snapshot.Trailer,
        snapshot.Document,
        lock.Anchor,
    ):
        for field in struct.__struct_fields__:
            assert f"`{field}`" in FORMAT, f"FORMAT.md lacks {struct.__name__}.{field}"


def test_format_page_example_is_a_segment_that_both_readers_accept() -> None:
    from tests.conformance.reference_reader import verify_line

    lines = re.findall(r"^(\{.*\"crc\":\"[0-9a-f]{8}\"\})$", FORMAT, re.MULTILINE)
    header, first, second, seal = (line.encode() for line in lines[-5:-1])
    assert verify_line(header, 0) is not None
    chain = verify_line(first, 0)
    assert chain is not None
    chain = verify_line(second, chain)
    assert chain is not None
    assert verify_line(seal, chain) is not None


def test_readme_inspect_sample_is_what_the_command_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sample(tmp_path / "a1")
    sample = README[README.index("$ durasess inspect a1\n") :].split("```")[0]
    printed = "$ durasess inspect a1\n" + inspected(tmp_path / "a1", capsys)
    assert bodies(sample) == bodies(printed)
    assert len(bodies(sample)) >= 8


def make_sample(path: Path) -> None:
    """The session of the README: 120 events, snapshots, one more event, half a line."""
    options = {"initial": int, "apply": lambda state, event: state + 1, "clock": lambda: CLOCK}
    with durasess.Engine.open(path, snapshot_every=50, **options) as engine:  # type: ignore
        for number in range(120):
            engine.append("counted", {"n": number})
            if (number + 1) % 50 == 0:
                engine.snapshot()
    engine = durasess.Engine.open(path, **options)  # type: ignore
    engine.append("x", {"y": 1})
    engine.abandon()
    with open(path / "events_0004.jsonl", "r+b") as segment:
        segment.seek(len(segment.read().rstrip(b"\t")))
        segment.write(b'{"seq":122,"ts":"2026')


def inspected(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `durasess inspect` prints."""
    assert main(["inspect", str(path)]) == 0
    return capsys.readouterr().out


def bodies(text: str) -> list[list[str]]:
    """The words of each line; sizes that hold a process id or a machine's path left out."""
    lines = [line.split() for line in text.strip().split("\n")[1:]]
    varying = ("path", "file", "snapshot", "previous")
    return [
        [word for word in line if not line[0].startswith("events_") or not is_number(word)]
        for line in lines
        if line and line[0] not in varying
    ]


def is_number(word: str) -> bool:
    """A count or a size."""
    return word.replace(",", "").isdigit()
