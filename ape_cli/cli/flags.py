"""Messages of functions as a command shows them: with its flags in place of the names that options have in Python.

A command that a message proposes names the same folders as the one that was typed.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from ape_cli.core.errors import ApeError

_QUOTED = re.compile(r"`([a-z]\w*)(?:=([^`]*))?`(?! of [a-z ]+ ['\"])")  # not "`log` of logger 'mine'", a method
_PROPOSED = re.compile(r"(?<!same )`ape ([a-z]+)((?: [^`]*)?)`")
FOLDERS = {  # the options that name folders, and the commands that have them
    "--results": {"train", "sweep", "eval", "report", "draw", "runs", "rm", "doctor", "verify", "export", "push"},
    "--datasets": {"gen", "train", "sweep", "eval", "draw", "show", "doctor", "verify", "push"},
}
_SNAKE_CASE = re.compile(r"(?<![\w'\"`-])[a-z]+(?:_[a-z0-9]+)+(?![\w='\"`])")


def in_flags(text: str, params: Iterable[Any], *, bare: bool = False) -> str:
    """A message with flags of the command in place of the names that its options have in Python.

    A name is replaced if it is in backquotes, as in "`decode`" or "`decode=greedy`". A field of the configuration
    becomes "--set FIELD" if the command has this option. So does an option of a map of positions, if it has a value.
    `bare`: also replace names with an underscore outside of backquotes.
    """
    flags = {name[2:].replace("-", "_"): name for one in params for name in one.opts if name.startswith("--")}

    def quoted(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name in flags:
            return f"{flags[name]} {value}" if value else flags[name]
        if "set" in flags and (name in _fields() or (value and name in _map_options())):
            return f"--set {name}={value}" if value else f"--set {name}"
        return match[0]

    text = _QUOTED.sub(quoted, text)
    return _SNAKE_CASE.sub(lambda match: flags.get(match[0], match[0]), text) if bare else text


def with_folders(text: str, given: Mapping[str, str]) -> str:
    """A message in which proposed commands, as in "`ape report`", name the folders that they need.

    `given` maps the flags of `FOLDERS` that were typed to their values. A command with --out names its folder already.

    >>> with_folders("`ape report` shows the scores; see `ape schemes`", {"--results": "my results"})
    "`ape report --results 'my results'` shows the scores; see `ape schemes`"
    """

    def completed(match: re.Match[str]) -> str:
        name, words = match[1], match[2].split()
        more = [
            f" {flag} {shlex.quote(value)}"
            for flag, value in given.items()
            if name in FOLDERS[flag] and flag not in words and "--out" not in words
        ]
        return f"`ape {name}{match[2]}{''.join(more)}`"

    return _PROPOSED.sub(completed, text)


def with_flags(error: ApeError, params: Iterable[Any], given: Mapping[str, str] | None = None) -> ApeError:
    """The error of a function, with all of its parts as in `in_flags` and `with_folders`."""

    def renamed(value: Any, *, bare: bool = False) -> Any:
        return in_flags(with_folders(value, given or {}), params, bare=bare) if type(value) is str else value

    parts = {"got": renamed(error.got), "allowed": renamed(error.allowed), "fix": renamed(error.fix, bare=True)}
    return type(error)(renamed(error.what, bare=True), **parts)


@functools.cache
def _fields() -> frozenset[str]:
    """The fields of a configuration that `--set` changes."""
    from ape_cli.runs import config  # slow to import

    return frozenset(name for kind in config.KINDS for name in config.settable(kind))


@functools.cache
def _map_options() -> frozenset[str]:
    """The options of maps of positions, which `--set` changes too."""
    from ape_cli.data import position_maps

    options: set[str] = set()
    for name in position_maps.names():
        with suppress(ApeError):  # a plug-in's file may be broken
            options |= set(position_maps.options(name))
    return frozenset(options)
