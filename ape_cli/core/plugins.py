"""Plug-ins are found by name: tasks, schemes, attention, position maps, loggers, views, engines, formats of trees.

A name is found in two ways:

- A file in the folder of its package: `ape_cli/position/window.py` defines the scheme `window`. The folder may be
  anywhere on the Python path. The file's stem is the name, with `_` replaced by `-`. A file whose stem begins with `_`
  holds shared code. A file whose stem is no name, as in `my scheme.py`, is left out.
- An entry point of an installed distribution, in the group of its package, for example `ape_cli.schemes`. Its name is
  the name, and its value is `module:Class`, or `module` if the module defines one class of the kind.

Listing names imports no plug-in.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from ape_cli.core.errors import ApeError, RunError, UsageError, brief, error_text, unknown

T = TypeVar("T")
_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")  # names become parts of paths, and lists of names have commas

# The group of entry points of each package that has one. Errors about unknown names mention it.
GROUPS = {
    "ape_cli.position": "ape_cli.schemes",
    "ape_cli.tasks": "ape_cli.tasks",
    "ape_cli.attention": "ape_cli.attentions",
    "ape_cli.data.position_maps": "ape_cli.position_maps",
    "ape_cli.training.loggers": "ape_cli.loggers",
    "ape_cli.storage.tree_formats": "ape_cli.tree_formats",
}
DIGITS = 7  # of the digest of a file, where a version is named, as of a commit
_NAMES: dict[type, str] = {}  # the names of classes that come from entry points
_LOADED: dict[type, str | None] = {}  # the digest of the file of each class that was loaded


def names(package: ModuleType) -> list[str]:
    """The names of all plug-ins of a package. Raises `UsageError` if two plug-ins have the same name."""
    return sorted(_locations(package.__name__, package.__path__))


def locations(package: str) -> dict[str, Path | EntryPoint]:
    """The file or entry point of each plug-in of a package of `ape_cli`, without importing the package.

    Raises `UsageError` if two plug-ins have the same name.
    """
    return _locations(package, map(str, folders(package)))


def folders(package: str) -> list[Path]:
    """The folders where a package of `ape_cli` may be, without importing it."""
    root, *parts = package.split(".")
    return [Path(folder, *parts) for folder in sys.modules[root].__path__]


def toml_files(folders: Iterable[Path], what: str) -> dict[str, Path]:
    """The TOML files in some folders by their stems. Raises `UsageError` if two of them, `what`, have the same name."""
    found: dict[str, Path] = {}
    for file in (file for folder in folders for file in sorted(folder.glob("*.toml"))):
        if found.setdefault(file.stem, file) != file:
            raise UsageError(f"two {what} have the same name", got=f"{found[file.stem]} and {file}", fix="rename one")
    return found


def load(package: ModuleType, name: str, base: type[T]) -> type[T]:
    """The class of a plug-in, a subclass of `base`, whose `part_kind` is the word for such plug-ins in errors.

    Raises `UsageError` if no plug-in or more than one has the name, or if its module does not define one such class,
    and `ApeError` if its module cannot be imported, or if its methods are missing or take other arguments than those
    of the base.
    """
    part_kind: str = base.part_kind  # type: ignore[attr-defined]
    locations = _locations(package.__name__, package.__path__)
    if name not in locations:
        raise not_found(part_kind, name, locations, package)
    location = locations[name]
    module_name, _, attribute = (
        location.value.partition(":")
        if isinstance(location, EntryPoint)
        else (f"{package.__name__}.{location.stem}", "", "")
    )
    try:
        module = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's own file may fail in any way, or end the process; the others still work
        what, got = f"the file of {part_kind} {name!r} cannot be imported", f"{error_text(error)} ({_where(location)})"
        raise ApeError(what, got=got, fix="correct the file, or remove it from the path") from error
    if attribute:
        defined: list[Any] = [getattr(module, attribute, None)]
    else:  # the subclasses that the module defines itself, without those whose names begin with _
        classes = dict.fromkeys(cls for _, cls in inspect.getmembers(module, inspect.isclass) if issubclass(cls, base))
        defined = [c for c in classes if c.__module__ == module.__name__ and not c.__name__.startswith("_")]
    if len(defined) != 1 or not (isinstance(defined[0], type) and issubclass(defined[0], base)):
        what = f"the file of {part_kind} {name!r} does not define exactly one subclass of {base.__name__}"
        got = f"{', '.join(getattr(cls, '__name__', 'none') for cls in defined) or 'none'} ({_where(location)})"
        fix = f"derive a class from {base.__name__}; begin the names of others, and of files of shared code, with _"
        raise UsageError(what, got=got, fix=fix)
    if lacking := sorted(getattr(defined[0], "__abstractmethods__", ())):
        what = f"the class of {part_kind} {name!r} leaves out what every {part_kind} needs"
        fix = f"write it; the docstring of {base.__name__}.{lacking[0]} says what it returns"
        raise ApeError(what, got=f"no {', '.join(lacking)} ({_where(location)})", fix=fix)
    if isinstance(location, EntryPoint):
        _NAMES[defined[0]] = name
    remember(defined[0])
    if is_user_class(defined[0]):
        check_class(defined[0], f"{part_kind} {name!r}")
    return defined[0]


def _synonyms(package: ModuleType) -> dict[str, str]:
    """The names of the plug-ins of a package, by other words for them. What cannot be imported is left out."""
    words: dict[str, str] = {}
    for name in names(package) if hasattr(package, "load") else ():
        with suppress(ApeError):
            words |= dict.fromkeys(getattr(package.load(name), "synonyms", ()), name)
    return words


def _locations(package: str, folders: Iterable[str]) -> dict[str, Path | EntryPoint]:
    """Where each plug-in of a package is: in its folders, or named by entry points.

    Raises `UsageError` if two plug-ins have the same name.
    """
    locations: dict[str, Path | EntryPoint] = {}
    candidates: list[tuple[str, Path | EntryPoint]] = []
    for folder in dict.fromkeys(str(Path(path).resolve()) for path in folders):
        stems = (module.name for module in pkgutil.iter_modules([folder]))
        candidates += [(stem, Path(folder, f"{stem}.py")) for stem in stems if _STEM.fullmatch(stem)]
    if group := GROUPS.get(package):
        candidates += [(point.name, point) for point in _points(group)]
    for stem, location in candidates:
        name = stem.replace("_", "-")
        if name in locations:
            got = f"{name!r} in {_where(locations[name])} and in {_where(location)}"
            raise UsageError(f"two plug-ins of {package} have the same name", got=got, fix="rename one")
        locations[name] = location
    return locations


@cache
def _points(group: str) -> list[EntryPoint]:
    """The entry points of a group, once each. To find them, the metadata of every distribution is read."""
    return list(dict.fromkeys(entry_points(group=group)))


def _where(location: Path | EntryPoint) -> str:
    """The file of a plug-in, or its entry point with its distribution, for errors."""
    if isinstance(location, Path):
        return str(location)
    return f"entry point {location.name} = {location.value}" + (f" of {location.dist.name}" if location.dist else "")


def not_found(part_kind: str, name: str, names: Iterable[str], *packages: ModuleType) -> UsageError:
    """The error for a name that no plug-in of the packages has, with the places that were searched.

    `names` are the names that there are.
    """
    words = {word: other for package in packages for word, other in _synonyms(package).items()}
    return unknown(part_kind, name, names, searched(*packages), words)


def searched(*packages: ModuleType) -> list[str]:
    """The places where plug-ins of packages are searched: folders, and the groups of entry points."""
    folders = dict.fromkeys(str(Path(path)) for package in packages for path in package.__path__)
    groups = [GROUPS[package.__name__] for package in packages if package.__name__ in GROUPS]
    return [*folders, *(f"entry points {group}" for group in groups)]


def check_installed(package: ModuleType, part_kind: str, name: str) -> None:
    """Check that a plug-in that someone else has used is found here.

    Raises `RunError`, with the file that is missing and what to do with it, if it is not.
    """
    if name not in package.names():
        file = f"{package.__name__.replace('.', '/')}/{name.replace('-', '_')}.py"
        what = f"{part_kind} {name!r} is not part of ape, and its file is missing here"
        got = f"no {file} in {', '.join(searched(package))}"
        raise RunError(what, got=got, fix=f"get {file} from the author, and add its folder to PYTHONPATH")


def name_of(cls: type) -> str:
    """The name of a class that `load` returned."""
    return _NAMES.get(cls, cls.__module__.rpartition(".")[2].replace("_", "-"))


def file_of(cls: type) -> Path | None:
    """The file of a class; None if it has none, for example because it was written in a notebook."""
    file = traced_file(cls)
    return Path(file).resolve() if file else None


def traced_file(cls: type) -> str | None:
    """The file of a class as tracebacks name it; None if it has none."""
    return getattr(sys.modules.get(cls.__module__), "__file__", None)


def is_user_class(cls: type) -> bool:
    """Whether a class is a user's own: its file is not a part of this package."""
    file = file_of(cls)
    return file is None or Path(__file__).resolve().parents[1] not in file.parents


