"""The public Python modules, in `ape_cli.__all__`. Each has an example that pytest runs as a doctest."""

from __future__ import annotations

import doctest
import importlib
from types import ModuleType

import pytest

import ape_cli
from tests.interpreters import python


def test_the_public_modules_are_those_of_the_design() -> None:
    modules = ["adapters", "attention", "dataset", "errors", "load", "position", "registry", "tasks"]
    assert ape_cli.__all__ == modules
    assert set(ape_cli.__all__) <= set(dir(ape_cli))
    assert not hasattr(ape_cli, "positions")


@pytest.mark.parametrize("name", [name for name in ape_cli.__all__ if name != "load"])
def test_each_has_an_example(name: str) -> None:
    found = getattr(ape_cli, name)
    assert isinstance(found, ModuleType)
    assert found is importlib.import_module(f"ape_cli.{name}")
    examples = doctest.DocTestParser().get_examples(found.__doc__ or "")
    assert any(example.want for example in examples)
    assert any(name in example.source for example in examples)


def test_they_are_imported_on_their_first_use() -> None:
    """`import ape_cli` imports neither the public modules nor torch."""
    code = """
import sys
import ape_cli
print(*sorted(m for m in sys.modules if m == "torch" or m.startswith("ape_cli.")), sep=",")
ape_cli.tasks.names()
print("ape_cli.tasks" in sys.modules, "torch" in sys.modules)
from ape_cli import *
print(position.names() == ape_cli.position.names(), errors.ApeError.__name__)
"""
    assert python("-c", code).stdout.splitlines() == ["", "True False", "True ApeError"]
