"""A user's own parts: the rules that they have to keep, and errors that name the part, its method and the line.

A rule is a function of a part. It raises `ApeError` if the part breaks it, and the first line of its docstring
describes it to users. The rules of a kind are in one place, `RULES` of its package. They are applied to the parts of
ape by the tests, to any part by `ape check`, and, except for loggers, to a user's own part the first time that it is
used.

Every base class of parts has an attribute `part_kind`, the word for its kind in messages, such as "scheme".
"""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from ape_cli.core import plugins
from ape_cli.core.errors import LEFT_OUT, ApeError, PartError, error_text
from ape_cli.core.memory import ran_out

T = TypeVar("T")
logger = logging.getLogger(__name__)
_checked: set[tuple[Any, ...]] = set()  # the classes that were checked in this process, each with its settings


def check_once(part: T, rules: Mapping[str, Callable[[T], None]], *settings: object) -> None:
    """Apply rules to a user's own part, once in a process for the same code and settings. A part of ape is not checked.

    Raises `ApeError` for the first rule that it breaks, or whose measure fails.
    """
    key = (type(part), *map(repr, settings))
    if not plugins.is_user_class(type(part)) or key in _checked:
        return
    for rule in rules.values():
        apply(rule, part)
    _checked.add(key)


def apply(rule: Callable[[T], None], part: T) -> None:
    """Apply a rule to a part. Raises `ApeError` if the part breaks it, or if the part fails."""
    with explained(part):
        rule(part)


def called(part: Any, method: str, right: Callable[[Any], bool], allowed: str, *arguments: Any, **named: Any) -> Any:
    """What a method of a part returns. Raises `ApeError` if it fails, or if the result is not `right`."""
    with explained(part):
        result = getattr(part, method)(*arguments, **named)
    if not right(result):
        raise returns(part, method, result, allowed)
    return result


def every(load: Callable[[str], T], names: Collection[str]) -> list[T]:
    """All parts of a kind by their names, without those that cannot be loaded, about which it warns."""
    parts = list[T]()
    for name in names:
        try:
            parts.append(load(name))
        except ApeError as error:  # a user's own file may be broken; the other parts still work
            logger.warning(f"{LEFT_OUT}{name}: {error.summary}")
    return parts


@contextmanager
def explained(part: Any = None) -> Iterator[None]:
    """Turn an exception in the code of a user's own part into an `ApeError` that names it. Other exceptions pass.

    `part`: a part, or a class of parts, that is at fault for all exceptions if it is a user's own.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        part_error = explanation(error)
        if part_error is None and part is not None and plugins.is_user_class(_class(part)) and not _passes(error):
            part_error = failed(part, "", error)
        if part_error is None:
            raise
        raise part_error from error


def explanation(error: BaseException, called: str = "") -> PartError | None:
    """The error that names the user's own part that an exception passed, and the outermost of its methods.

    `called`: the method to name if the exception passed none, but a function in the file of the part.

    None if it passed no such part, for example because of a bug in ape, and for a message or a lack of memory.
    """
    if _passes(error):
        return None
    both = (error, error.__cause__)  # a generator that raises `StopIteration` is named by the cause
    frames = (frame for exception in both if exception for frame, _ in traceback.walk_tb(exception.__traceback__))
    for frame in frames:
        owner, file, method = frame.f_locals.get("self"), frame.f_code.co_filename, frame.f_code.co_name
        part = owner if hasattr(type(owner), "part_kind") else plugins.by_file(file)
        if part is not None and file in files(part):
            return failed(part, method if hasattr(part, method) else called, error)
    return None


def failed(part: Any, method: str, error: BaseException) -> PartError:
    """The error for an exception in a method of a part, or of a class of parts. `method` may be empty."""
    advice = getattr(_class(part), "advice", {})
    got = f"{error_text(error)}{location(error, files(part)) or line_of(part, method)}"
    return PartError(f"{_named(part, method)} failed", got=got, fix=advice.get(type(error), "correct the file"))


def returns(part: Any, method: str, got: object, allowed: str, fix: str = "correct the file") -> PartError:
    """The error for what a method of a part returned: a description, or a value of another type."""
    text = got if isinstance(got, str) else "None" if got is None else type(got).__name__
    what = f"{_named(part, method)} returns an unexpected value"
    return PartError(what, got=f"{text}{line_of(part, method)}", allowed=allowed, fix=fix)


def location(error: BaseException, files: Collection[str]) -> str:
    """The last line in some files that an exception passed, in parentheses; empty if it passed none."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    locations = [f" ({file}, line {line})" for file, line in frames if file in files]
    return locations[-1] if locations else ""


def line_of(part: Any, method: str) -> str:
    """Where a method of a part is written, in parentheses; empty if that is unknown."""
    code = getattr(inspect.unwrap(getattr(_class(part), method, _class)), "__code__", None)
    return f" ({code.co_filename}, line {code.co_firstlineno})" if code and code.co_filename in files(part) else ""


def files(part: Any) -> list[str]:
    """The files of a part, or of a class of parts, and of its bases, without those of ape, as tracebacks name them."""
    own = [base for base in _class(part).__mro__ if hasattr(base, "part_kind") and plugins.is_user_class(base)]
    return [plugins.traced_file(base) or "" for base in own]


def _class(part: Any) -> Any:
    """The class of a part. A class of parts is returned as it is."""
    return part if isinstance(part, type) else type(part)


def _named(part: Any, method: str) -> str:
    """A part, or one of its methods, in a message."""
    name = getattr(part, "name", None)
    part_name = name if isinstance(name, str) else plugins.name_of(_class(part))
    return f"`{method}` of " * bool(method) + f"{_class(part).part_kind} {part_name!r}"


def _passes(error: BaseException) -> bool:
    """Whether an error is not to be explained: a message of ape, or a lack of memory."""
    return isinstance(error, ApeError) or ran_out(error)
