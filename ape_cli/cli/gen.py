"""`ape gen`: a dataset."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ape_cli.cli import console
from ape_cli.cli._app import DATASETS, Json, Somewhere, app, command, somewhere
from ape_cli.cli.console import answer, note, say
from ape_cli.core.errors import UsageError

if TYPE_CHECKING:
    from ape_cli.tasks import Task
    from ape_cli.tasks._images import Images


@app.command()
@command
def gen(
    task: Annotated[str, typer.Argument(help="What to generate (`ape tasks` lists them).")],
    n: Annotated[
        int | None,
        typer.Option(
            "--n", help="Training rows (with --sizes: of each); default 10,000, of images all that there are."
        ),
    ] = None,
    order: Annotated[str | None, typer.Option(help="Trees: order of the nodes, breadth (default) or depth.")] = None,
    source_order: Annotated[str | None, typer.Option(help="Trees: order of the source's; default --order.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random draws.")] = 42,
    n_validation: Annotated[
        int | None, typer.Option(help="Validation rows; default 1,000, of images all that are held out.")
    ] = None,
    n_test: Annotated[int | None, typer.Option(help="Test rows; default 1,000, of images all.")] = None,
    to: Annotated[
        Somewhere | None,
        somewhere("A folder, s3://…, gs://…; default datasets/TASK[-ORDER][-sizes-…], images-SOURCE.", "--out"),
    ] = None,
    shard_rows: Annotated[int, typer.Option(help="Rows of a Parquet file.")] = 32_768,
    workers: Annotated[
        int | None, typer.Option(help="Shards at once; default one (ray: all there is room for).")
    ] = None,
    engine: Annotated[str, typer.Option(help="local: processes; ray: tasks of a cluster.")] = "local",
    address: Annotated[str | None, typer.Option(help="ray: of a cluster; default one of our own.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another dataset there.")] = False,
    length_mean: Annotated[float | None, typer.Option(help="Words: mean length (paper: 100).")] = None,
    length_std: Annotated[float | None, typer.Option(help="Words: its deviation (paper: 10).")] = None,
    depth_mean: Annotated[float | None, typer.Option(help="Trees: mean depth (paper: 7).")] = None,
    depth_std: Annotated[float | None, typer.Option(help="Trees: its deviation (paper: 1).")] = None,
    vocabulary: Annotated[int | None, typer.Option(help="Symbols (paper: 20; tree-ops 128).")] = None,
    repeats: Annotated[int | None, typer.Option(help="repeat: how often (paper: 2).")] = None,
    branching: Annotated[int | None, typer.Option(help="Trees: children of a node (paper: 2).")] = None,
    binarise: Annotated[bool, typer.Option("--binarise", help="Trees: stored left child, right sibling.")] = False,
    side_mean: Annotated[float | None, typer.Option(help="Grids: mean height and width (default 10).")] = None,
    side_std: Annotated[float | None, typer.Option(help="Grids: their deviation (default 1).")] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="30,40,60",
            help="Lengths, depths or sides of squares, instead of a normal distribution: --n, --n-validation and "
            "--n-test rows of each.",
        ),
    ] = None,
    ring: Annotated[int | None, typer.Option(help="ring-shift: places of the ring (default 20).")] = None,
    source: Annotated[
        str | None,
        typer.Option(help="images: a CIFAR archive or its folder, Parquet (a file or folder), or digits."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="images: which labels, where there are several.")] = None,
    shuffled: Annotated[bool, typer.Option("--shuffled", help="images: each one's pixels in another order.")] = False,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any task option.")] = None,
    as_json: Json = False,
) -> None:
    """Generate a dataset: shards, manifest, dataset card."""
    from ape_cli import tasks
    from ape_cli.core import executors
    from ape_cli.data import generation
    from ape_cli.runs.config import parse_settings
    from ape_cli.tasks import _images

    options = {
        "length_mean": length_mean,
        "length_std": length_std,
        "depth_mean": depth_mean,
        "depth_std": depth_std,
        "vocabulary": vocabulary,
        "repeats": repeats,
        "branching": branching,
        "binarise": binarise or None,
        "side_mean": side_mean,
        "side_std": side_std,
        "sizes": None if sizes is None else _sizes(sizes),
        "ring": ring,
        "source": source,
        "label": label,
        "shuffled": shuffled or None,
    }
    given = {k: v for k, v in options.items() if v is not None}
    more = parse_settings(settings or [])
    if own := next((key for key in ("order", "source_order") if key in more), None):
        option = f"--{own.replace('_', '-')}"
        fix = f"write {option} {more[own]}"
        raise UsageError(f"{own} has an option of its own", got=f"--set {own}={more[own]}", fix=fix)
    if twice := sorted(given.keys() & more.keys()):
        both = f"{given[twice[0]]} and {more[twice[0]]}"
        raise UsageError(f"{twice[0]} is given twice", got=both, fix="give it once, as an option or with --set")
    make = _images.make if task == _images.NAME else partial(tasks.make, task)
    made: Task | Images = make(order, source_order, **given, **more)
    folder = to or DATASETS / made.title
    given_rows = {"train": n, "validation": n_validation, "test": n_test}
    wanted = generation.plan(made, seed=seed, rows=given_rows, shard_rows=shard_rows)
    rows, total = wanted.rows, sum(wanted.rows.values())
    alone = engine == "local" and workers in (None, 1) and address is None
    where = None if alone else executors.make(engine, workers=workers, address=address)
    with console.rows_bar(total) as tick:
        outcome = generation.generate(made, wanted, folder, engine=where, overwrite=overwrite, tick=tick)
    if none := [split for split, count in given_rows.items() if count is None and not rows[split]]:
        note(f"no rows of {' and '.join(none)}: the source has too few images to hold some out")
    if outcome.shared:
        note(f"{outcome.shared:,} rows: {made.why_shared}")
    if as_json:
        answer(
            {
                "dataset": str(folder),
                "rows": rows,
                "written": outcome.written,
                "shared": outcome.shared,
                "fingerprint": outcome.manifest.fingerprint,
            }
        )
    elif not outcome.written:
        say(f"{folder}: complete and verified, nothing to do ({total:,} rows)")
    else:
        of = "" if outcome.written == total else f", of {total:,} in all"
        say(f"{folder}: {outcome.written:,} rows written{of}")


def _sizes(text: str) -> list[int]:
    """The numbers of `--sizes 30,40,60`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        allowed = "whole numbers, separated by commas"
        raise UsageError("bad --sizes", got=repr(text), allowed=allowed, fix="for example --sizes 30,40,60")
    return [int(part) for part in parts]
