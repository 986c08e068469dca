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


def members(cls: type, new_names: Mapping[str, str]) -> None:
    """Give a user's class what it defines under old names under the new ones too. Call it in `__init_subclass__`."""
    for old, new in new_names.items():
        if old in vars(cls):
            warn_about(f"{cls.__name__}.{old}", new, stacklevel=4)
            setattr(cls, new, vars(cls)[old])


def warn_about(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that a name is an old one."""
    warn(f"{old} is now called {new}; the old name will be removed", DeprecationWarning, stacklevel=stacklevel)
