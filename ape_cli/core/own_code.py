"""The code of a user's own classes: which files it is in, and a digest of them.

The code of a class is its file, the files of the classes that it inherits from, and the user's own modules that these
files import, and so on. Files of this package, of the standard library and of other installed packages do not belong
to it. The digest is that of the files at the time when the class was loaded (`remember`), because that is the code that
runs, even if a file is edited later.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ape_cli.core import plugins

DIGITS = 7  # of a digest, where a version is named, as of a commit
_LOADED: dict[type, str | None] = {}  # the digest of each class that was loaded
_INSTALLED = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}


def remember(found: type) -> None:
    """Note the digest of a class that has just been loaded. A class of this package has none."""
    if found not in _LOADED:  # a class that is loaded again is still the code of the first time
        _LOADED[found] = _digest(found) if plugins.is_own(found) else None


def digest(found: type) -> str | None:
    """The SHA-256 of the code of a user's own class, in hexadecimal digits.

    It is the digest of its file if there is only one. If there are several, it is that of a text with a line for each
    of them, `DIGEST MODULE`, sorted by the names of the modules. None if the class has no file, for example because it
    was written in a notebook.
    """
    remember(found)
    return _LOADED[found]


def files_of(found: type) -> dict[str, Path]:
    """The files of the code of a user's own class, by the names of their modules. The file of the class comes first."""
    files: dict[str, Path] = {}
    package = found.__module__.partition(".")[0]
    todo = [base.__module__ for base in found.__mro__ if plugins.is_own(base)]
    while todo:
        name = todo.pop(0)
        path = _path(name)
        if name in files or path is None or not _is_users(name, path, package):
            continue
        files[name] = path
        todo += _imported(name, path)
    return files


def _digest(found: type) -> str | None:
    """The digest of the present files."""
    files = files_of(found)
    if found.__module__ not in files:
        return None
    digests = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    if len(digests) == 1:
        return digests[found.__module__]
    lines = "".join(f"{digests[name]} {name}\n" for name in sorted(digests))
    return hashlib.sha256(lines.encode()).hexdigest()


def _path(name: str) -> Path | None:
    """The file of a module; None if it has none. A module that is not imported yet is found without running it."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if module is None:
        with suppress(ImportError, ValueError, AttributeError):
            spec = importlib.util.find_spec(name)
            file = spec.origin if spec is not None and spec.has_location else None
    return Path(file).resolve() if file and Path(file).suffix == ".py" else None


def _is_users(name: str, path: Path, package: str) -> bool:
    """Whether a file is a user's own. That of an installed plug-in is, if it is in its top-level `package`."""
    if Path(__file__).resolve().parents[1] in path.parents:
        return False
    installed = not _INSTALLED.isdisjoint(path.parents)
    return not installed or (name.partition(".")[0] == package != "ape_cli")


def _imported(name: str, path: Path) -> Iterator[str]:
    """The names of the modules that a file imports, anywhere in it; of `from a import b`, both `a` and `a.b`."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (imported for imported in names if imported.partition(".")[0] not in sys.stdlib_module_names)
