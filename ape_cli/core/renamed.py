"""Old names in the public interface, which work for one version with a `DeprecationWarning`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any
from warnings import warn


def attributes(module: str, new_names: Mapping[str, str]) -> Callable[[str], Any]:
    """The function `__getattr__` of a module whose attributes were renamed. `new_names`: by the old name."""

    def get(name: str) -> Any:
        if name not in new_names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_about(f"{module}.{name}", new_names[name])
        return getattr(sys.modules[module], new_names[name])

    return get


class _OldName:
    """An attribute of a class under its old name."""

    def __init__(self, old: str, new: str, value: Any) -> None:
        self.old, self.new, self.value = old, new, value

    def __get__(self, instance: Any, owner: type) -> Any:
        """The value that the class of this attribute defines under the new name, also through `super()`."""
        warn_about(f"{owner.__name__}.{self.old}", self.new)
        return self.value.__get__(instance, owner) if hasattr(self.value, "__get__") else self.value


def members(cls: type, new_names: Mapping[str, str]) -> None:
    """Let a class define and use members under their old names. Call it in `__init_subclass__`."""
    for old, new in new_names.items():
        if new in vars(cls):
            setattr(cls, old, _OldName(old, new, vars(cls)[new]))
        elif old in vars(cls):
            warn_about(f"{cls.__name__}.{old}", new, stacklevel=4)
            setattr(cls, new, vars(cls)[old])


def warn_about(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that a name is an old one."""
    warn(f"{old} is now called {new}; the old name will be removed", DeprecationWarning, stacklevel=stacklevel)
