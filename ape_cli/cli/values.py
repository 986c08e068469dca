"""Values of options and settings as text."""

from __future__ import annotations

from typing import Any


def shown(value: Any) -> str:
    """The value of an option or a setting as text; a dash for none.

    >>> shown(None), shown(True), shown(0.98), shown(1e-7), shown("both")
    ('—', 'true', '0.98', '1e-07', 'both')
    """
    if value is None or value == ():
        return "—"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
