"""`ape runs` and `ape rm`: list the registered runs, and remove some of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from ape_cli.cli._app import command, note_changed, note_unreadable
from ape_cli.cli.console import answer, hint, note, print_table, say
from ape_cli.cli.options import OTHER, RUNS, Json, ResultsFolder, RunFilter, option
from ape_cli.core.errors import RunError, UsageError


@dataclass(frozen=True)
class ListingOptions:
    """Which runs are listed, and how."""

    PANEL: ClassVar = OTHER
    conditions: list[str] | None = option(
        "Only runs that fulfil a condition on a column, for example status=failed, steps>=800 or dataset~tree "
        "(contains); may be repeated.",
        "--filter",
        metavar="CONDITION",
        panel=RUNS,
    )
    sort: str | None = option("Sort by a column. Default: run.", metavar="COLUMN")
    descending: bool = option("Sort from the highest to the lowest.", default=False)
    wide: bool = option("Show all columns.", default=False)


@command("ape runs --filter status=finished --sort validation --descending", option="--filter run~")
def runs(which: RunFilter, listing: ListingOptions, folder: ResultsFolder, as_json: Json = False) -> None:
    """List the registered runs.

    --filter and --sort know the columns of --json, also with hyphens, and `validation`.

    \f
    Raises `UsageError` for an unknown column or a bad condition.
    """
    from ape_cli.runs import filters, selection
    from ape_cli.runs.registry import open_registry

    registry = open_registry(folder.results).where(filters.make(which.scheme, which.task, which.preset))
    table, bad = registry.table()
    note_unreadable(bad)
    old = note_changed(registry.own_code.values())
    chosen = selection.selected(table, listing.conditions or [])
    chosen = selection.arranged(chosen, listing.sort or "run", descending=listing.descending)
    if as_json:
        answer(chosen.to_dicts())
    elif table.is_empty():
        note(f"no runs in {folder.results} yet; `ape train --scheme rope --task copy` trains one")
    elif chosen.is_empty():
        note(f"none of the {table.height:,} runs in {folder.results} fulfils the conditions")
    else:
        _print_runs(chosen.to_dicts(), listing.wide, old)


def _print_runs(lines: list[dict[str, Any]], wide: bool, old: Collection[str] = ()) -> None:
    """Print the table of runs: the essential columns and the settings that differ, or all columns if it is `wide`.

    `old`: names of runs with older code than the present one.
    """
    from ape_cli.runs.listing import differing

    score = "validation_token_accuracy"
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "run": lambda line: line["run"],
        "set": lambda line: line["variant"],
        "status": lambda line: line["status"] + (", older code" if line["run"] in old else ""),
        "preset": lambda line: line["preset"],
        "dataset": lambda line: line["dataset"],
        "steps": lambda line: "" if line["steps"] is None else f"{line['steps']:,}",
        "seconds": lambda line: "" if line["seconds"] is None else f"{line['seconds']:,.0f}",
        "validation": lambda line: "" if line[score] is None else f"{line[score]:.2%}",
    }
    settings = differing(lines)
    columns = {name: partial(_setting, name) for name in settings} | columns
    told = settings if len(settings) <= _SETTINGS else ["set"]
    heads = list(columns) if wide else ["run", *told, "status", "validation"]
    numbers = ["steps", "seconds", "validation"]
    print_table(heads, [[columns[name](line) for name in heads] for line in lines], numbers)
    hint("validation: best accuracy on the validation split; `ape report` has the scores of the test split")
    if not wide:
        hint("--wide adds settings, preset, dataset, steps and seconds")


@command("ape rm copy-rope-42 --yes")
def rm(
    runs: Annotated[list[str], typer.Argument(help="Names of runs, or beginnings of names.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    *,
    folder: ResultsFolder,
    as_json: Json = False,
) -> None:
    """Remove runs. Everything in their folders is removed: weights, history, scores and logs.

    Nothing is removed if one of the names is wrong. Datasets stay.

    \f
    Raises `UsageError` for a name that no run has, and if --yes is missing where nobody can be asked.
    """
    from ape_cli.runs.registry import open_registry

    registry = open_registry(folder.results)
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