def described(thing: object, otherwise: str) -> str:
    """The first paragraph of the docstring of a class, a function or a module, as one line.

    `otherwise` if there is none: `python -OO` drops docstrings, and a dataclass without one gets its signature instead.
    """
    text = inspect.getdoc(thing) or ""
    if not text or text.startswith(f"{getattr(thing, '__name__', '')}("):
        text = otherwise
    return " ".join(text.split("\n\n")[0].split())


def remember(cls: type) -> None:
    """Note the digest of the file of a class that has just been loaded. A class of this package has none.

    A class that is loaded again is still the code of the first time, even if its file was edited.
    """
    if cls not in _LOADED:
        file = file_of(cls) if is_user_class(cls) else None
        _LOADED[cls] = hashlib.sha256(file.read_bytes()).hexdigest() if file is not None else None


def digest(cls: type) -> str | None:
    """The SHA-256 of the file of a user's own class, in hexadecimal digits. It does not cover files that it imports.

    None if the class has no file, for example because it was written in a notebook.
    """
    remember(cls)
    return _LOADED[cls]


def has_changed(cls: type, code: str | None) -> bool:
    """Whether a user's own class has other code than at an earlier `digest`. False if that is None, so not known."""
    return code not in (None, digest(cls))


def fresh(cls: type[T]) -> type[T]:
    """A user's own class that `load` returned, from its file executed anew.

    It is the class itself if it was not found by its name, if its file has changed since, or if the file can be
    executed only once, as one that registers an operation of torch.
    """
    file, code = file_of(cls), _LOADED.get(cls)
    spec = importlib.util.spec_from_file_location(cls.__module__, file) if file and code else None
    if spec is None or spec.loader is None or hashlib.sha256(Path(str(file)).read_bytes()).hexdigest() != code:
        return cls
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception:
        return cls
    again: type[T] = getattr(module, cls.__name__, cls)
    return again


