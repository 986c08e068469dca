"""`ape gen`: generate a dataset. The options of tasks come from the tasks (`_task_options.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from ape_cli.cli import console
from ape_cli.cli._app import command
from ape_cli.cli._help import DATA, EXECUTION, EXISTING, OUTPUT, ROWS, TASKS
from ape_cli.cli._task_options import TaskCommand, given_options
from ape_cli.cli.console import answer, note, say
from ape_cli.cli.options import DATASETS, DatasetsFolder, Json, Place, option, path
from ape_cli.core.errors import UsageError


@dataclass(frozen=True)
class GenerationOptions:
    """What is generated, and how."""

    PANEL: ClassVar = ROWS
    n: int | None = option(
        "Number of training rows, of each size with --sizes. Default: 10,000; for images, all.", metavar="ROWS"
    )
    order: str | None = option("Order of the nodes of trees, breadth (default) or depth.", panel=DATA)
    source_order: str | None = option("Order of the nodes of source trees. Default: --order.", panel=DATA)
    seed: int = option("Seed of the random draws.", default=42)
    n_validation: int | None = option("Number of validation rows. Default: 1,000; for images, all.", metavar="ROWS")
    n_test: int | None = option("Number of test rows. Default: 1,000; for images, all.", metavar="ROWS")
    to: Place | None = path(
        "Folder of the dataset: a path, s3://… or gs://…. Default: TASK[-ORDER][-sizes-…] in --datasets.",
        "--out",
        panel=OUTPUT,
    )
    shard_rows: int = option("Maximum number of rows in a Parquet file.", default=32_768, panel=EXECUTION)
    workers: int | None = option(
        "Number of shards that are written at once. Default: 1; with ray, as many as fit.", panel=EXECUTION
    )
    engine: str = option(
        "Where shards are written: local (processes) or ray (a cluster).", default="local", panel=EXECUTION
    )
    address: str | None = option("Address of a ray cluster. Default: start one on this machine.", panel=EXECUTION)
    overwrite: bool = option("Replace another dataset in the folder.", default=False, panel=EXISTING)
    settings: list[str] | None = option(
        "Any option of the task; may be repeated.", "--set", metavar="KEY=VALUE", panel=TASKS
    )


@command("ape gen tree-rotate --order depth --n 5000", cls=TaskCommand)
def gen(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(help="Task to generate data for; `ape tasks` lists all.")],
    options: GenerationOptions,
    folder: DatasetsFolder,
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

    if options.to is not None and folder.datasets != DATASETS:
        both = f"--out {options.to} and --datasets {folder.datasets}"
        raise UsageError("--out already names the folder of the dataset", got=both, fix="leave one out")
    made = tasks.make(task, options.order, options.source_order, **given_options(ctx, options.settings or []))
    target = options.to or folder.datasets / made.title
    given_rows = {"train": options.n, "validation": options.n_validation, "test": options.n_test}
    wanted = generation.plan(made, seed=options.seed, rows=given_rows, shard_rows=options.shard_rows)
    rows, total = wanted.rows, sum(wanted.rows.values())
    alone = options.engine == "local" and options.workers in (None, 1) and options.address is None
    where = None if alone else executors.make(options.engine, workers=options.workers, address=options.address)
    with console.rows_bar(total) as tick:
        outcome = generation.generate(made, wanted, target, engine=where, overwrite=options.overwrite, tick=tick)
    notes = made.notes(options.seed)
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
                "dataset": str(target),
                "rows": rows,
                "written": outcome.written,
                "shared": outcome.shared,
                "notes": notes,
                "fingerprint": outcome.manifest.fingerprint,
            }
        )
    elif not outcome.written:
        say(f"{target}: complete and verified, nothing to do ({total:,} rows: {splits})")
    else:
        of = "" if outcome.written == total else f", of {total:,} in all"
        say(f"{target}: {outcome.written:,} rows written{of} ({splits})")
