"""`ape gen`: generate a dataset.

The options of a task come from the task itself (`tasks.options_of`), so a new task brings its own options.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from ape_cli.cli import console
from ape_cli.cli._app import Command, command, last_word
from ape_cli.cli.console import print_json, print_note, print_result, shown
from ape_cli.cli.options import (
    DATA,
    DATASETS,
    EXECUTION,
    EXISTING,
    OUTPUT,
    ROWS,
    TASKS,
    AnyPath,
    DatasetsFolder,
    Json,
    flag,
    option,
    path,
    refuse_idle,
)
from ape_cli.core.errors import ApeError, UsageError
from ape_cli.core.plugins import locations

if TYPE_CHECKING:
    from ape_cli.tasks import TaskOption


@dataclass(frozen=True)
class GenerationOptions:
    """What is generated, and how."""

    PANEL: ClassVar = ROWS
    n: int | None = option(
        "Training rows; with --sizes, of each size. Default: 10,000 in all, or all images.", metavar="ROWS"
    )
    order: str | None = option("Node order of trees: breadth (default), depth, breadth-to-depth, …", panel=DATA)
    source_order: str | None = option("Node order of source trees. Default: --order.", panel=DATA)
    seed: int = option("Random seed.", default=42)
    n_validation: int | None = option(
        "Validation rows; with --sizes, of each size. Default: 1,000 in all, or all images.", metavar="ROWS"
    )
    n_test: int | None = option(
        "Test rows; with --sizes, of each size. Default: 1,000 in all, or all images.", metavar="ROWS"
    )
    to: AnyPath | None = path(
        "Folder of the dataset: a path, s3://… or gs://…. Default: TASK[-ORDER][-sizes-…] in --datasets.",
        "--out",
        panel=OUTPUT,
    )
    shard_rows: int = option("Maximum number of rows in a Parquet file.", default=32_768, panel=EXECUTION)
    workers: int | None = option(
        "Number of shards written in parallel. Default: 1; with ray, as many as fit.", panel=EXECUTION
    )
    engine: str = option(
        "Where shards are written: local (processes) or ray (a cluster).", default="local", panel=EXECUTION
    )
    address: str | None = option("Address of a ray cluster. Default: start one on this machine.", panel=EXECUTION)
    overwrite: bool = option("Replace an existing dataset in the folder.", default=False, panel=EXISTING)
    settings: list[str] | None = option(
        "Set an option of the task (`ape tasks TASK` lists them); may be repeated.",
        "--set",
        metavar="KEY=VALUE",
        panel=TASKS,
    )


_KEY = "ape_cli.task_options"


class TaskCommand(Command):
    """A command with the options of a task beside its own. `given_options` returns their values.

    The task is the one that the command line names, so that no other has to be loaded.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. An unknown task is reported before its options."""
        if not any(word in locations("ape_cli.tasks") for word in args):
            ctx.ignore_unknown_options = ctx.allow_extra_args = True
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """The command's parameters, the options of the task, then `--help`."""
        params = super().get_params(ctx)
        names = [word for word in ctx.meta.get(self.WORDS, ()) if word in locations("ape_cli.tasks")]
        if not names:
            return params
        from ape_cli import tasks

        flags = {name for parameter in params for name in parameter.opts}
        options: dict[str, TaskOption] = {}
        for name in names:  # several, if a file or a folder has the name of a task
            with suppress(ApeError):  # its file may be broken; an error follows if its data is asked for
                options |= tasks.options_of(tasks.load(name))
        return [*params[:-1], *_options(item for item in options.values() if flag(item.name) not in flags), params[-1]]


