"""User errors and messages. An error says what is wrong, what was given (got), what is allowed, and how to fix it.

Messages name fields in backquotes, as files and functions do: "leave `decode` out", "`device=cuda`". The command line
prints the option in its place: `--decode`, `--device cuda`. An option of another command is written with it:
"`ape train … --overwrite`".

Everything that a user can cause is an `ApeError`, which the command line prints without a traceback. An
`AssertionError`, or any other exception, is a bug of this program and keeps its traceback.

A module logs messages, at level INFO, with `logging.getLogger(__name__)`. They are not printed until `messages_to`
installs the only handler. The command line prints them to stderr, and a trial of a sweep writes them into its own log.
"""

from __future__ import annotations

import difflib
import errno
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from ape_cli.core import escaping

_MOST = 1_000  # characters of a value in a message
_BRIEF = 80  # characters of a value that is not a text
_MANY = 40  # names that an error lists
_COMPARED = 5_000  # names that are compared with an unknown one
_Name = TypeVar("_Name", bound=str)
_REMEDIES = {
    errno.EMFILE: "close other programs, or raise the limit of open files (`ulimit -n`)",
    errno.EFBIG: "raise the limit of the size of a file (`ulimit -f`), or use a file system with larger files",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, because your quota is used up",
}


class Lines(str):
    """A value of several lines, whose line breaks a message keeps. Names in it are escaped by the caller."""


class ApeError(Exception):
    """Base class of user errors.

    `what` says what is wrong, `got` what was given, `allowed` what would be valid, and `fix` what to do. The message
    has one line for each that is given. The command line exits with the status `exit_code`.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        got: object = None,
        allowed: object = None,
        fix: str | None = None,
    ) -> None:
        """Store the parts."""
        super().__init__(what)
        self.what, self.got, self.allowed, self.fix = what, got, allowed, fix

    def __str__(self) -> str:
        """The message: a line for each part."""
        lines = [_shown(self.what)]
        for label, value in (("got", self.got), ("allowed", self.allowed), ("fix", self.fix)):
            if value is not None:
                lines.append(f"  {label + ':':<9}{_shown(value)}")
        return "\n".join(lines)

    @property
    def summary(self) -> str:
        """What is wrong and what was given, in one line."""
        return _shown(self.what) if self.got is None else f"{_shown(self.what)} ({escaping.one_line(_shown(self.got))})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parts, from which the other process builds the message again."""
        return partial(type(self), got=self.got, allowed=self.allowed, fix=self.fix), (self.what,)


class PartError(ApeError):
    """A user's own part is at fault: it fails, or returns an unexpected value."""


def remedy(error: OSError, otherwise: str | None = None) -> str | None:
    """What to do about a failure of this machine: a limit, a full disk, or a broken one. Otherwise, `otherwise`.

    >>> remedy(OSError(errno.ENOSPC, ""), "choose another file"), remedy(OSError(errno.EISDIR, ""), "choose a file")
    ('free some space', 'choose a file')
    """
    return _REMEDIES.get(error.errno or 0, otherwise)


def cannot_write(path: object, error: OSError) -> ApeError:
    """The error that says why `path` cannot be written, with the fix for this reason."""
    fix = remedy(error, "choose a place that you may write to")
    return ApeError(f"cannot write {path}", got=error.strerror or str(error), fix=fix)


def error_text(error: BaseException) -> str:
    """The type and the message of an exception, in one line.

    >>> error_text(ValueError("one\\n  two")), error_text(KeyboardInterrupt())
    ('ValueError: one two', 'KeyboardInterrupt')
    """
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def brief(value: object) -> str:
    """The text of a value that is not a text, as Python writes it, for a message. Text of any length is cut.

    >>> brief([1, 2]), brief("x" * 100)
    ('[1, 2]', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…")
    """
    return cut(repr(value), _BRIEF)


def _shown(value: object) -> str:
    """The text of a value for a message, without secrets. Text of any length is cut. `Lines` keep their line breaks."""
    text = cut(escaping.redacted(str(value)), _MOST)
    return escaping.terminal(text) if isinstance(value, Lines) else escaping.one_line(text)


def cut(text: str, maximum: int) -> str:
    """The first `maximum` characters of a text."""
    return text if len(text) <= maximum else f"{text[:maximum]}…"


class UsageError(ApeError, ValueError):
    """The command line, or an argument of the Python interface, is invalid. Nothing was started."""

    exit_code = 2


class CombinationError(UsageError):
    """Parts or settings are valid, but not together. A sweep leaves out such a trial."""


class NeedsError(UsageError):
    """A part needs something that is not here: a package that is not installed, or a user's own data."""


class DataError(ApeError, ValueError):
    """A dataset on disk is missing, damaged, of an unknown format, or does not fit the request."""


class RunError(ApeError, ValueError):
    """A run on disk is missing, damaged, in use, or does not fit the request."""


