"""`ape sweep`: train and evaluate a grid of runs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from ape_cli.cli._app import command, dataset_folder, note_changed
from ape_cli.cli.console import print_note
from ape_cli.cli.options import (
    DATASETS,
    DECODE,
    GENERALISE,
    GRID,
    PRECISION,
    PRESET,
    SCORES,
    SIZES,
    TRAINING_ROWS,
    ExecutionOptions,
    Folders,
    Json,
    here,
    option,
)
from ape_cli.cli.sweep_output import print_end, print_plan, watching
from ape_cli.core import runtime
from ape_cli.core.errors import ApeError, UsageError, brief, pick
from ape_cli.core.numbers import counted
from ape_cli.storage.paths import storage_path

if TYPE_CHECKING:
    from ape_cli.cli.sweep_output import Line
    from ape_cli.core.executors import Executor
    from ape_cli.runs.filters import Filter
    from ape_cli.runs.registry import Registry
    from ape_cli.storage.paths import StoragePath
    from ape_cli.sweep.planning import PlannedTrial
    from ape_cli.sweep.specification import SweepSpec
    from ape_cli.sweep.stages import Stages


_SINGLE = ("suite", "preset", "precision", "sizes", "rows", "generalise", "decode")  # fields that are no lists


@dataclass(frozen=True)
class GridOptions:
    """The grid. Its fields replace those of a file."""

    PANEL: ClassVar = GRID
    schemes: str | None = option("Schemes, such as rope,orthogonal-seq.")
    tasks: str | None = option(
        "Tasks, such as copy,'modular kind=parity'. Their datasets are generated with the sizes of the preset."
    )
    suite: str | None = option("All tasks of a suite: chomsky, mad, or FILE.toml.")
    data: list[str] | None = option("An existing dataset; may be repeated.")
    sizes: str | None = option(SIZES)
    rows: int | None = option(TRAINING_ROWS)
    orders: str | None = option("Node orders of trees: breadth,depth,breadth-to-depth,…")
    seeds: str | None = option("Seeds, such as 42,43,44 or 42-44.")
    structures: str | None = option("Structures that positions are read as, such as seq*tree(2).")
    attentions: str | None = option("Kinds of attention.")
    positions: str | None = option("Maps of positions, such as plain,randomised.")
    models: str | None = option("Models: encoder-decoder,decoder.")
    preset: str | None = option(PRESET)
    precision: str | None = option(PRECISION)
    settings: list[str] | None = option(
        "Values of a configuration field, one trial each; may be repeated.", "--set", metavar="KEY=V,V"
    )
    generalise: str | None = option(GENERALISE, metavar="[SIZES]", panel=SCORES)
    decode: str | None = option(DECODE, panel=SCORES)
    tune: list[str] | None = option(
        "Values to try for a field. Each scheme keeps the one with the best validation score. May be repeated.",
        metavar="KEY=V,V",
    )
    trials: int | None = option("tune: try only this many random combinations of the values. Default: all.")
    tune_seeds: str | None = option(
        "tune: seeds of the search. The other --seeds train only the chosen setting. Default: all."
    )

    def spec(self) -> SweepSpec:
        """The fields of a grid that are given. Raises `UsageError` if one is not valid."""
        from ape_cli.core.numbers import whole_numbers
        from ape_cli.runs.config import outside_quotes, parse_values
        from ape_cli.sweep.specification import layer

        lists = ("schemes", "tasks", "orders", "structures", "attentions", "positions", "models")
        tune = {
            "set": parse_values(self.tune or [], "tune") or None,
            "trials": self.trials,
            "seeds": None if self.tune_seeds is None else whole_numbers("tune_seeds", self.tune_seeds),
        }
        fields = {
            name: list(dict.fromkeys(part.strip() for part in outside_quotes(",", text) if part.strip()))
            for name in lists
            if (text := getattr(self, name)) is not None
        } | {
            "data": self.data or None,
            "seeds": None if self.seeds is None else whole_numbers("seeds", self.seeds),
            "set": parse_values(self.settings or []) or None,
            "tune": {name: value for name, value in tune.items() if value is not None} or None,
        }
        fields |= {name: getattr(self, name) for name in _SINGLE}
        return layer({name: value for name, value in fields.items() if value is not None})


@dataclass(frozen=True)
class SweepExecution(ExecutionOptions):
    """Where and how the trials of a sweep run."""

    engine: str = option("Where trials run: local (processes) or ray (a cluster).", default="local")
    workers: int | None = option("Number of trials in parallel. Default: as many as fit on the machine.")
    threads: int | None = option("local: CPU threads per trial. Default: an equal share of the cores.")
    retries: int | None = option("Number of retries of a trial whose process or node dies.")
    address: str | None = option("ray: address of a cluster. Default: start one on this machine.")
    cpus_per_trial: float | None = option("ray: CPUs per trial. Default: 1.", metavar="CPUS")
    gpus_per_trial: float | None = option(
        "ray: GPUs per trial. Default: 0. With 0.25, four trials share a GPU.", metavar="GPUS"
    )
    trials_per_task: int | None = option(
        "ray: trials per cluster task. Default: several if trials are short.", metavar="TRIALS"
    )
    share: str | None = option("Run only every N-th trial, starting with the I-th.", "--shard", metavar="I/N")
    dry_run: bool = option("Print what would be done, without doing it.", default=False)


@command("ape sweep --schemes sinusoidal,rope --tasks copy,reverse --seeds 42-44")
def sweep(
    file: Annotated[
        Path | None,
        typer.Argument(parser=here, metavar="FILE.toml", help="File with the grid. Options override its fields."),
    ] = None,
    *,
    grid: GridOptions,
    execution: SweepExecution,
    folders: Folders,
    as_json: Json = False,
) -> None:
    """Train and evaluate a grid of runs. Finished runs are skipped, and stopped runs are resumed.

    \f
    Raises `UsageError` if options are not valid, or if the grid has no trials.
    """
    runtime.share_cores()
    from ape_cli.experiment.spec import default_preset
    from ape_cli.models.device import check_precision, choose_device, remark
    from ape_cli.runs import record
    from ape_cli.runs.registry import open_registry
    from ape_cli.sweep import planning, specification
    from ape_cli.training import loggers

    grids = specification.read(file, grid.spec())
    # each node of a cluster chooses its own device
    where = choose_device(execution.device if execution.engine == "local" else "auto")
    pick("device", execution.device, ["auto", "cpu", "cuda"])
    for name in execution.log or []:
        loggers.load(name)
    registry = open_registry(folders.results)
    device_type = "cuda" if execution.gpus_per_trial else where.type
    usual = default_preset(device_type)
    if any(spec.preset is None for spec in grids):
        print_note(f"preset: {usual}; --preset chooses another")
    share = _shard(execution.share)
    stages = _planned(grids, usual, registry, folders.datasets, device_type, share)
    for line in stages.left:
        print_note(f"left out: {line}")
    local_gpu = execution.engine == "local" and where.type == "cuda"
    engine = _engine(execution, stages.first, local_gpu)
    trained = [item.run for item in stages.trials if item.run and item.state in ("finished", "stopped")]
    old = note_changed([code for run in trained if (code := record.user_code(run.record))])
    if execution.dry_run:
        print_plan(stages.trials, engine.slots, as_json, old)
        return
    if execution.engine == "local":
        for spec in grids:
            check_precision(spec.precision, where)
        items = stages.first
        for line in sorted({remark(item.config.precision, where, item.config.d_model) for item in items} - {""}):
            print_note(line)
    tuned = any(spec.tune for spec in grids)
    items, lines = _train(stages.first, execution, registry, folders.datasets, local_gpu, tuning=tuned)
    if tuned:
        stages = _planned(grids, usual, registry, folders.datasets, device_type, share)
        for line in stages.waiting:
            print_note(f"not tuned: {line}")
        if chosen := [item for item in stages.second if item.state != "open"]:
            print_note("the chosen settings, with the other seeds:")
            more, lines_of_second = _train(chosen, execution, registry, folders.datasets, local_gpu)
            items, lines = planning.unique([*items, *more]), lines | lines_of_second
    print_end(items, lines, registry, as_json, stages.choices if tuned else None)
    if any(line.state != "finished" for line in lines.values()) or stages.waiting:
        raise typer.Exit(1)


def _train(
    items: list[PlannedTrial],
    execution: SweepExecution,
    registry: Registry,
    datasets: StoragePath,
    local_gpu: bool,
    *,
    tuning: bool = False,
) -> tuple[list[PlannedTrial], dict[str, Line]]:
    """Train the trials that are not finished. Returns all trials with their runs, and the ends of those trained now.

    `tuning`: whether a setting is chosen among these trials.
    """
    from ape_cli.models.device import gpu_count
    from ape_cli.sweep import planning, worker

    engine = _engine(execution, items, local_gpu)
    items = planning.prepare(items, registry, datasets)
    todo = sorted((item for item in items if item.state != "finished"), key=lambda item: item.state == "running")
    resumed = sum(item.state not in ("new", "running") for item in todo)
    resume = f", of which {resumed} resume{'s' * (resumed == 1)}" if resumed else ""
    print_note(
        f"{counted(len(items), 'trial')}: {len(items) - len(todo)} finished, {len(todo) or 'nothing'} to do{resume}"
    )
    jobs = [worker.job(item, registry, execution.device, execution.compiled, execution.log or ()) for item in todo]
    several = local_gpu and (engine.slots or 1) > gpu_count()
    with worker.shared_gpu(several), watching(todo, tuning=tuning) as watch, closing(engine.work(jobs)) as events:
        for event in events if jobs else ():
            watch.handle_event(event)
    return items, watch.lines


def _planned(
    grids: list[SweepSpec],
    usual: str,
    registry: Registry,
    datasets: StoragePath,
    device: str,
    share: tuple[int, int],
) -> Stages:
    """The planned trials of a share of the grids, for a type of device. `usual`: the default preset.

    A sweep with tuning is divided by groups, because a choice needs all trials of a group. Raises `UsageError` if no
    trial is left.
    """
    from ape_cli.sweep import combinations, durations, stages

    first, step = share
    groups = combinations.groups(grids, usual, lambda name: dataset_folder(storage_path(name), datasets))
    past = durations.PastRuns(registry, device)
    by_group = any(group.tuned for group in groups)
    planned = stages.plan(groups[first - 1 :: step] if by_group else groups, registry, datasets, past)
    if not planned.first:
        got = "; ".join(planned.left) or f"--shard {first}/{step}"
        raise UsageError("the sweep has no trials", got=got, fix="choose schemes that can read the data")
    return planned if by_group else replace(planned, first=planned.first[first - 1 :: step])


def _engine(execution: SweepExecution, items: list[PlannedTrial], local_gpu: bool) -> Executor:
    """The executor of the trials. Raises `UsageError` if its options are not valid."""
    from ape_cli.core import executors
    from ape_cli.models.device import gpu_count
    from ape_cli.sweep import planning

    names = ["workers", "threads", "retries", "address", "cpus_per_trial", "gpus_per_trial", "trials_per_task"]
    options = {name: getattr(execution, name) for name in names}
    if execution.trials_per_task is None and execution.engine == "ray":
        options["trials_per_task"] = planning.per_task(items)
    if execution.workers is None and local_gpu:
        options["workers"] = gpu_count()
    return executors.make(execution.engine, **options)


def _shard(text: str | None) -> tuple[int, int]:
    """Parse I/N. Raises `UsageError` if it is not valid."""
    parts = ("1/1" if text is None else text).split("/")
    numbers = [int(part) for part in parts if part.isdecimal() and len(part) < 10]
    if not (len(parts) == len(numbers) == 2 and 1 <= numbers[0] <= numbers[1]):
        allowed, fix = "I/N with I from 1 to N", "for example --shard 2/8"
        raise UsageError("bad --shard", got=brief(text), allowed=allowed, fix=fix)
    return numbers[0], numbers[1]


def sweep_runs(file: Path | None, chosen: Filter, registry: Registry, tuned: bool = False) -> tuple[Registry, str]:
    """The registry with only the chosen runs of a sweep, and a sentence if some of them are not finished.

    Without a file, these are all chosen runs. With `tuned`, groups whose setting is not chosen yet are left out.
    Presets of the filter replace those of the file; each of them has all trials of the file. Raises `ApeError` if no
    trial is chosen, or if none of the chosen trials has been trained.
    """
    if file is None:
        return registry.where(chosen), ""
    from ape_cli.experiment.spec import default_preset
    from ape_cli.models.device import choose_device
    from ape_cli.runs import filters
    from ape_cli.sweep import combinations, specification, stages
    from ape_cli.sweep.specification import SweepSpec

    layers = [SweepSpec(preset=preset) for preset in chosen.presets] or [SweepSpec()]
    grids = [grid for layer in layers for grid in specification.read(file, layer)]
    usual = default_preset(choose_device("auto").type)
    groups = combinations.groups(grids, usual, lambda name: dataset_folder(storage_path(name)))
    planned = stages.plan(groups, registry, DATASETS)
    run_kinds = [filters.run_kind(item.config, item.data) for item in planned.trials]
    chosen.check(run_kinds, f"the sweep {file}")
    items = [item for item, run_kind in zip(planned.trials, run_kinds, strict=True) if chosen.picks(run_kind)]
    # a finished run that is not evaluated yet counts as stopped
    registered = [item for item in items if item.run and item.state in ("finished", "stopped")]
    fix = f"`ape sweep {file}` trains them"
    if not any(item.run and item.run.status == "finished" for item in registered):
        got = f"{len(items)} runs, none finished in {registry.folder}"
        raise ApeError(f"no run of the sweep {file} is finished", got=got, fix=fix)
    undecided = planned.undecided if tuned else {}
    if all(item.name in undecided for item in registered):
        raise ApeError("no setting is chosen yet", got=undecided[registered[0].name], fix=fix)
    for line in dict.fromkeys(undecided[item.name] for item in items if item.name in undecided):
        print_note(f"not tuned: {line}")
    runs = [item.run.name for item in items if item.run and item.name not in undecided]
    done = sum(item.state == "finished" for item in items)
    progress = f"Finished: {done} of {len(items)} runs." if done < len(items) else ""
    return registry.only(runs), progress
