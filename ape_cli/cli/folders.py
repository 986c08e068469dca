"""Commands that messages propose: they name the same folders as the command that was typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

_PROPOSED = re.compile(r"(?<!same )`ape ([a-z]+)((?: [^`]*)?)`")
FOLDERS = {  # the options that name folders, and the commands that have them
    "--results": {"train", "sweep", "eval", "report", "draw", "runs", "rm", "doctor", "verify", "export", "push"},
    "--datasets": {"gen", "train", "sweep", "eval", "draw", "show", "doctor", "verify", "push"},
}


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
