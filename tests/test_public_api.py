"""What `import durasess` offers: exactly what `__all__` says, documented and typed."""

import ast
import inspect
import subprocess
import sys
from importlib import resources
from types import ModuleType
from typing import Any

import pytest

import durasess
from durasess import errors

NAMES = [name for name in durasess.__all__ if not name.startswith("__")]


def test_all_is_sorted_and_names_nothing_twice() -> None:
    assert list(durasess.__all__) == sorted(set(durasess.__all__))


def test_all_is_exactly_what_the_package_defines() -> None:
    for name in durasess.__all__:
        getattr(durasess, name)
    offered = {
        name
        for name, found in vars(durasess).items()
        if not name.startswith("_") and not isinstance(found, ModuleType)
    }
    assert offered | {"__version__"} == set(durasess.__all__)


def test_every_error_is_public() -> None:
    assert set(errors.__all__) <= set(durasess.__all__)


def test_star_import_gives_exactly_these_names() -> None:
    namespace: dict[str, Any] = {}
    exec("from durasess import *", namespace)
    namespace.pop("__builtins__")
    assert namespace.keys() == set(durasess.__all__)


def test_version_is_a_version() -> None:
    assert all(part.isdigit() for part in durasess.__version__.split("."))


def test_package_says_that_it_is_typed() -> None:
    assert resources.files("durasess").joinpath("py.typed").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_public_name_has_a_docstring_of_its_own(name: str) -> None:
    found = getattr(durasess, name)
    text = found.__doc__ if inspect.isfunction(found) else vars(found).get("__doc__")
    assert (text or "").strip(), name


@pytest.mark.parametrize("name", NAMES)
def test_public_method_has_a_docstring(name: str) -> None:
    found = getattr(durasess, name)
    for method, value in vars(found).items():
        function = getattr(value, "__func__", getattr(value, "fget", value))
        if not method.startswith("_") and inspect.isfunction(function):
            assert (function.__doc__ or "").strip(), f"{name}.{method}"


def test_names_that_are_there_before_they_are_asked_for() -> None:
    assert set(durasess.__all__) <= set(dir(durasess))
    with pytest.raises(AttributeError, match="'durasess' has no attribute 'Sesion'"):
        durasess.Sesion  # noqa: B018


def test_type_checkers_are_told_what_is_imported_later() -> None:
    """The imports that only they read, beside the table that the package imports by."""
    tree = ast.parse(inspect.getsource(durasess))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {
        (node.module, alias.name)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == {(home, name) for name, home in durasess._HOME_OF.items()}


LATER = {
    "import durasess": ("typing", "importlib"),
    "import durasess; durasess.Engine, durasess.Store": (
        *("msgspec", "zstandard", "atexit", "base64", "dataclasses", "datetime", "decimal"),
        *("enum", "errno", "gc", "hashlib", "heapq", "json", "logging", "math", "ntpath"),
        *("queue", "signal"),
        *("threading", "traceback", "unicodedata", "weakref", "zlib"),
    ),
}
"""What may be imported by it, with what that imports itself. portalocker is imported with the first
lock, rich by the command alone, asyncio by who uses it, sqlite3 by lists."""


@pytest.mark.parametrize("code", LATER)
def test_import_does_not_pay_for_what_is_needed_later(code: str) -> None:
    program = (
        f"import sys\nfor name in {LATER[code]}: __import__(name)\nbefore = set(sys.modules)\n"
        f"{code}\nprint(*sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    more = [name for name in ran.stdout.split() if name.split(".")[0] != "durasess"]
    assert more == []
