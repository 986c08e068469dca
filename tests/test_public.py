"""The public Python modules, in `ape_cli.__all__`. Each has an example that pytest runs as a doctest."""

from __future__ import annotations

import ape_cli
from tests.interpreters import python


def test_the_public_modules_are_those_of_the_design() -> None:
    modules = ["adapters", "attention", "dataset", "errors", "load", "position", "registry", "tasks"]
    assert ape_cli.__all__ == modules
    assert set(ape_cli.__all__) <= set(dir(ape_cli))
    assert not hasattr(ape_cli, "positions")


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
