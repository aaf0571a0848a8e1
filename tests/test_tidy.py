"""The repository keeps the rules of `tools/tidy.py`, and each rule finds its violation."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.tidy import check_markdown, check_paths, check_python, check_repository, main

ROOT = Path(__file__).resolve().parents[1]

ENGINE = "durasess/engine/segment.py"
SESSION = "durasess/session/runs.py"
COMMAND = "durasess/cli/inspect.py"


def rules(path: str, code: str) -> list[str]:
    """The rules that a module with a docstring and this code breaks, one for each finding."""
    return [finding.rule for finding in check_python(path, f'"""One job."""\n\n{code}\n')]


def test_repository_is_tidy() -> None:
    """In a process of its own: nothing that other tests left to the collector runs in between."""
    command = [sys.executable, str(ROOT / "tools/tidy.py"), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


# Sizes.


def test_line_of_101_columns_is_found_with_its_place_and_remedy() -> None:
    (finding,) = check_python(ENGINE, '"""One job."""\n\nX = "' + "x" * 95 + '"\n')
    assert str(finding) == f"{ENGINE}:3: columns: 101 columns; break the line at 100"


def test_line_of_100_columns_is_fine() -> None:
    assert rules(ENGINE, 'X = "' + "x" * 94 + '"') == []


@pytest.mark.parametrize("end", [" ", "\t", "\r"])
def test_trailing_blank_is_found(end: str) -> None:
    assert rules(ENGINE, f"X = 1{end}\nY = 2") == ["trailing-blank"]


@pytest.mark.parametrize(
    ("path", "lines_max"),
    [(ENGINE, 60), (COMMAND, 60), ("tests/test_x.py", 80), ("tools/x.py", 80)],
)
def test_function_longer_than_its_folder_allows_is_found(path: str, lines_max: int) -> None:
    body = "    pass\n"
    assert rules(path, "def _f():\n" + body * (lines_max - 1)) == []
    assert rules(path, "def _f():\n" + body * lines_max) == ["function-length"]
    assert rules(path, "async def _f():\n" + body * lines_max) == ["function-length"]


def test_module_of_301_lines_is_found_in_the_package_only() -> None:
    code = '"""One job."""\n' + "X = 1\n" * 300
    assert [finding.rule for finding in check_python(ENGINE, code)] == ["module-length"]
    assert check_python("tests/test_x.py", code) == []
    assert check_python(ENGINE, code.removesuffix("X = 1\n")) == []


def test_code_that_does_not_parse_is_one_finding() -> None:
    assert [finding.rule for finding in check_python(ENGINE, "def\n")] == ["syntax"]


# Docstrings.


@pytest.mark.parametrize("path", [ENGINE, "tests/unit/test_x.py", "tools/x.py"])
def test_module_without_docstring_is_found(path: str) -> None:
    assert [finding.rule for finding in check_python(path, "X = 1\n")] == ["docstring"]


def test_empty_package_needs_a_docstring_in_durasess_only() -> None:
    assert check_python("tests/unit/__init__.py", "") == []
    assert len(check_python("durasess/store/__init__.py", "")) == 1


@pytest.mark.parametrize(
    "code",
    [
        "def f(): pass",
        "async def f(): pass",
        "class C: pass",
        'class C:\n    """Doc."""\n    def f(self): pass',
        'class C(Protocol):\n    """Doc."""\n    def f(self): ...',
        "if True:\n    def f(): pass",
    ],
)
def test_public_name_without_docstring_is_found(code: str) -> None:
    assert rules(ENGINE, code) == ["docstring"]
    assert rules("tools/x.py", code) == []


@pytest.mark.parametrize(
    "code",
    [
        "def _f(): pass",
        "class _C:\n    def f(self): pass",
        'class C:\n    """Doc."""\n    def __init__(self): pass',
        'class C(Base):\n    """Doc."""\n    def inherited(self): pass',
        'def f():\n    """Doc."""\n    def inner(): pass',
        "@overload\ndef f(): ...",
        'class C:\n    """Doc."""\n    @x.setter\n    def x(self, x): ...',
    ],
)
def test_private_or_inherited_name_needs_no_docstring(code: str) -> None:
    assert rules(ENGINE, code) == []


# Leftovers and names.


@pytest.mark.parametrize(
    "code", ["# TODO: later", "# FIXME", "X = 'XXX'", "raise NotImplementedError"]
)
def test_leftover_is_found_in_the_package_only(code: str) -> None:
    assert rules(ENGINE, code) == ["leftover"]
    assert rules("tests/test_x.py", code) == []


@pytest.mark.parametrize(
    "path",
    ["durasess/session/utils.py", "durasess/helpers/x.py", "tests/common.py", "tools/misc.py"],
)
def test_vague_module_name_is_found(path: str) -> None:
    assert [finding.rule for finding in check_paths([path])] == ["module-name"]


def test_engine_module_without_unit_test_is_found() -> None:
    (finding,) = check_paths([ENGINE, "durasess/engine/__init__.py", SESSION])
    assert (finding.path, finding.rule) == (ENGINE, "unit-test")
    assert finding.message.endswith("write tests/unit/test_segment.py")
    assert check_paths([ENGINE, "tests/unit/test_segment.py"]) == []


# Markdown.


def test_markdown_with_two_titles_is_found() -> None:
    (finding,) = check_markdown("README.md", "# One\n\ntext\n\n# Two\n")
    assert str(finding).startswith("README.md:5: title: second `#` title, the first is in line 1")


def test_markdown_without_title_is_found() -> None:
    assert [finding.rule for finding in check_markdown("a.md", "## Two\n")] == ["title"]


@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_comment_in_fenced_code_is_no_title(fence: str) -> None:
    assert check_markdown("a.md", f"# One\n\n{fence}sh\n# no title\n{fence}\n") == []


def test_inner_fence_does_not_end_the_outer() -> None:
    assert check_markdown("a.md", "# One\n\n````\n```\n# x\n```\n# y\n````\n") == []
    assert len(check_markdown("a.md", "# One\n\n```\n# x\n```\n# y\n")) == 1


def test_trailing_blank_in_markdown_is_found() -> None:
    assert [finding.rule for finding in check_markdown("a.md", "# One \n")] == ["trailing-blank"]


# Layers.


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("durasess/errors.py", "from durasess.engine.types import Event"),
        (ENGINE, "from durasess.session import runs"),
        (SESSION, "import durasess.store.index"),
        (SESSION, "from ..store import index"),
        ("durasess/store/index.py", "from durasess.interop.codex import read"),
        ("durasess/interop/codex.py", "from durasess.cli import main"),
        ("durasess/store/index.py", "from durasess import Engine"),
        ("durasess/__init__.py", "from durasess.cli.main import main"),
        ("durasess/store/index.py", "def _f():\n    from durasess.cli import main"),
    ],
)
def test_import_of_a_higher_layer_is_found(path: str, code: str) -> None:
    assert rules(path, code) == ["layer"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (COMMAND, "import durasess"),
        (COMMAND, "from durasess.interop import codex"),
        (COMMAND, "from durasess.cli import tables"),
        ("durasess/__init__.py", "from durasess.store import Store"),
        ("durasess/__main__.py", "from durasess.cli.main import main"),
        ("durasess/store/index.py", "from durasess.session.runs import Run"),
        (SESSION, "from durasess.session import state"),
        (SESSION, "from durasess.engine import Engine"),
        (SESSION, "from durasess import errors"),
        (ENGINE, "from durasess.errors import CorruptionError"),
    ],
)
def test_import_of_the_same_or_a_lower_layer_is_fine(path: str, code: str) -> None:
    assert rules(path, code) == []


@pytest.mark.parametrize(
    ("importer", "code"),
    [
        ("segment", "from durasess.engine.snapshot import read"),
        ("segment", "from durasess.engine import snapshot"),
        ("segment", "from . import snapshot"),
        ("segment", "from .survey import scan"),
        ("types", "from durasess.engine.paths import segment"),
        ("recovery", "import durasess.engine.log"),
        ("recovery", "from durasess.engine.engine import Engine"),
        ("recovery", "from durasess.engine import Engine"),
        ("recovery", "from durasess import engine"),
    ],
)
def test_import_within_engine_that_does_not_go_down_is_found(importer: str, code: str) -> None:
    assert rules(f"durasess/engine/{importer}.py", code) == ["layer"]


def test_import_within_engine_that_goes_down_is_fine() -> None:
    assert rules("durasess/engine/recovery.py", "from durasess.engine.survey import scan") == []
    assert rules("durasess/engine/survey.py", "from durasess.engine import segment, types") == []
    assert rules("durasess/engine/__init__.py", "from .engine import Engine") == []


def test_module_without_a_place_in_the_tables_is_found() -> None:
    assert rules("durasess/engine/extra.py", "") == ["layer"]
    assert rules("durasess/extra.py", "") == ["layer"]
    assert rules("durasess/extra/x.py", "") == ["layer"]


@pytest.mark.parametrize("code", ["import rich", "from rich.table import Table"])
def test_rich_outside_the_command_is_found(code: str) -> None:
    assert rules(SESSION, code) == ["dependency"]
    assert rules(COMMAND, code) == []


def test_portalocker_is_imported_in_one_module_and_late() -> None:
    late = "def _f():\n    import portalocker"
    assert rules("durasess/engine/flock.py", late) == []
    assert rules("durasess/engine/flock.py", "import portalocker") == ["dependency"]
    assert rules("durasess/engine/lock.py", late) == ["dependency"]


def test_zstandard_outside_its_home_is_found() -> None:
    assert rules("durasess/engine/snapshot.py", "import zstandard") == ["dependency"]
    assert rules("durasess/engine/frames.py", "import zstandard") == []


@pytest.mark.parametrize(
    "code",
    [
        "import json",
        "from json import loads",
        "import zlib",
        "from hashlib import blake2b",
        "import msgspec.json",
        "from msgspec import json",
        "import msgspec\nX = msgspec.json.Encoder()",
        "import msgspec as m\nX = m.json.decode(b'')",
    ],
)
def test_bytes_to_values_outside_the_codec_is_found(code: str) -> None:
    assert rules(ENGINE, code) == ["codec"]
    assert rules("durasess/engine/codec.py", code) == []
    assert rules(COMMAND, code) == []


def test_struct_definition_is_fine_anywhere() -> None:
    code = 'import msgspec\n\n\nclass C(msgspec.Struct):\n    """Doc."""\n'
    assert rules("durasess/engine/types.py", code) == []


# Homes of effects.

DISK_CALLS = [
    "import os\nos.open('a', 0)",
    "import os\nos.write(1, b'')",
    "import os\nos.pwrite(1, b'', 0)",
    "import os\nos.fsync(1)",
    "import os\nos.fdatasync(1)",
    "import os\nos.rename('a', 'b')",
    "import os\nos.replace('a', 'b')",
    "import os\nos.unlink('a')",
    "import os\nos.remove('a')",
    "import os\nos.mkdir('a')",
    "import os\nos.makedirs('a')",
    "import os\nos.rmdir('a')",
    "import os\nos.ftruncate(1, 0)",
    "import os\nos.truncate('a', 0)",
    "import os as system\nsystem.replace('a', 'b')",
    "from os import replace as move\nmove('a', 'b')",
    "import os\nX = os.fsync",
    "import shutil\nshutil.move('a', 'b')",
    "open('a', 'wb')",
    "open('a')",
    "from pathlib import Path\nPath('a').write_text('x')",
    "from pathlib import Path\nPath('a').write_bytes(b'x')",
    "from pathlib import Path\nPath('a').unlink()",
    "X.path.rename('b')",
    "X.open('ab')",
    "X.open(mode='w')",
]


@pytest.mark.parametrize("code", DISK_CALLS)
def test_disk_effect_outside_its_home_is_found(code: str) -> None:
    assert rules(ENGINE, code) == ["disk"]
    assert rules(COMMAND, code) == ["disk"]
    assert rules("durasess/engine/files.py", code) == []
    assert rules("tests/test_x.py", code) == []


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.path.join('a', 'b')",
        "import os\nos.read(0, 1)",
        "import shutil\nshutil.get_terminal_size()",
        "files.unlink('a')",
        "self._files.mkdir('a')",
        "'a'.replace('a', 'b')",
        "store.open('wax')",
        "engine.open('a1', mode='own')",
        "def open(path):\n    '''Doc.'''\nopen('a')",
        "class _C:\n    def open(self): pass",
    ],
)
def test_what_only_looks_like_a_disk_effect_is_fine(code: str) -> None:
    assert rules(ENGINE, code) == []


def test_method_named_open_does_not_hide_the_builtin() -> None:
    assert rules(ENGINE, "class _C:\n    def open(self): return open('a', 'w')") == ["disk"]


def test_command_may_read_a_file_it_was_given_and_nothing_more() -> None:
    assert rules(COMMAND, "open(X, 'rb')") == []
    assert rules(COMMAND, "open(X, mode='r', encoding='utf-8')") == []
    assert rules(COMMAND, "import os\nos.open(os.devnull, os.O_WRONLY)") == []
    assert rules(COMMAND, "open(X, 'r+b')") == ["disk"]
    assert rules(COMMAND, "open(X, MODE)") == ["disk"]
    assert rules(SESSION, "open(X, 'rb')") == ["disk"]


def test_temporary_directory_is_for_the_command_only() -> None:
    code = "import tempfile\ntempfile.mkdtemp()"
    assert rules(COMMAND, code) == []
    assert rules(SESSION, code) == ["disk"]


@pytest.mark.parametrize(
    "code",
    [
        "print('x')",
        "F = print",
        "import sys\nsys.stdout.write('x')",
        "from sys import stderr\nstderr",
    ],
)
def test_printing_outside_the_command_is_found(code: str) -> None:
    assert rules(SESSION, code) == ["print"]
    assert rules(COMMAND, code) == []


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.time()",
        "import time\nX = time.time_ns",
        "from datetime import datetime\ndatetime.now()",
        "import datetime as dt\ndt.datetime.now(dt.UTC).isoformat()",
        "from datetime import datetime\ndatetime.utcnow()",
    ],
)
def test_wall_clock_outside_its_homes_is_found(code: str) -> None:
    assert rules(SESSION, code) == ["clock"]
    assert rules("durasess/engine/tickets.py", code) == ["clock"]
    assert rules("durasess/engine/files.py", code) == []
    assert rules(COMMAND, code) == []


@pytest.mark.parametrize("name", ["monotonic", "perf_counter"])
def test_stopwatch_is_for_the_scheduler_and_the_command(name: str) -> None:
    code = f"import time\ntime.{name}()"
    assert rules("durasess/engine/scheduler.py", code) == []
    assert rules(COMMAND, code) == []
    assert rules(SESSION, code) == ["clock"]


@pytest.mark.parametrize(
    "code",
    [
        "import random\nrandom.random()",
        "from random import Random\nRandom(1)",
        "import uuid\nuuid.uuid4()",
        "from os import urandom\nurandom(8)",
        "import secrets\nsecrets.token_hex(8)",
    ],
)
def test_randomness_outside_its_homes_is_found(code: str) -> None:
    assert rules(SESSION, code) == ["randomness"]
    assert rules("durasess/engine/files.py", code) == []
    assert rules(COMMAND, code) == []


@pytest.mark.parametrize(
    "code",
    [
        "import random\n\n\ndef _f(rng: random.Random) -> random.Random: ...",
        "from datetime import datetime\ndatetime.fromisoformat('2026-01-01')",
        "import uuid\nuuid.UUID(int=1)",
        "import time\ntime.sleep(1)",
    ],
)
def test_clock_and_randomness_handed_in_are_fine(code: str) -> None:
    assert rules(SESSION, code) == []


# File names.


@pytest.mark.parametrize(
    "code",
    [
        "X = 'meta.json'",
        "X = 'snapshot.json.zst'",
        "X = 'snapshot.prev.json.zst'",
        "X = 'events_0001.jsonl'",
        "X = f'events_{N:04d}.jsonl'",
        "X = PATH / 'owner'",
        "import os\nX = os.path.join(PATH, 'quarantine')",
        "X = PATH.joinpath('workers', NAME)",
        "from durasess.engine import paths\nX = paths.join(PATH, 'lock')",
    ],
)
def test_file_name_outside_paths_is_found(code: str) -> None:
    assert rules(SESSION, code) == ["file-name"]


def test_file_names_are_at_home_in_paths() -> None:
    assert rules("durasess/engine/paths.py", "X = ('meta.json', f'events_{N}', Y / 'owner')") == []


@pytest.mark.parametrize(
    "code",
    [
        "X = {'owner': 1, 'quarantine': [], 'snapshot': None}",
        "X = 'meta.json is missing'",
        "X = PATH / 'blob'",
    ],
)
def test_ordinary_word_is_no_file_name(code: str) -> None:
    assert rules(SESSION, code) == []


# Words.


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("wal_path = 1", "'log'"),
        ("def _f(journal): pass", "'log'"),
        ("X.sequence_number = 1", "'seq'"),
        ("class _CorruptTail: pass", "'torn tail'"),
        ("def _flush_to_disk(): pass", "'sync'"),
        ("def _truncate_log(): pass", "'prune'"),
        ("class _WALReader: pass", "'log'"),
        ("def _f():\n    '''Vacuum the segments.'''", "'prune'"),
        ("X = 1\n'''Highest sequence\n    numbers.'''", "'seq'"),
    ],
)
def test_banned_word_is_found_with_the_right_one(code: str, word: str) -> None:
    (finding,) = check_python(SESSION, f'"""One job."""\n\n{code}\n')
    assert (finding.rule, finding.message.rsplit(" ", 1)[-1]) == ("word", word.rsplit(" ", 1)[-1])
    assert finding.message.endswith(f"the word is {word}")


def test_banned_module_name_is_found() -> None:
    assert rules("durasess/session/journal.py", "") == ["word"]


@pytest.mark.parametrize(
    "code",
    [
        "wall_clock = walk = 1",
        "def _f():\n    '''SQLite's journal and its WAL.'''",
        "X = 'PRAGMA journal_mode=WAL'",
        "def _truncate(log): pass",
    ],
)
def test_other_words_are_fine(code: str) -> None:
    assert rules(SESSION, code) == []


# The whole.


def test_tree_is_walked_without_hidden_and_generated_folders(tmp_path: Path) -> None:
    for name in ("durasess/a.py", ".hidden/b.py", "build/c.py", "venv/d.py", "docs/e.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1 \n")
    (tmp_path / "venv/pyvenv.cfg").touch()
    assert {finding.path for finding in check_repository(tmp_path)} == {
        "durasess/a.py",
        "docs/e.md",
    }


def test_command_prints_findings_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "README.md").write_text("text\n")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == (
        "README.md:1: title: no `#` title; begin the file with one\n"
    )
    (tmp_path / "README.md").write_text("# Title\n")
    assert main([str(tmp_path)]) == 0
    assert main(["--help"]) == 2
