"""`ape runs` and `ape rm`: list the registered runs, and remove some of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from ape_cli.cli._app import command, note_changed
from ape_cli.cli.console import print_hint, print_json, print_note, print_result, print_table
from ape_cli.cli.options import (
    OTHER,
    OUTPUT,
    AnyPath,
    Json,
    ResultsFolder,
    RunFilter,
    flags_of,
    option,
    path,
    refuse_idle,
)
from ape_cli.cli.sweep import sweep_runs
from ape_cli.core.errors import RunError, UsageError
from ape_cli.core.numbers import counted

if TYPE_CHECKING:
    from ape_cli.runs.run import Run
    from ape_cli.storage.paths import StoragePath


@dataclass(frozen=True)
class ListingOptions:
    """Which runs are listed, and how."""

    PANEL: ClassVar = OTHER
    sort: str | None = option("Sort by a column. Default: run.", metavar="COLUMN")
    descending: bool = option("Sort in descending order.", default=False)
    wide: bool = option("Show all columns.", default=False)


@dataclass(frozen=True)
class PackingOptions:
    """Runs in one file."""

    PANEL: ClassVar = OUTPUT
    pack: AnyPath | None = path(
        "Add the finished runs that are listed to one file, without weights. Runs already in the file are kept.",
        metavar="FILE.parquet",
    )
    unpack: AnyPath | None = path(
        "Add the runs of such a file to --results after checking their SHA-256.", metavar="FILE.parquet"
    )


@command("ape runs --filter status=finished --sort validation --descending")
def runs(
    which: RunFilter, listing: ListingOptions, packing: PackingOptions, folder: ResultsFolder, as_json: Json = False
) -> None:
    """List the runs, or pack them into one file.

    --filter and --sort accept the columns of --json, also written with hyphens, and `validation`.

    \f
    Raises `UsageError` for an unknown column, a bad condition, or a file without the extension of packed runs.
    """
    from ape_cli.runs import filters
    from ape_cli.runs.registry import open_registry

    if packing.unpack is not None:
        given = [*flags_of(which), *flags_of(listing), *(["--pack"] if packing.pack else [])]
        refuse_idle(*((True, flag, "with --unpack, which adds all runs of a file") for flag in given))
        _unpack(packing.unpack, folder.results, as_json)
        return
    if packing.pack is not None:
        refuse_idle(*((True, flag, "with --pack, which prints no table") for flag in flags_of(listing)))
    wanted = filters.make(which.scheme, which.task, which.preset)
    registry, _ = sweep_runs(which.sweep, wanted, open_registry(folder.results))
    table = registry.runs()
    old = note_changed(registry.user_code.values())
    chosen = filters.selected(table, which.conditions or [])
    chosen = filters.arranged(chosen, listing.sort or "run", descending=listing.descending)
    if packing.pack is not None:
        _pack(packing.pack, [*registry.only(chosen.filter(status="finished")["run"])], chosen.height, as_json)
    elif as_json:
        print_json(chosen.to_dicts())
    elif table.is_empty():
        print_note(f"no runs in {folder.results} yet; `ape train --scheme rope --task copy` trains one")
    elif chosen.is_empty():
        print_note(f"none of the {table.height:,} runs in {folder.results} meets the conditions")
    else:
        _print_runs(chosen.to_dicts(), listing.wide, old)


def _pack(file: StoragePath, finished: list[Run], listed: int, as_json: bool) -> None:
    """Pack runs into a file. Raises `UsageError` if there are none, or if the file has another extension."""
    from ape_cli.runs import packing

    if file.suffix != packing.SUFFIX:
        raise UsageError("bad name of a file of runs", got=str(file), allowed=f"a name that ends in {packing.SUFFIX}")
    if not finished:
        raise UsageError("no run to pack", got=f"{listed} listed, none finished", fix="`ape runs` lists all")
    total, refused = packing.pack(file, finished)
    packed = len(finished) - len(refused)
    if as_json:
        print_json({"packed": packed, "contains": total, "refused": refused})
    else:
        print_result(f"packed: {counted(packed, 'run')} without weights; {file} contains {total:,}")
    if listed > len(finished):
        print_note(f"left out: {counted(listed - len(finished), 'run')} not finished")
    _end_if_refused(refused)


def _unpack(file: StoragePath, results: StoragePath, as_json: bool) -> None:
    """Add the runs of a file to a folder of results."""
    from ape_cli.runs import packing

    written, present, refused = packing.unpack(file, results)
    if as_json:
        print_json({"unpacked": written, "present": present, "refused": refused})
    else:
        already = f"; {present:,} were there already" if present else ""
        print_result(f"unpacked: {counted(written, 'run')} to {results}{already}")
    _end_if_refused(refused)


def _end_if_refused(refused: list[str]) -> None:
    """Name the runs that were refused, if there are any, and end with status 1."""
    for line in refused:
        print_note(f"refused: {line}")
    if refused:
        raise typer.Exit(1)


def _print_runs(lines: list[dict[str, Any]], wide: bool, old: Collection[str]) -> None:
    """Print the table of runs: the essential columns, or all if it is `wide`.

    `old`: names of runs with older code than the present one.
    """
    score = "validation_token_accuracy"
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "run": lambda line: line["run"],
        "variant": lambda line: line["variant"],
        "status": lambda line: line["status"] + (", older code" if line["run"] in old else ""),
        "preset": lambda line: line["preset"],
        "dataset": lambda line: line["dataset"],
        "steps": lambda line: "" if line["steps"] is None else f"{line['steps']:,}",
        "seconds": lambda line: "" if line["seconds"] is None else f"{line['seconds']:,.0f}",
        "validation": lambda line: "" if line[score] is None else f"{line[score]:.2%}",
    }
    heads = list(columns) if wide else ["run", "variant", "status", "validation"]
    rows = [[columns[name](line) for name in heads] for line in lines]
    print_table(heads, rows, numbers=["steps", "seconds", "validation"])
    print_hint("validation: best accuracy on the validation split; `ape report` has the scores of the test split")
    if not wide:
        print_hint("--wide adds preset, dataset, steps and seconds")


@command("ape rm copy-rope-42 --yes")
def rm(
    runs: Annotated[list[str], typer.Argument(help="Names of runs, or prefixes of names.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    *,
    folder: ResultsFolder,
    as_json: Json = False,
) -> None:
    """Remove runs: their weights, histories, scores and logs.

    If a name is wrong, nothing is removed. Datasets are kept.

    \f
    Raises `UsageError` for a name that no run has, and if --yes is missing where nobody can be asked.
    """
    from ape_cli.runs.registry import open_registry

    registry = open_registry(folder.results)
    named = {run.name: run for run in map(registry.find, runs)}.values()
    for run in named:
        try:
            print_note(f"{run.name} ({run.status})")
        except RunError as error:  # a damaged run can be removed too
            print_note(f"{run.name} (damaged: {error.summary})")
    count = counted(len(named), "run")
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"cannot ask for confirmation to remove {count}", got="no terminal", fix="add --yes")
        if not typer.confirm(f"remove {count}?", err=True):
            print_note("nothing was removed")
            raise typer.Exit(1)
    removed: list[str] = []
    try:
        for run in named:
            run.delete()
            removed.append(run.name)
            if not as_json:
                print_result(f"removed: {run.folder}")
    finally:  # also if another process trains one of them
        if as_json:
            print_json({"removed": removed})
