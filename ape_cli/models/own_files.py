"""The files of schemes and kinds of attention that are a user's own, as run.json records them.

A run whose file has changed since is not what the file says now. Early versions did not record this.
"""

from __future__ import annotations

from collections.abc import Iterable

from ape_cli import attention, position
from ape_cli.core import plugins
from ape_cli.runs.config import Config
from ape_cli.runs.run import Run
from ape_cli.storage import files


def own_files(config: Config) -> dict[str, str]:
    """The SHA-256 of the file of the scheme and of the attention, by a text that names them, if they are not of ape."""
    parts = {
        f"scheme {config.scheme!r}": position.load(config.scheme),
        f"attention {config.attention!r}": attention.load(config.attention),
    }
    paths = {what: plugins.file_of(found) for what, found in parts.items() if plugins.is_own(found)}
    return {what: files.sha256(path) for what, path in paths.items() if path is not None}


def changes(runs: Iterable[tuple[Run, Config]]) -> list[str]:
    """A sentence about each scheme or attention whose file has changed since the first of these runs was trained."""
    found: dict[str, str] = {}
    for run, config in runs:
        now = own_files(config)
        then = run.read().get("own_files", {}) if now else {}
        for what in now:
            if then.get(what, now[what]) != now[what]:
                text = f"the file of {what} has changed since run {run.name} was trained"
                found.setdefault(what, f"{text}; `ape train … --overwrite` trains it again")
    return list(found.values())
