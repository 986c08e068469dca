"""`ape gen`: generate a dataset. The options of tasks come from the tasks (`_task_options.py`)."""

from __future__ import annotations

from typing import Annotated

import typer

from ape_cli.cli import console
from ape_cli.cli._app import DATASETS, Datasets, Json, Somewhere, command, somewhere
from ape_cli.cli._help import DATA, EXECUTION, EXISTING, OUTPUT, ROWS, TASKS
from ape_cli.cli._task_options import TaskCommand, given_options, named_as_options
from ape_cli.cli.console import answer, note, say
from ape_cli.core.errors import UsageError


@command("ape gen tree-rotate --order depth --n 5000", cls=TaskCommand)
def gen(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(help="Task to generate data for; `ape tasks` lists all.")],
    n: Annotated[
        int | None,
        typer.Option(
            "--n",
            metavar="ROWS",
            help="Number of training rows, of each size with --sizes. Default: 10,000; for images, all.",
            rich_help_panel=ROWS,
        ),
    ] = None,
    order: Annotated[
        str | None, typer.Option(help="Order of the nodes of trees, breadth (default) or depth.", rich_help_panel=DATA)
    ] = None,
    source_order: Annotated[
        str | None, typer.Option(help="Order of the nodes of source trees. Default: --order.", rich_help_panel=DATA)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random draws.", rich_help_panel=ROWS)] = 42,
    n_validation: Annotated[
        int | None,
        typer.Option(
            metavar="ROWS", help="Number of validation rows. Default: 1,000; for images, all.", rich_help_panel=ROWS
        ),
    ] = None,
    n_test: Annotated[
        int | None,
        typer.Option(
            metavar="ROWS", help="Number of test rows. Default: 1,000; for images, all.", rich_help_panel=ROWS
        ),
    ] = None,
    to: Annotated[
        Somewhere | None,
        somewhere(
            "Folder of the dataset: a path, s3://… or gs://…. Default: TASK[-ORDER][-sizes-…] in --datasets.",
            "--out",
            group=OUTPUT,
        ),
    ] = None,
    shard_rows: Annotated[
        int, typer.Option(help="Maximum number of rows in a Parquet file.", rich_help_panel=EXECUTION)
    ] = 32_768,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of shards that are written at once. Default: 1; with ray, as many as fit.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(help="Where shards are written: local (processes) or ray (a cluster).", rich_help_panel=EXECUTION),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Address of a ray cluster. Default: start one on this machine.", rich_help_panel=EXECUTION),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another dataset in the folder.", rich_help_panel=EXISTING)
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any option of the task; may be repeated.", rich_help_panel=TASKS
        ),
    ] = None,
    datasets: Datasets = DATASETS,
    as_json: Json = False,
) -> None:
    """Generate a dataset of Parquet files. It also has a manifest and a dataset card.

    `ape gen TASK --help` shows only the options that apply to one task.

    \f
    Raises `UsageError` if options are not valid or do not fit together.
    """
    from ape_cli import tasks
    from ape_cli.core import executors
    from ape_cli.data import generation

    if to is not None and datasets != DATASETS:
        both = f"--out {to} and --datasets {datasets}"
        raise UsageError("--out already names the folder of the dataset", got=both, fix="leave one out")
    with named_as_options(task):
        made = tasks.make(task, order, source_order, **given_options(ctx, settings or []))
    folder = to or datasets / made.title
    given_rows = {"train": n, "validation": n_validation, "test": n_test}
    wanted = generation.plan(made, seed=seed, rows=given_rows, shard_rows=shard_rows)
    rows, total = wanted.rows, sum(wanted.rows.values())
    alone = engine == "local" and workers in (None, 1) and address is None
    where = None if alone else executors.make(engine, workers=workers, address=address)
    with console.rows_bar(total) as tick:
        outcome = generation.generate(made, wanted, folder, engine=where, overwrite=overwrite, tick=tick)
    notes = made.notes(seed)
    if none := [split for split, count in given_rows.items() if count is None and not rows[split]]:
        note(f"no rows of {' and '.join(none)}: the source has too little to hold some out")
    for line in notes:
        note(line)
    if outcome.shared:
        note(f"{outcome.shared:,} rows have a source that may also be in another split")
    splits = ", ".join(f"{count:,} {split}" for split, count in rows.items() if count)
    if as_json:
        answer(
            {
                "dataset": str(folder),
                "rows": rows,
                "written": outcome.written,
                "shared": outcome.shared,
                "notes": notes,
                "fingerprint": outcome.manifest.fingerprint,
            }
        )
    elif not outcome.written:
        say(f"{folder}: complete and verified, nothing to do ({total:,} rows: {splits})")
    else:
        of = "" if outcome.written == total else f", of {total:,} in all"
        say(f"{folder}: {outcome.written:,} rows written{of} ({splits})")
