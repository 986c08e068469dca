"""The options of `ape sweep` that describe its grid."""

from __future__ import annotations

from typing import Any

from ape_cli.core.errors import UsageError, brief


def given_fields(
    schemes: str | None,
    tasks: str | None,
    data: list[str] | None,
    orders: str | None,
    seeds: str | None,
    structures: str | None,
    attentions: str | None,
    preset: str | None,
    precision: str | None,
    settings: list[str] | None,
) -> dict[str, Any]:
    """The options as fields of a grid. They replace the fields of a file."""
    from ape_cli.runs.config import parse_values

    lists = {
        "schemes": schemes,
        "tasks": tasks,
        "orders": orders,
        "structures": structures,
        "attentions": attentions,
    }
    found: dict[str, Any] = {key: _list(text) for key, text in lists.items() if text is not None}
    if data:
        found |= {"data": data} | ({} if tasks else {"tasks": []})
    elif tasks:
        found["data"] = []
    found |= {} if seeds is None else {"seeds": _seeds(seeds)}
    found |= {key: value for key, value in (("preset", preset), ("precision", precision)) if value is not None}
    return found | ({"set": parse_values(settings)} if settings else {})


def _list(text: str) -> list[str]:
    """Split a list with commas, without repetitions."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _seeds(text: str) -> list[int]:
    """Parse seeds and ranges of seeds. Raises `UsageError` if they are not valid."""
    found: list[int] = []
    for part in _list(text):
        first, dash, last = part.partition("-")
        last = last if dash else first
        digits = all(text.isdecimal() and len(text) < 20 for text in (first, last))
        if not digits or not 0 <= int(last) - int(first) <= 10_000:
            allowed = "whole numbers, and ranges from the lower to the higher"
            raise UsageError("bad --seeds", got=brief(part), allowed=allowed, fix="--seeds 42,43,44, or 42-44")
        found += range(int(first), int(last) + 1)
    return found


def shard_of(text: str | None) -> tuple[int, int]:
    """Parse I/N. Raises `UsageError` if it is not valid."""
    number, slash, of = ("1/1" if text is None else text).partition("/")
    digits = all(part.isdecimal() and len(part) < 10 for part in (number, of))
    if not (slash and digits and 1 <= int(number) <= int(of)):
        raise UsageError(
            "bad --shard", got=brief(text), allowed="I/N with I from 1 to N", fix="for example --shard 2/8"
        )
    return int(number), int(of)
