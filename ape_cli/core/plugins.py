"""Finding tasks, schemes and kinds of attention by their files: a file's stem, `_` as `-`, is the name.

A file whose stem begins with `_` is shared code. No list is kept anywhere.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import math
import pkgutil
from types import ModuleType
from typing import Any, TypeVar

from ape_cli.core.errors import ApeError, UsageError, pick, unknown

T = TypeVar("T")


def names(package: ModuleType) -> list[str]:
    """Every name in a package."""
    stems = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(stem.replace("_", "-") for stem in stems if not stem.startswith("_"))


def load(package: ModuleType, kind: str, name: str, base: type[T]) -> type[T]:
    """The subclass of `base` that the file of `name` defines."""
    stem = pick(kind, name, names(package)).replace("-", "_")
    try:
        module = importlib.import_module(f"{package.__name__}.{stem}")
    except Exception as error:  # somebody's own file: whatever is wrong in it, the others go on
        where = importlib.util.find_spec(f"{package.__name__}.{stem}")
        raise ApeError(
            f"the file of {kind} {name!r} cannot be imported",
            got=f"{type(error).__name__}: {error} ({where.origin if where else stem})",
            fix="mend the file, or take it off the path",
        ) from error
    for _, found in inspect.getmembers(module, inspect.isclass):
        if issubclass(found, base) and found.__module__ == module.__name__:
            return found
    raise UsageError(
        f"the file of {kind} {name!r} defines none",
        got=module.__file__,
        allowed=f"a subclass of {base.__name__}",
        fix="define one",
    )


def options(found: type, skip: int = 0) -> dict[str, Any]:
    """The arguments of a class after the first `skip`, with their defaults; `*args` and `**kwargs` are none."""
    given = list(inspect.signature(found).parameters.values())[skip:]
    return {p.name: p.default for p in given if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def name_of(found: type) -> str:
    """The name of a class that `load` finds."""
    return found.__module__.rpartition(".")[2].replace("_", "-")


def settings(what: str, given: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The options that are given, if `what` has them, each of the type of its default."""
    for key in given:
        if key not in known:
            raise unknown(f"option of {what}", key, known)
    return {key: checked(key, value, known[key]) for key, value in given.items()}


def checked(key: str, value: Any, default: Any) -> Any:
    """An option's value, of the type of its default; numbers have to be finite."""
    kind = type(default)
    if default is None or default is inspect.Parameter.empty:
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        name = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}.get(kind, kind.__name__)
        raise UsageError(f"bad {key}", got=repr(value), allowed=name, fix=f"the default is {json.dumps(default)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"bad {key}", got=value, allowed="a finite number", fix=f"the default is {default!r}")
    return value
