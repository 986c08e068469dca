"""How to install an optional dependency, for error messages. It depends on how this program was installed."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

_NAME = "ape-cli"
_PINS = "constraints.txt"


def how_to_install(extra: str, *packages: str) -> str:
    """The command that installs an extra of this program, and further `packages`.

    If the program was installed from a clone, the command installs the clone with its pinned versions. Otherwise it
    installs the published package.
    """
    clone, editable = _clone()
    if clone is None:
        return shlex.join(["pip", "install", f"{_NAME}[{extra}]", *packages])
    here = "." if clone == Path.cwd() else os.fspath(clone)
    how = ["-e"] if editable else []
    pins = os.path.normpath(f"{here}/{_PINS}")
    return shlex.join(["pip", "install", "-c", pins, *how, f"{here}[{extra}]", *packages])


def how_to_get(needs: str | None, extra: str | None) -> str | None:
    """The command that installs the package that a plug-in needs; None if it needs none, or if it is installed.

    `extra` is the extra of this program that has the package, if one has it.
    """
    if needs is None or importlib.util.find_spec(needs) is not None:
        return None
    return how_to_install(extra) if extra else f"pip install {needs}"


def _clone() -> tuple[Path | None, bool]:
    """The clone of the repository that was installed, and whether its files are used where they are."""
    beside = Path(__file__).parents[2]
    if (beside / _PINS).is_file() and (beside / "pyproject.toml").is_file():
        return beside, True
    from importlib.metadata import PackageNotFoundError, distribution  # these are slow to import
    from urllib.request import url2pathname

    with suppress(PackageNotFoundError, ValueError, TypeError, KeyError, OSError):
        found = json.loads(distribution(_NAME).read_text("direct_url.json") or "{}")
        folder = Path(url2pathname(urlsplit(found["url"]).path))
        if (folder / _PINS).is_file():
            return folder, False
    return None, False
