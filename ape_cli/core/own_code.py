"""The code of a user's own classes: a digest of the file of each.

The digest is that of the file at the time when the class was loaded (`remember`), because that is the code that runs,
even if the file is edited later. Files that this file imports are not a part of it.
"""

from __future__ import annotations

import hashlib

from ape_cli.core import plugins

DIGITS = 7  # of a digest, where a version is named, as of a commit
_LOADED: dict[type, str | None] = {}  # the digest of each class that was loaded


def remember(found: type) -> None:
    """Note the digest of a class that has just been loaded. A class of this package has none."""
    if found not in _LOADED:  # a class that is loaded again is still the code of the first time
        file = plugins.file_of(found) if plugins.is_own(found) else None
        _LOADED[found] = hashlib.sha256(file.read_bytes()).hexdigest() if file is not None else None


def digest(found: type) -> str | None:
    """The SHA-256 of the file of a user's own class, in hexadecimal digits.

    None if the class has no file, for example because it was written in a notebook.
    """
    remember(found)
    return _LOADED[found]
