"""`ape rm`: remove runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ape_cli.cli._app import RESULTS, Json, Results, command
from ape_cli.cli.console import answer, note, say
from ape_cli.core.errors import RunError, UsageError


@command("ape rm copy-rope-42 --yes")
def rm(
    runs: Annotated[list[str], typer.Argument(help="Names of runs, or beginnings of names.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Remove runs. Everything in their folders is removed: weights, history, scores and logs.

    Nothing is removed if one of the names is wrong. Datasets stay.

    \f
    Raises `UsageError` for a name that no run has, and if --yes is missing where nobody can be asked.
    """
    from ape_cli.runs.registry import open_registry

    registry = open_registry(results)
    named = {run.name: run for run in map(registry.find, runs)}.values()
    for run in named:
        try:
            note(f"{run.name} ({run.status})")
        except RunError as error:  # a damaged run can be removed too
            note(f"{run.name} (damaged: {error.summary})")
    count = f"{len(named)} run{'s' * (len(named) != 1)}"
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"nobody can be asked whether to remove {count}", got="no terminal", fix="add --yes")
        if not typer.confirm(f"remove {count}?", err=True):
            note("nothing was removed")
            raise typer.Exit(1)
    removed: list[str] = []
    try:
        for run in named:
            run.delete()
            removed.append(run.name)
            if not as_json:
                say(f"removed: {run.folder}")
    finally:  # also if another process trains one of them
        if as_json:
            answer({"removed": removed})
