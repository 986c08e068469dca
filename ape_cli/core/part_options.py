"""The options of plug-ins: which a class has, and the check of the values that users give them.

The annotation of an argument says which values are allowed, and without one the type of its default does. pydantic
checks them.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Optional, Union, get_args, get_origin

from ape_cli.core.errors import UsageError, unknown


class PartOptions(dict[str, Any]):
    """The options of a class, with their defaults. `kinds` has the types of those that are annotated."""

    def __init__(self, parameters: Iterable[inspect.Parameter]) -> None:
        """Read the defaults and the annotations."""
        of = {p.name: p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        super().__init__({name: p.default for name, p in of.items()})
        self.kinds = {name: p.annotation for name, p in of.items()}


def options(cls: type, skip: int = 0) -> PartOptions:
    """The arguments of a class after the first `skip`, with their defaults, except for `*args` and `**kwargs`."""
    return PartOptions(_parameters(cls)[skip:])


@cache
def _parameters(cls: type) -> list[inspect.Parameter]:
    """The arguments of a class. To find them is slow, and a sweep asks for those of a scheme in every trial."""
    names = getattr(cls.__init__, "__globals__", {})  # type: ignore[misc]
    parameters = []
    for parameter in inspect.signature(cls).parameters.values():
        annotation = parameter.annotation
        if isinstance(annotation, str):  # of a file that imports `annotations` from `__future__`
            try:
                annotation = eval(annotation, names)
            except Exception:  # it may use a name that only type checkers import
                annotation = parameter.empty
        parameters.append(parameter.replace(annotation=annotation))
    return parameters


def settings(what: str, values: dict[str, Any], allowed: dict[str, Any]) -> dict[str, Any]:
    """Check each given option of `what`, and return the options.

    Raises `UsageError` for an unknown option, or for a value that `checked` refuses.
    """
    for key in values:
        if key not in allowed:
            raise unknown(f"option of {what}", key, allowed)
    return {key: checked(key, value, allowed) for key, value in values.items()}


def checked(key: str, value: Any, allowed: dict[str, Any]) -> Any:
    """The value of an option of `allowed`, as its annotation has it. Without one, its default says the type.

    A whole number becomes a float, and a list or a text such as `1,2` a tuple, if the annotation has such a type.

    Raises `UsageError` for a value of another type, and for a number that is not finite.
    """
    check_whole(key, value)
    default, empty = allowed[key], inspect.Parameter.empty
    annotation = allowed.kinds.get(key, empty) if isinstance(allowed, PartOptions) else empty
    if annotation is empty:
        annotation = Any if default is None or default is empty else type(default)
    elif default is None:
        annotation = Optional[annotation]  # noqa: UP045 - of what may be any annotation
    for given in (value, _listed(value)):
        with suppress(ValueError):  # that of pydantic is one
            result = _validated(annotation, given)
            if not isinstance(value, bool) or isinstance(result, bool | list | tuple):  # Literal[1] takes True
                return result
    fix = "give such a value" if default is empty else f"the default is {json.dumps(default, default=str)}"
    raise UsageError(f"bad {key}", got=repr(value), allowed=_words(annotation), fix=fix)


def _validated(annotation: Any, value: Any) -> Any:
    """The value as a type. Values from files and the command line are JSON, where a tuple is a list.

    Raises `ValueError` if it is not of the type. A type that pydantic does not know has any value.
    """
    from pydantic import ConfigDict, TypeAdapter

    try:
        adapter = TypeAdapter(
            annotation, config=ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
        )
    except Exception:
        return value
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        return adapter.validate_python(value)
    return adapter.validate_json(text)


def _listed(value: Any) -> Any:
    """The list of which an option has the only value, or the values in a text with commas."""
    if not isinstance(value, str):
        return [value]
    with suppress(ValueError):
        return json.loads(f"[{value}]")
    return [part.strip() for part in value.split(",")]


def _words(annotation: Any) -> str:
    """The values of a type in words.

    >>> _words(int), _words(Literal["a", "b"]), _words(int | None)
    ('a whole number', 'a or b', 'a whole number or none')
    """
    names = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text", NoneType: "none"}
    if get_origin(annotation) is Literal:
        return " or ".join(map(str, get_args(annotation)))
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(map(_words, get_args(annotation)))
    return names.get(annotation) or inspect.formatannotation(annotation)


def unsigned(value: Any) -> Any:
    """The value with 0.0 in place of -0.0, also in a list or tuple, so that equal values have one name.

    >>> unsigned(-0.0), unsigned([1, (-0.0, "x")])
    (0.0, [1, (0.0, 'x')])
    """
    if isinstance(value, list | tuple):
        return type(value)(map(unsigned, value))
    return value + 0.0 if isinstance(value, float) else value


def check_whole(name: str, value: Any) -> None:
    """Check that the value of the option `name`, or no element of it, is a whole number beyond 64 bits.

    Raises `UsageError`.
    """
    for element in value if isinstance(value, list | tuple) else (value,):
        if isinstance(element, int) and not -(2**63) <= element < 2**63:
            raise UsageError(f"bad {name}: a whole number of {element.bit_length():,} bits; 64 bits are possible")
