"""Plug-ins: tasks, schemes, kinds of attention, loggers, views and engines are classes that are found by name.

A name is found in two ways:

- A file in the folder of its package: `ape_cli/position/window.py` defines the scheme `window`. The folder may be
  anywhere on the Python path. The file's stem is the name, with `_` replaced by `-`. A file whose stem begins with `_`
  holds shared code.
- An entry point of an installed distribution, in the group of its package, for example `ape_cli.schemes`. Its name is
  the name, and its value is `module:Class`, or `module` if the module defines one class of the kind.

Listing names imports no plug-in.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import math
import pkgutil
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from ape_cli.core.errors import ApeError, UsageError, unknown

T = TypeVar("T")

# The group of entry points of each package that has one. Errors about unknown names mention it.
GROUPS = {
    "ape_cli.position": "ape_cli.schemes",
    "ape_cli.tasks": "ape_cli.tasks",
    "ape_cli.attention": "ape_cli.attentions",
    "ape_cli.training.loggers": "ape_cli.loggers",
}
_NAMES: dict[type, str] = {}  # the names of classes that come from entry points


def names(package: ModuleType) -> list[str]:
    """The names of all plug-ins of a package. Raises `UsageError` if two plug-ins have the same name."""
    return sorted(_found(package))


def load(package: ModuleType, kind: str, name: str, base: type[T]) -> type[T]:
    """The class of a plug-in, a subclass of `base`. `kind` is the word for such plug-ins in errors.

    Raises `UsageError` if no plug-in or more than one has the name, or if its module defines no such class, and
    `ApeError` if its module cannot be imported.
    """
    found = _found(package)
    if name not in found:
        raise unknown(kind, name, found, searched=_searched(package))
    place = found[name]
    module_name, _, attribute = (
        place.value.partition(":") if isinstance(place, EntryPoint) else (f"{package.__name__}.{place.stem}", "", "")
    )
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's own file may fail in any way; the other plug-ins still work
        raise ApeError(
            f"the file of {kind} {name!r} cannot be imported",
            got=f"{type(error).__name__}: {error} ({_where(place)})",
            fix="correct the file, or remove it from the path",
        ) from error
    defined = _classes(module, base) if not attribute else [getattr(module, attribute, None)]
    if not defined or not (isinstance(defined[0], type) and issubclass(defined[0], base)):
        raise UsageError(
            f"the file of {kind} {name!r} does not define one",
            got=_where(place),
            allowed=f"a subclass of {base.__name__}",
            fix="define such a class",
        )
    if isinstance(place, EntryPoint):
        _NAMES[defined[0]] = name
    return defined[0]


def _classes(module: ModuleType, base: type[T]) -> list[type[T]]:
    """The subclasses of `base` that a module defines itself."""
    classes = (found for _, found in inspect.getmembers(module, inspect.isclass))
    return [found for found in classes if issubclass(found, base) and found.__module__ == module.__name__]


def _found(package: ModuleType) -> dict[str, Path | EntryPoint]:
    """Where each plug-in of a package is. Raises `UsageError` if two plug-ins have the same name."""
    found: dict[str, Path | EntryPoint] = {}
    places: list[tuple[str, Path | EntryPoint]] = []
    for folder in dict.fromkeys(str(Path(path).resolve()) for path in package.__path__):
        stems = (module.name for module in pkgutil.iter_modules([folder]))
        places += [(stem, Path(folder, f"{stem}.py")) for stem in stems if not stem.startswith("_")]
    if group := GROUPS.get(package.__name__):
        places += [(point.name, point) for point in dict.fromkeys(entry_points(group=group))]
    for stem, place in places:
        name = stem.replace("_", "-")
        if name in found:
            raise UsageError(
                f"two plug-ins of {package.__name__} have the same name",
                got=f"{name!r} in {_where(found[name])} and in {_where(place)}",
                allowed="one of them",
                fix="rename one, or remove it from the path",
            )
        found[name] = place
    return found


def _where(place: Path | EntryPoint) -> str:
    """The file of a plug-in, for errors. For an entry point it includes the distribution."""
    if isinstance(place, Path):
        return str(place)
    module = place.value.partition(":")[0]
    owner = f"entry point {place.name} = {place.value}" + (f" of {place.dist.name}" if place.dist else "")
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])  # this imports nothing
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin:
        return owner
    inner = module.split(".")[1:]
    file = Path(spec.origin).parent.joinpath(*inner).with_suffix(".py") if inner else Path(spec.origin)
    return f"{file if file.exists() else spec.origin} ({owner})"


def _searched(package: ModuleType) -> list[str]:
    """The places where plug-ins of a package are searched: folders, and the group of entry points."""
    group = GROUPS.get(package.__name__)
    return [*dict.fromkeys(str(Path(path)) for path in package.__path__), *([f"entry points {group}"] if group else [])]


def options(found: type, skip: int = 0) -> dict[str, Any]:
    """The arguments of a class after the first `skip`, with their defaults, except for `*args` and `**kwargs`."""
    given = list(inspect.signature(found).parameters.values())[skip:]
    return {p.name: p.default for p in given if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def name_of(found: type) -> str:
    """The name of a class that `load` returned."""
    return _NAMES.get(found, found.__module__.rpartition(".")[2].replace("_", "-"))


def settings(what: str, given: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Check each given option of `what` against the type of its default in `known`, and return the options.

    Raises `UsageError` for an unknown option or a value of another type.
    """
    for key in given:
        if key not in known:
            raise unknown(f"option of {what}", key, known)
    return {key: checked(key, value, known[key]) for key, value in given.items()}


def checked(key: str, value: Any, default: Any) -> Any:
    """The value of an option, converted to float if its default is one.

    Raises `UsageError` if the value is not of the default's type or is not finite.
    """
    kind = type(default)
    if default is None or default is inspect.Parameter.empty:
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        name = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(kind, kind.__name__)
        raise UsageError(f"bad {key}", got=repr(value), allowed=name, fix=f"the default is {json.dumps(default)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"bad {key}", got=value, allowed="a finite number", fix=f"the default is {default!r}")
    return value
