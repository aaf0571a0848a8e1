"""What `import durasess` offers: exactly what `__all__` says, documented and typed."""

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


def test_import_does_not_pay_for_what_is_needed_later() -> None:
    """portalocker is imported with the first lock, rich by the command alone (DESIGN.md §10)."""
    code = "import durasess, sys; print({'portalocker', 'rich'} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