@command("ape gen tree-rotate --order depth --n 5000", cls=TaskCommand)
def gen(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(help="Task to generate data for; `ape tasks` lists all.")],
    options: GenerationOptions,
    folder: DatasetsFolder,
    as_json: Json = False,
) -> None:
    """Generate a dataset: Parquet files, a manifest and a card.

    \f
    Raises `UsageError` if options are not valid or do not fit together.
    """
    from ape_cli import tasks
    from ape_cli.core import executors
    from ape_cli.data import generation, overlap

    chosen = tasks.make(task, **given_options(ctx, options))
    source = f"with {task}, whose source is read by one process"
    refuse_idle(
        (options.to is not None and folder.datasets != DATASETS, "--datasets", f"with --out {options.to}"),
        (chosen.fixed_rows and options.workers not in (None, 1), "--workers", source),
        (chosen.fixed_rows and options.engine != "local", "--engine", source),
    )
    given_rows = {"train": options.n, "validation": options.n_validation, "test": options.n_test}
    plan = generation.plan(chosen, seed=options.seed, rows=given_rows, shard_rows=options.shard_rows)
    target = options.to or generation.titled_folder(folder.datasets, chosen, plan)
    rows, total = plan.rows, sum(plan.rows.values())
    alone = options.engine == "local" and options.workers in (None, 1) and options.address is None
    where = None if alone else executors.make(options.engine, workers=options.workers, address=options.address)
    with console.rows_bar(total) as tick:
        outcome = generation.generate(chosen, plan, target, engine=where, overwrite=options.overwrite, tick=tick)
    notes = chosen.notes(options.seed)
    if none := [split for split, count in given_rows.items() if count is None and not rows[split]]:
        more = "; with `labels=token`, more of them differ" * (getattr(chosen, "labels", "") == "kind")
        print_note(f"no rows of {' and '.join(none)}: the source has too few different rows to hold some out{more}")
    for line in notes:
        print_note(line)
    overlaps = overlap.of_dataset(outcome.folder, outcome.manifest)
    if line := overlaps.words(plan):
        print_note(f"overlap: {line}")
    splits = ", ".join(f"{count:,} {split}" for split, count in rows.items() if count)
    if as_json:
        result = {"dataset": str(target), "rows": rows, "written": outcome.written, "overlap": overlaps.rows}
        result |= {"overlap_sizes": overlaps.sizes, "notes": notes, "fingerprint": outcome.manifest.fingerprint}
        print_json(result)
    elif not outcome.written:
        print_result(f"{target}: complete and verified, nothing to do ({total:,} rows: {splits})")
    else:
        of = "" if outcome.written == total else f", of {total:,} in all"
        print_result(f"{target}: {outcome.written:,} rows written{of} ({splits})")


def given_options(ctx: typer.Context, options: GenerationOptions) -> dict[str, Any]:
    """The orders and the options of the task that the command line gives, as options of their own or with --set.

    Raises `UsageError` if an option is given twice, or if one of the task has the name of one of the command.
    """
    from ape_cli import tasks
    from ape_cli.runs.config import parse_settings

    orders = {"order": options.order, "source_order": options.source_order}
    single: dict[str, Any] = {name: value for name, value in orders.items() if value is not None}
    for name, (option_type, text) in ctx.meta.get(_KEY, {}).items():
        plain = option_type in ("bool", "str") or option_type.startswith("tuple")
        single[name] = text if plain else parse_settings([f"{name}={text}"])[name]
    settings = parse_settings(options.settings or [])
    if twice := sorted(single.keys() & settings.keys()):
        both = f"{single[twice[0]]} and {settings[twice[0]]}"
        raise UsageError(f"{twice[0]} is given twice", got=both, fix="give it once, as an option or with --set")
    task_options = tasks.options_of(tasks.load(ctx.params["task"]))
    own = {name for parameter in ctx.command.params for name in parameter.opts}
    if taken := [name for name in task_options if flag(name) in own]:
        what = f"an option of task {ctx.params['task']} has the name of an option of the command"
        raise UsageError(what, got=taken[0], fix="rename it in the file of the task")
    floats = {name for name, item in task_options.items() if item.kind == "float"}
    # so that the manifest says 8.0, however the number was typed
    return {k: float(v) if k in floats and type(v) is int else v for k, v in (single | settings).items()}


def _options(items: Iterable[TaskOption]) -> list[Any]:
    """The options of the command line for options of a task."""

    def function(**values: Any) -> None: ...

    parameters = [_parameter(item) for item in items]
    function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # Typer makes options from it
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command = typer.Typer(add_completion=False)
    command.command()(function)
    return list(typer.main.get_command(command).params)


def _parameter(item: TaskOption) -> Parameter:
    """The parameter of a function for an option of a task, which checks the value itself."""

    def keep(ctx: typer.Context, value: Any) -> None:
        if value is not None:
            ctx.meta.setdefault(_KEY, {})[item.name] = item.kind, value

    about = typer.Option(
        flag(item.name),
        help=item.help + ("" if item.default in (None, (), False) else f" [default {shown(item.default)}]"),
        show_default=False,
        metavar="1-20,30" if item.kind.startswith("tuple") else None if item.kind == "bool" else last_word(item.name),
        rich_help_panel=TASKS,
        expose_value=False,  # the function of the command does not know the options of tasks
        callback=keep,
    )
    annotation = Annotated[(bool if item.kind == "bool" else str) | None, about]  # type: ignore[valid-type]
    # some names, such as `from`, are no names of parameters
    return Parameter(f"option_{item.name}", Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
