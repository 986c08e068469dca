"""The command line that was given, with changes: for hints about what to run next."""

from __future__ import annotations

import shlex
from typing import Any

import typer


def given(ctx: typer.Context) -> set[str]:
    """The names of the parameters that the command line gives."""
    sources = {str(name): ctx.get_parameter_source(str(name)) for name in ctx.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def repeated(ctx: typer.Context, **changes: Any) -> str:
    """The command with the options that were given, some of them replaced. None leaves an option out."""
    words, there = ["ape", str(ctx.info_name)], given(ctx)
    for one in ctx.command.params:
        name = str(one.name)
        value = changes.get(name, ctx.params.get(name))
        if value is None or value is False or (name not in changes and name not in there):
            continue
        flag = max(one.opts, key=len)
        if value is True:
            words.append(flag)
            continue
        for each in value if isinstance(value, list) else [value]:
            words += [flag, str(each)]
    return shlex.join(words)
