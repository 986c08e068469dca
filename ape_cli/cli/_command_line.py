"""The command line that was given, with changes: for hints about what to run next."""

from __future__ import annotations

import shlex
from typing import Any

import typer


def repeated(ctx: typer.Context, **changes: Any) -> str:
    """The command with the options that were given, some of them replaced. None leaves an option out."""
    words = ["ape", str(ctx.info_name)]
    for one in ctx.command.params:
        name = str(one.name)
        source = ctx.get_parameter_source(name)
        value = changes.get(name, ctx.params.get(name))
        if value is None or value is False or (name not in changes and (source is None or source.name == "DEFAULT")):
            continue
        flag = max(one.opts, key=len)
        if value is True:
            words.append(flag)
            continue
        for each in value if isinstance(value, list) else [value]:
            words += [flag, str(each)]
    return shlex.join(words)
