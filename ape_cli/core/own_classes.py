"""What the class of a user's own part must have: the methods of its base with their arguments, and its attributes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from ape_cli.core.errors import ApeError, brief


def check_class(found: type, part: str, is_own: Callable[[type], bool]) -> None:
    """Check that a user's own class overrides methods, properties and attributes by ones of their kind.

    A method must take the arguments of the one that it overrides, because `ape` calls it with them. `part`: the kind
    and the name of the class, for messages. `is_own`: whether a class is a user's own. Raises `ApeError`.
    """
    for base in (base for base in found.__mro__ if is_own(base) and base is not object):
        for name, own in vars(base).items():
            parents = (vars(other) for other in base.__mro__[1:] if not is_own(other) and other is not object)
            overridden = next((parent[name] for parent in parents if name in parent), None)
            if not name.startswith("_") and (wrong := next(_wrong(base, name, own, overridden), None)):
                what, got, allowed = wrong
                code = getattr(inspect.unwrap(own), "__code__", None) if callable(own) else None
                place = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
                raise ApeError(
                    f"`{name}` of {part} {what}", got=f"{got}{place}", allowed=allowed, fix="correct the file"
                )


def _wrong(base: type, name: str, own: Any, overridden: Any) -> Iterator[tuple[str, str, str]]:
    """What is wrong with an attribute of a class: the reason, what it is, and what is allowed."""
    if inspect.isfunction(overridden):
        method = getattr(base, name)
        if not callable(method):
            yield "is not a method", brief(own), f"`def {name}{_shown(inspect.signature(overridden))}`"
            return
        signature, wanted = inspect.signature(method), inspect.signature(overridden)
        kinds = [parameter.kind for parameter in wanted.parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
            return
        named = [p.name for p in wanted.parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
        given = len(kinds) - len(named) - (not inspect.isfunction(own))  # a static method has no `self`
        try:
            signature.bind(*[None] * given, **dict.fromkeys(named))
        except TypeError:
            yield "takes other arguments", _shown(signature), _shown(wanted)
    elif isinstance(overridden, property | cached_property) and inspect.isfunction(own):
        yield "is a method", f"def {name}", "a property: write `@property` above it"
    elif not hasattr(own, "__get__") and (hint := _hint(base, name, overridden)) is not None:
        from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError  # slow to import

        try:
            TypeAdapter(hint).validate_python(own)
        except PydanticSchemaGenerationError:  # a class that it does not know
            return
        except ValidationError:
            yield "is something else", brief(own), hint.__name__ if isinstance(hint, type) else str(hint)


def _hint(base: type, name: str, overridden: Any) -> Any:
    """The type of a class attribute or a property; None for anything else."""
    if isinstance(overridden, property | cached_property):
        getter = overridden.fget if isinstance(overridden, property) else overridden.func
        return get_type_hints(getter).get("return")
    hint = next((h[name] for each in base.__mro__[1:] if name in (h := _hints(each))), None)
    return get_args(hint)[0] if get_origin(hint) is ClassVar else None


def _hints(base: type) -> dict[str, Any]:
    """The types of the attributes of a class; none of one that names what only type checkers import."""
    try:
        return {name: hint for name, hint in get_type_hints(base).items() if name in base.__annotations__}
    except (NameError, AttributeError):
        return {}


def _shown(signature: inspect.Signature) -> str:
    """The names of arguments, without types."""
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
