"""Names that become a part of a path, such as the name of a task in the name of a run."""

from __future__ import annotations

import re

from ape_cli.core.errors import DataError

MOST = 200  # characters; file systems allow 255, and temporary files add to a name
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ALLOWED = (
    f"at most {MOST} ASCII letters, digits, dots, hyphens and underscores, of which the first is a letter or digit"
)


def checked_name(what: str, name: str) -> str:
    """Return `name`, which is called `what` in errors, if a path may contain it as one component.

    Such a name has no separator, is not `.` or `..`, and does not hide a file. Raises `DataError` otherwise.

    >>> checked_name("task", "tree-copy")
    'tree-copy'
    >>> checked_name("task", "../copy")
    Traceback (most recent call last):
    ape_cli.core.errors.DataError: the task cannot be a part of a path
      got:     '../copy'
      allowed: at most 200 ASCII letters, digits, dots, hyphens and underscores, of which the first is a letter or digit
      fix:     rename it
    """
    if len(name) > MOST or not _NAME.fullmatch(name):
        got = ascii(name[:MOST]) + "…" * (len(name) > MOST)
        raise DataError(f"the {what} cannot be a part of a path", got=got, allowed=ALLOWED, fix="rename it")
    return name