class PlaceError(ApeError):
    """An address cannot be used: the bucket does not exist, access is denied, or the server cannot be reached.

    It says nothing about the content of a file, so it is not a `ValueError`.
    """


class BusyError(ApeError):
    """Another process is working on the same thing. A later attempt may succeed."""


def unknown(
    noun: str,
    name: str,
    allowed: Iterable[str],
    searched: Iterable[str] = (),
    synonyms: Mapping[str, str] | None = None,
    listed_by: str = "",
) -> UsageError:
    """The error for an unknown `noun` called `name`, with the nearest match and the full list.

    `searched` are the places where the names come from, if a user can add to them. `synonyms` are other words for
    names. `listed_by` is the command that lists the names, if there may be many.

    >>> print(unknown("task", "tree-cpoy", ["copy", "tree-copy"]))
    unknown task
      got:     'tree-cpoy'
      allowed: copy, tree-copy
      fix:     did you mean 'tree-copy'?
    """
    names = sorted(allowed)
    locations = ", ".join(searched)
    fix = suggestion(name, names, "" if listed_by else "choose one from the list", synonyms)
    fix = f"{fix} `{listed_by}` lists all".strip() if listed_by else fix
    return UsageError(
        f"unknown {noun}",
        got=repr(name),
        allowed=_listed(name, names),
        fix=fix + (f" (searched: {locations}; PYTHONPATH adds folders with ape_cli in them)" if locations else ""),
    )


def _listed(name: str, names: Sequence[str]) -> str:
    """The names in a line. Of very many, only those that are most like `name`.

    >>> _listed("run-7", [f"run-{i}" for i in range(100)])
    'run-7, run-97, run-87, run-79, run-78, … (the closest of 100)'
    """
    if len(names) <= _MANY:
        return ", ".join(names) or "none"
    near = difflib.get_close_matches(name, names[:_COMPARED], n=5, cutoff=0.0)
    return f"{', '.join(near)}, … (the closest of {len(names):,})"


def suggestion(name: str, names: Iterable[str], otherwise: str, synonyms: Mapping[str, str] | None = None) -> str:
    """The fix for an unknown name: the most similar one of `names`, or the text `otherwise` if none is similar."""
    near = nearest(name, names, synonyms)
    return f"did you mean {near!r}?" if near else otherwise


def nearest(name: str, names: Iterable[str], synonyms: Mapping[str, str] | None = None) -> str | None:
    """The most similar name, or None if no name is similar. Case, hyphens and underscores do not count.

    `synonyms` are other words for names. Words for other things than `names` are ignored.

    >>> nearest("RoPE", ["none", "rope"]), nearest("LR", ["lr_peak", "warmup"], {"lr": "lr_peak"})
    ('rope', 'lr_peak')
    """
    plain_names = {_plain(other): other for other in sorted(names)}
    words = {
        _plain(word): other for word, other in (synonyms or {}).items() if other in plain_names.values()
    } | plain_names
    matches = difflib.get_close_matches(_plain(name), words, n=1, cutoff=0.62)
    return words[matches[0]] if matches else None


def _plain(name: str) -> str:
    """A name in lower case, without hyphens and underscores."""
    return str(name).casefold().replace("-", "").replace("_", "")


def pick(noun: str, name: str, allowed: Iterable[_Name], listed_by: str = "") -> _Name:
    """Return the element of `allowed` that is called `name`. Raises `UsageError` (see `unknown`) if there is none."""
    names = {str(other): other for other in allowed}
    if name not in names:
        raise unknown(noun, name, names, listed_by=listed_by)
    return names[name]


class _Lines(logging.Handler):
    """Passes each record to `write` as text, and the same warning only once."""

    def __init__(self, write: Callable[[str], None], level: int = logging.INFO) -> None:
        """Handle records of this level and above."""
        super().__init__(level)
        self.write, self.warned = write, set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        text = self.format(record)
        if record.levelno < logging.WARNING or text not in self.warned:
            self.warned.add(text)
            self.write(text)


@contextmanager
def messages_to(write: Callable[[str], None]) -> Iterator[None]:
    """A context in which each message of `ape_cli` is passed to `write`, and to no other handler."""
    logger = logging.getLogger("ape_cli")
    handlers, level, propagate = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [_Lines(write)], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


LEFT_OUT = "left out: "  # begins the warning about something that cannot be read, such as a damaged run


@contextmanager
def left_out() -> Iterator[list[str]]:
    """A context that collects the warnings that begin with `LEFT_OUT`, without these words and each one once.

    The warnings are still logged.
    """
    lines, logger = list[str](), logging.getLogger("ape_cli")
    handler = _Lines(lambda text: lines.append(text.removeprefix(LEFT_OUT)), logging.WARNING)
    handler.addFilter(lambda record: record.getMessage().startswith(LEFT_OUT))
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
