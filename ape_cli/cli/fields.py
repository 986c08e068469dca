"""`ape fields`: everything that `--set` accepts."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer

from ape_cli.cli._app import command
from ape_cli.cli.console import print_json, print_note, print_table, shown
from ape_cli.cli.options import Json

_MANY = 10**9  # limits from here on are only a protection
_KINDS = {bool: "true or false", int: "a whole number", float: "a number"}  # of options of plug-ins, by their defaults
_ENDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


@command("ape fields --scheme rope", option="--scheme ")
def fields(
    scheme: Annotated[str | None, typer.Option(help="Also list the options of this scheme.")] = None,
    attention: Annotated[str | None, typer.Option(help="Also list the options of this kind of attention.")] = None,
    positions: Annotated[str | None, typer.Option(help="Also list the options of this map of positions.")] = None,
    preset: Annotated[str, typer.Option(help="Preset to show: paper, neurips, medium, small or tiny.")] = "small",
    images: Annotated[bool, typer.Option("--images", help="List the fields of image models.")] = False,
    as_json: Json = False,
) -> None:
    """List the fields that `--set KEY=VALUE` accepts, with their values in a preset.

    \f
    Raises `UsageError` for an unknown scheme, attention, map of positions or preset, and for a preset without a model
    for images.
    """
    lines = listed(preset, "image" if images else "sequence")
    for name, package in ((scheme, "position"), (attention, "attention"), (positions, "data.position_maps")):
        if name is not None:
            lines += _of_plugin(package, name)
    if scheme is not None:
        from ape_cli import position

        (decay,) = (line for line in lines if line["field"] == "decay")
        decay["value"] = position.load(scheme).default_decay if decay["value"] is None else decay["value"]
    if as_json:
        print_json(lines)
        return
    rows = [[line["field"], shown(line["value"]), line["allowed"], line["meaning"]] for line in lines]
    print_table(["field", preset, "allowed", "meaning"], rows)
    print_note("for example: ape train --scheme rope --set lr_peak=0.001")
    if scheme is None:
        print_note("`ape fields --scheme rope` also lists the options of a scheme")
    print_note("—: not set; another field, the scheme or the data decides")


def listed(preset: str, kind: str) -> list[dict[str, Any]]:
    """The fields of a configuration that can be set, in their order."""
    from ape_cli.runs import config

    chosen = config.preset(preset).of(kind)
    lines = []
    for name in config.settable(kind):
        field = config.KINDS[kind].model_fields[name]
        value = chosen.get(name, None if field.is_required() else field.default)
        lines.append(
            {
                "field": name,
                "value": value,
                "allowed": _allowed(field.metadata, whole=field.annotation in (int, int | None)),
                "meaning": field.description,
            }
        )
    return lines


def _allowed(limits: list[Any], whole: bool) -> str:
    """The limits of a number in words. Empty if there are none.

    >>> from annotated_types import Ge, Gt, Le, Lt
    >>> _allowed([Gt(0), Le(200)], whole=True), _allowed([Gt(0)], whole=True), _allowed([Ge(0), Lt(1)], whole=False)
    ('1 to 200', '1 or more', 'at least 0, below 1')
    """
    ends = {end: getattr(limit, end) for limit in limits for end in _ENDS if hasattr(limit, end)}
    if whole and ends:
        low, high = ends.get("ge", ends.get("gt", -1) + 1), ends.get("le", _MANY)
        return f"{low} to {high:,}" if high < _MANY else f"{low} or more"
    return ", ".join(f"{word} {ends[end]:,}" for end, word in _ENDS.items() if end in ends)


def _of_plugin(package: str, name: str) -> list[dict[str, Any]]:
    """The options of a scheme, a kind of attention or a map of positions. Values for Python alone are left out."""
    of = import_module(f"ape_cli.{package}")
    about, default = of.load(name).option_help, f"Option of {name}."
    return [
        {"field": key, "value": value, "allowed": _KINDS.get(type(value), ""), "meaning": about.get(key, default)}
        for key, value in of.options(name).items()
        if value is not None
    ]
