"""Finding tasks and schemes by their files: a file's stem, `_` as `-`, is the name on the command line.

A file whose stem begins with `_` is shared code. No list is kept anywhere.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import TypeVar

from ape_cli.errors import UsageError, pick

T = TypeVar("T")


def names(package: ModuleType) -> list[str]:
    """Every name in a package."""
    stems = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(stem.replace("_", "-") for stem in stems if not stem.startswith("_"))


def load(package: ModuleType, kind: str, name: str, base: type[T]) -> type[T]:
    """The subclass of `base` that the file of `name` defines."""
    stem = pick(kind, name, names(package)).replace("-", "_")
    module = importlib.import_module(f"{package.__name__}.{stem}")
    for _, found in inspect.getmembers(module, inspect.isclass):
        if issubclass(found, base) and found.__module__ == module.__name__:
            return found
    raise UsageError(
        f"the file of {kind} {name!r} defines none",
        got=module.__file__,
        allowed=f"a subclass of {base.__name__}",
        fix="define one",
    )
