"""Folders: what is in them, and how they are removed, on this machine and in an object store."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import StoragePath


def entries(folder: StoragePath) -> list[tuple[str, bool]]:
    """List a folder: pairs of a name and whether it is a folder, sorted; empty if there is no such folder.

    Raises `OSError` if it is no folder, or cannot be read.
    """
    if isinstance(folder, RemotePath):
        return sorted((entry.name, entry.is_dir()) for entry in folder.iterdir())
    try:
        with os.scandir(folder) as found:
            return sorted([(entry.name, _is_folder(entry)) for entry in found])
    except FileNotFoundError:
        if os.path.lexists(folder):  # a link that leads nowhere
            raise
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder. False for a link that leads nowhere or to itself."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def is_link(path: StoragePath) -> bool:
    """Whether a path is a symbolic link. There are none in an object store."""
    return isinstance(path, Path) and path.is_symlink()


def remove(path: StoragePath) -> None:
    """Remove a file, or a folder with everything in it, if there is one. What a link leads to is not touched.

    Raises `OSError` if that is not possible.
    """
    if isinstance(path, RemotePath):
        for entry in path.iterdir():
            remove(entry)
        path.unlink(missing_ok=True)
    elif path.is_dir() and not is_link(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
