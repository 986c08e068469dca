"""How to install an optional dependency, for error messages. It depends on how this program was installed."""

from __future__ import annotations

import importlib.util
import os
import shlex
from pathlib import Path

# The optional extras: the packages of each, and what it is for.
EXTRAS = {
    "aws": (("boto3", "obstore"), "AWS profiles"),
    "cloud": (("obstore",), "s3:// and gs:// addresses"),
    "conllu": (("conllu",), "CoNLL-U trees"),
    "hub": (("huggingface_hub",), "ape push"),
    "image": (("PIL", "sklearn"), "image data"),
    "lxml": (("lxml",), "HTML trees"),
    "plots": (("matplotlib",), "plots"),
    "ray": (("ray",), "--engine ray"),
    "tensorboard": (("tensorboard",), "--log tensorboard"),
    "trackio": (("trackio",), "--log trackio"),
    "tree-sitter": (("tree_sitter",), "trees of source code"),
    "wandb": (("wandb",), "--log wandb"),
}
_NAME = "ape-cli"
_PINS = "constraints.txt"


def how_to_install(extra: str, *packages: str) -> str:
    """The command that installs an extra of this program, and further `packages`.

    If the program runs from a clone of its repository, the command installs the clone with its pinned versions.
    Otherwise it installs the published package.
    """
    clone = Path(__file__).parents[2]
    if not (clone / _PINS).is_file():
        return shlex.join(["pip", "install", f"{_NAME}[{extra}]", *packages])
    here = "." if clone == Path.cwd() else os.fspath(clone)
    pins = os.path.normpath(f"{here}/{_PINS}")
    return shlex.join(["pip", "install", "-c", pins, "-e", f"{here}[{extra}]", *packages])


def absent() -> list[str]:
    """The extras of which a package is not installed."""
    return [name for name, (needs, _) in EXTRAS.items() if not all(map(importlib.util.find_spec, needs))]


def how_to_get(needs: str | None, extra: str | None) -> str | None:
    """The command that installs the package that a plug-in needs; None if it needs none, or if it is installed.

    `extra` is the extra of this program that has the package, if one has it.
    """
    if needs is None or importlib.util.find_spec(needs) is not None:
        return None
    return how_to_install(extra) if extra else f"pip install {needs}"