def by_file(file: str) -> type | None:
    """The user's own class that was loaded from a file; None if there is none. `file` is as tracebacks name it."""
    own = (cls for cls, code in _LOADED.items() if code is not None)
    return next((cls for cls in own if traced_file(cls) == file), None)


def check_class(cls: type, part: str) -> None:
    """Check that the methods of a user's own class take the arguments of those of ape that they override.

    The attributes of the class must have the types of those of ape. `part`: the kind and the name of the class, for
    messages. Raises `ApeError`.
    """
    _check_attributes(cls, part)
    for base in filter(is_user_class, cls.__mro__):
        for name, method in vars(base).items():
            parents = [vars(parent).get(name) for parent in base.__mro__[1:] if not is_user_class(parent)]
            is_method = any(inspect.isfunction(parent) or isinstance(parent, classmethod) for parent in parents)
            if is_method and not name.startswith("_") and not hasattr(method, "__get__"):
                got, fix = brief(method), "give it another name"  # such as an option of a task
                raise ApeError(f"`{name}` of {part} hides a method of that name", got=got, fix=fix)
            overridden = next(filter(inspect.isfunction, parents), None)
            if name.startswith("_") or overridden is None or not inspect.isfunction(method):
                continue
            wanted = inspect.signature(overridden).parameters.values()
            named = [parameter.name for parameter in wanted if parameter.kind is parameter.KEYWORD_ONLY]
            if any(parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in wanted):
                continue
            try:
                inspect.signature(method).bind(*[None] * (len(wanted) - len(named)), **dict.fromkeys(named))
            except TypeError:
                code = method.__code__
                got = f"{_names(method)} ({code.co_filename}, line {code.co_firstlineno})"
                what, allowed = f"`{name}` of {part} takes the wrong arguments", _names(overridden)
                raise ApeError(what, got=got, allowed=allowed, fix="correct the file") from None


def _check_attributes(cls: type, part: str) -> None:
    """Check the types of the attributes that a user's own class sets. Raises `ApeError` if one is of another type."""
    from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError  # slow to import

    own = {name: value for base in filter(is_user_class, reversed(cls.__mro__)) for name, value in vars(base).items()}
    for parent in cls.__mro__:
        with suppress(NameError, AttributeError, PydanticSchemaGenerationError):  # types that only a checker knows
            hints = {} if is_user_class(parent) else get_type_hints(parent)
            for name, hint in hints.items():
                if name in own and get_origin(hint) is ClassVar and not hasattr(own[name], "__get__"):
                    try:
                        TypeAdapter(get_args(hint)[0]).validate_python(own[name])
                    except ValidationError:
                        what, allowed = f"`{name}` of {part} has the wrong type", str(get_args(hint)[0])
                        raise ApeError(what, got=brief(own[name]), allowed=allowed, fix="correct the file") from None


def _names(method: Callable[..., Any]) -> str:
    """The arguments of a method, without types."""
    signature = inspect.signature(method)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
