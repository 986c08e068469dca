"""`ape sweep`: train and evaluate a grid of runs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ape_cli.cli._app import (
    DATASETS,
    RESULTS,
    Datasets,
    Json,
    Log,
    Results,
    command,
    dataset_folder,
    here,
    note_changed,
)
from ape_cli.cli._grid_options import given_fields, shard_of
from ape_cli.cli._help import EXECUTION, GRID
from ape_cli.cli.console import note
from ape_cli.cli.sweep_summary import print_end, print_plan
from ape_cli.core import runtime
from ape_cli.core.errors import UsageError, pick
from ape_cli.storage.paths import storage_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from ape_cli.cli.sweep_table import Watch
    from ape_cli.core.executors import Executor, Job
    from ape_cli.runs.record import OwnCode
    from ape_cli.runs.registry import Registry
    from ape_cli.storage.paths import StoragePath
    from ape_cli.sweep.planning import PlannedTrial
    from ape_cli.sweep.specification import SweepSpecification


@command("ape sweep --schemes sinusoidal,rope --tasks copy,reverse --seeds 42-44")
def sweep(
    file: Annotated[
        Path | None,
        typer.Argument(parser=here, metavar="FILE.toml", help="File with the grid. Options replace its fields."),
    ] = None,
    schemes: Annotated[
        str | None, typer.Option(help="Schemes, for example rope,orthogonal-seq.", rich_help_panel=GRID)
    ] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Tasks. Each has a dataset with the sizes of the preset.", rich_help_panel=GRID)
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="Existing dataset; may be repeated.", rich_help_panel=GRID)
    ] = None,
    orders: Annotated[
        str | None,
        typer.Option(help="Orders of the nodes of trees: breadth,depth,breadth-to-depth,…", rich_help_panel=GRID),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds, for example 42,43,44 or 42-44.", rich_help_panel=GRID)
    ] = None,
    structures: Annotated[
        str | None, typer.Option(help="Structures as which positions are read.", rich_help_panel=GRID)
    ] = None,
    attentions: Annotated[str | None, typer.Option(help="Kinds of attention.", rich_help_panel=GRID)] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="paper, medium, small or tiny. Default: paper on a GPU, else small.", rich_help_panel=GRID),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Precision: fp32, tf32 (only on GPUs) or bf16.", rich_help_panel=GRID)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=V,V",
            help="Values of a field of the configuration; may be repeated.",
            rich_help_panel=GRID,
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Where trials run: local (processes) or ray (a cluster).", rich_help_panel=EXECUTION)
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of trials at once. Default: as many as the machine has room for.", rich_help_panel=EXECUTION
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            help="local: CPU threads of each trial. Default: an equal share of the cores.", rich_help_panel=EXECUTION
        ),
    ] = None,
    retries: Annotated[
        int | None,
        typer.Option(help="Number of retries of a trial whose process or node dies.", rich_help_panel=EXECUTION),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="ray: address of a cluster. Default: start one on this machine.", rich_help_panel=EXECUTION),
    ] = None,
    cpus_per_trial: Annotated[
        float | None,
        typer.Option(metavar="CPUS", help="ray: CPUs of each trial. Default: 1.", rich_help_panel=EXECUTION),
    ] = None,
    gpus_per_trial: Annotated[
        float | None,
        typer.Option(
            metavar="GPUS",
            help="ray: GPUs of each trial. Default: 0; with 0.25, four trials share a GPU.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    trials_per_task: Annotated[
        int | None,
        typer.Option(
            metavar="TRIALS",
            help="ray: trials of each cluster task. Default: several if trials are short.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(
            "--shard", metavar="I/N", help="Only every N-th trial, starting with the I-th.", rich_help_panel=EXECUTION
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.", rich_help_panel=EXECUTION)
    ] = False,
    device: Annotated[str, typer.Option(help="Device: auto, cpu or cuda.", rich_help_panel=EXECUTION)] = "auto",
    compiled: Annotated[
        bool, typer.Option("--compile", help="Compile the model with torch.compile.", rich_help_panel=EXECUTION)
    ] = False,
    log: Log = None,
    results: Results = RESULTS,
    datasets: Datasets = DATASETS,
    as_json: Json = False,
) -> None:
    """Train and evaluate a grid of runs. Finished runs are skipped, and stopped runs are resumed.

    \f
    Raises `UsageError` if options are not valid, or if the grid has no trials.
    """
    runtime.share_cores()
    from ape_cli.core import executors
    from ape_cli.models.device import choose_device, gpu_count
    from ape_cli.models.precision import check_precision, remark
    from ape_cli.runs.registry import open_registry
    from ape_cli.sweep import planning, specification, worker
    from ape_cli.training import loggers

    given = given_fields(schemes, tasks, data, orders, seeds, structures, attentions, preset, precision, settings)
    grids = [
        specification.check(specification.over(fields, given))
        for fields in (specification.read(file) if file else [{}])
    ]
    # each node of a cluster chooses its own device
    where = choose_device(device if engine == "local" else "auto")
    pick("device", device, ["auto", "cpu", "cuda"])
    for name in log or []:
        loggers.load(name)
    registry = open_registry(results)
    kind = "cuda" if gpus_per_trial else where.type
    usual = "paper" if kind == "cuda" else "small"
    items = planning.shard(_trials(grids, usual, registry, datasets, kind), *shard_of(share))
    local_gpu = engine == "local" and where.type == "cuda"
    made = executors.make(
        engine,
        workers=gpu_count() if workers is None and local_gpu else workers,
        threads=threads,
        retries=retries,
        address=address,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial=gpus_per_trial,
        trials_per_task=planning.per_task(items) if trials_per_task is None and engine == "ray" else trials_per_task,
    )
    old = note_changed(_own_code(items))
    if dry_run:
        print_plan(items, made.slots, as_json, old)
        return
    if engine == "local":
        for one in grids:
            check_precision(one.precision, where)
        for known in sorted({remark(item.config.precision, where, item.config.d_model) for item in items} - {""}):
            note(known)
    items = planning.prepare(items, registry, datasets)
    watch = _work(items, made, lambda item: worker.job(item, registry, device, compiled, log or ()), local_gpu)
    print_end(items, watch.lines, registry, as_json)
    if watch.count("finished") < len(watch.lines):
        raise typer.Exit(1)


def _trials(
    grids: list[SweepSpecification], usual: str, registry: Registry, datasets: StoragePath, device: str
) -> list[PlannedTrial]:
    """The planned trials of the grids. Prints a note about each that is left out. `usual`: the default preset.

    Raises `UsageError` if no trial is left.
    """
    from ape_cli.sweep import planning

    if not all(one.preset for one in grids):
        note(f"preset: {usual}; --preset chooses another")
    items, left = planning.of_grids(
        grids, usual, registry, datasets, lambda d: dataset_folder(storage_path(d), datasets), device
    )
    for line in left:
        note(f"left out: {line}")
    if not items:
        raise UsageError("the sweep has no trials", got="; ".join(left), fix="choose schemes that can read the data")
    return items


def _own_code(items: list[PlannedTrial]) -> list[OwnCode]:
    """The user's own code with which trials of the sweep were trained."""
    from ape_cli.runs import record

    trained = [record.own_code(item.run.read()) for item in items if item.run and item.state in ("finished", "stopped")]
    return [code for code in trained if code is not None]


def _work(items: list[PlannedTrial], engine: Executor, job: Callable[[PlannedTrial], Job], local_gpu: bool) -> Watch:
    """Run all trials that are not finished, and show their progress.

    Trials that another process is running come last.
    """
    from ape_cli.cli import sweep_table
    from ape_cli.models.device import gpu_count
    from ape_cli.sweep.gpu_sharing import shared_gpu

    todo = sorted((item for item in items if item.state != "finished"), key=lambda item: item.state == "running")
    if todo:
        note(f"{sweep_table.trials(len(items))}: {len(items) - len(todo)} finished, {len(todo)} to do")
    else:
        verb = "is" if len(items) == 1 else "are"
        note(f"{sweep_table.trials(len(items))} {verb} trained already; nothing to do")
    jobs = [job(item) for item in todo]
    several = local_gpu and (engine.slots or 1) > gpu_count()
    with shared_gpu(several), sweep_table.watching(todo, engine.slots) as watch, closing(engine.work(jobs)) as events:
        for event in events if jobs else ():
            watch.heed(event)
    return watch
