"""Commands that list or show something: tasks, schemes, attentions, laws, runs and samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from ape_cli.cli import console, law_listings, listings
from ape_cli.cli._app import (
    DATASETS,
    RESULTS,
    Dataset,
    Datasets,
    Json,
    Presets,
    Results,
    Schemes,
    Tasks,
    Threads,
    command,
    existing_dataset,
    note_changed,
    note_unreadable,
)
from ape_cli.cli._help import RUNS
from ape_cli.cli.console import answer, draw, note, say
from ape_cli.core import runtime
from ape_cli.core.errors import UsageError


@command("ape tasks tree-rotate")
def tasks(
    names: Annotated[list[str] | None, typer.Argument(help="Names of tasks. Default: a list of all.")] = None,
    as_json: Json = False,
) -> None:
    """List the tasks, or describe some of them with their options.

    \f
    Raises `UsageError` for an unknown task.
    """
    from ape_cli.tasks import load

    lines = _named("task", listings.tasks(), names, load)
    if as_json:
        answer(lines)
    elif names:
        for number, line in enumerate(lines):
            if number:
                say("")
            listings.print_task(line)
    else:
        listings.print_tasks(lines)


@command("ape schemes rope alibi --wide")
def schemes(
    names: Annotated[list[str] | None, typer.Argument(help="Names of schemes. Default: all.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure time and memory, compared with `none` (takes a minute).")
    ] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Show all properties.")] = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """List all positional encoding schemes or some of them.

    \f
    Raises `UsageError` for an unknown scheme, or if --threads is given without --measure.
    """
    if measure:
        from ape_cli.models.device import choose_device

        choose_device("cpu", threads)
    elif threads is not None:
        raise UsageError(
            "--threads has an effect only on measurements", got=f"--threads {threads}", fix="add --measure"
        )
    from ape_cli import position

    lines = _named("scheme", listings.schemes(), names, position.load)
    if measure:
        listings.measure(lines, console.ticker())
    answer(lines) if as_json else listings.print_schemes(lines, wide)


@command("ape attentions clustered linear")
def attentions(
    names: Annotated[list[str] | None, typer.Argument(help="Names of kinds of attention. Default: all.")] = None,
    as_json: Json = False,
) -> None:
    """List all kinds of attention or some of them.

    \f
    Raises `UsageError` for an unknown kind of attention.
    """
    from ape_cli import attention

    lines = _named("attention", listings.attentions(), names, attention.load)
    answer(lines) if as_json else listings.print_attentions(lines)


def _named(kind: str, lines: listings.Lines, names: list[str] | None, load: Callable[[str], object]) -> listings.Lines:
    """The lines of the given names in their order, without repetitions; all lines if no name is given.

    Each line has its name in the field `kind`. Raises the error of `load` for an unknown or damaged one.
    """
    by_name = {line[kind]: line for line in lines}
    for name in names or ():
        load(name)
    return [by_name[name] for name in dict.fromkeys(names)] if names else lines


@command("ape check rope")
def check(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of schemes or kinds of attention. Default: all.")
    ] = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Measure the laws that schemes and kinds of attention claim. Exits with 1 if one does not hold."""
    runtime.share_cores()
    import dataclasses

    from ape_cli.models.device import choose_device

    choose_device("cpu", threads)
    found = law_listings.findings(names or [], console.ticker())
    if as_json:
        answer([dataclasses.asdict(f) for f in found])
    else:
        law_listings.print_findings(found)
    if not all(f.holds for f in found):
        raise typer.Exit(1)


@command("ape runs --filter status=finished --sort validation --descending", option="--filter run~")
def runs(
    scheme: Schemes = None,
    task: Tasks = None,
    preset: Presets = None,
    conditions: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="CONDITION",
            help="Only runs that fulfil a condition on a column, for example status=failed, steps>=800 or "
            "dataset~tree (contains); may be repeated.",
            rich_help_panel=RUNS,
        ),
    ] = None,
    sort: Annotated[str | None, typer.Option(metavar="COLUMN", help="Sort by a column. Default: run.")] = None,
    descending: Annotated[bool, typer.Option("--descending", help="Sort from the highest to the lowest.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Show all columns.")] = False,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """List the registered runs.

    --filter and --sort know the columns of --json, also with hyphens, and `validation`.

    \f
    Raises `UsageError` for an unknown column or a bad condition.
    """
    from ape_cli.runs import filters, selection
    from ape_cli.runs.registry import open_registry

    registry = open_registry(results).where(filters.make(scheme, task, preset))
    found, bad = registry.table()
    note_unreadable(bad)
    old = note_changed(registry.own_code.values())
    there = found.height
    found = selection.arranged(selection.selected(found, conditions or []), sort or "run", descending=descending)
    if as_json:
        answer(found.to_dicts())
        return
    if there and found.is_empty():
        note(f"none of the {there:,} runs in {results} fulfils the conditions")
        return
    if found.is_empty():
        note(f"no runs in {results} yet; `ape train --scheme rope --task copy` trains one")
        return
    listings.print_runs(found.to_dicts(), wide, old)


@command("ape show tree-rotate-depth --row 3")
def show(
    data: Dataset,
    row: Annotated[int, typer.Option(help="Row number in the split, from 0.")] = 0,
    split: Annotated[str, typer.Option(help="Split: train, validation or test.")] = "train",
    datasets: Datasets = DATASETS,
    as_json: Json = False,
) -> None:
    """Show a sample of a dataset in readable form."""
    from ape_cli.cli import sample

    found = sample.read(existing_dataset(data, datasets), split, row)
    if as_json:
        answer(found.raw)
    else:
        draw(found.drawn())
