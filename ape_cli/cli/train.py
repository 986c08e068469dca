"""`ape train`: train one run, in one process or, under torchrun, in several."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from ape_cli.cli._app import command, existing_dataset, on_stop
from ape_cli.cli.console import note
from ape_cli.cli.options import (
    THREADS,
    DataOptions,
    ExecutionOptions,
    ExistingRunOptions,
    Folders,
    FurtherTestOptions,
    Json,
    ModelOptions,
    TrainingOptions,
    flags_of,
    option,
    repeated,
    typed,
)
from ape_cli.cli.train_output import Comparison, compared, note_data, print_plan, print_trained
from ape_cli.core import runtime
from ape_cli.core.errors import UsageError
from ape_cli.core.slow_steps import slow_step

if TYPE_CHECKING:
    from ape_cli.experiment import Experiment, ExperimentOptions
    from ape_cli.runs.registry import Registry
    from ape_cli.storage.paths import StoragePath
    from ape_cli.training.execution import Execution, ExistingRun
    from ape_cli.training.process_group import ProcessGroup
    from ape_cli.training.trial import Trial

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainExecution(ExecutionOptions):
    """`ExecutionOptions` of a single run."""

    precision: str = option("Precision: fp32, tf32 (only on GPUs) or bf16.", default="fp32")
    threads: int | None = option(THREADS)
    dry_run: bool = option("Print what would be trained, without training.", default=False)


@command("ape train --scheme orthogonal-tree --task tree-copy", option="--scheme ")
def train(
    ctx: typer.Context,
    model: ModelOptions,
    source: DataOptions,
    training: TrainingOptions,
    evaluation: FurtherTestOptions,
    existing: ExistingRunOptions,
    execution: TrainExecution,
    folders: Folders,
    as_json: Json = False,
) -> None:
    """Train a run and evaluate it on the test split. For several processes: torchrun -m ape_cli -- train …

    \f
    Raises `UsageError` if options are not valid or do not fit together.
    """
    if not runtime.is_launched():  # before torch is imported
        _check_together(model, source, training, evaluation, existing)
    runtime.share_cores()
    from ape_cli.cli.progress_bar import ProgressBar
    from ape_cli.experiment import ExperimentOptions, generalisation
    from ape_cli.experiment.experiment_file import in_file
    from ape_cli.experiment.options import read_config_file
    from ape_cli.experiment.resolution import prepared
    from ape_cli.models.device import check_precision, choose_device, remark
    from ape_cli.runs import config
    from ape_cli.runs.registry import open_registry
    from ape_cli.training import loggers
    from ape_cli.training.execution import Execution, joined

    with joined() as group:
        _check_together(model, source, training, evaluation, existing)  # again: one of several processes says an error
        settings = config.parse_settings(training.settings or [])
        toml = training.file if _is_toml(training) else None
        with in_file(toml, typed(ctx), settings):
            where = group.device(choose_device(execution.device, execution.threads))
            chosen_loggers = [ProgressBar, *map(loggers.load, execution.log or [])]
            options = ExperimentOptions(
                preset=("paper" if where.type == "cuda" else "small") if training.preset is None else training.preset,
                scheme=model.scheme or "",
                structure=model.structure,
                attention=model.attention,
                positions=model.positions,
                model=model.model,
                seed=training.seed,
                precision=execution.precision,
                settings=settings,
                data=None if source.data is None else existing_dataset(source.data, folders.datasets),
                task=source.task,
                order=_order(source.order, source.source_order),
                sizes=source.sizes,
                tests=generalisation.ExtraEvaluations(generalisation.parse(evaluation.generalise), evaluation.decode),
            )
            default_preset = training.preset is None and training.file is None
            if toml is not None:
                given = typed(ctx) | ({"generalise", "decode"} if training.no_eval else set())
                options, default_preset = _of_toml(toml, options, given, folders.datasets)
            elif training.file is not None:
                options = options.over(*read_config_file(training.file), typed(ctx))
            check_precision(options.precision, where)
            registry = open_registry(folders.results)
            if execution.dry_run:
                if group.first:
                    print_plan(
                        _resolved(options, source, folders.datasets, default_preset), options.tests, registry, as_json
                    )
                return
            experiment = group.experiment(
                lambda: prepared(_resolved(options, source, folders.datasets, default_preset))
            )
            with _stoppable(group) as stop:
                how = Execution(where, execution.compiled, stop, group, chosen_loggers)
                if group.first and (known := remark(options.precision, where, experiment.config.d_model)):
                    note(known)
                tests: dict[str, Any] = {"test": not training.no_eval, "tests": options.tests}
                if group.first:  # before training, so that nothing is lost if the test rows do not fit
                    sizes = generalisation.LengthGeneralisation(folders.datasets)
                    tests["others"] = sizes.opened(experiment.dataset, options.tests.generalise, experiment.config)
                done = _trained(experiment, registry, how, _existing(existing), tests)
    if done is None:
        raise typer.Exit(130)
    if group.first:
        with slow_step("computing scores to compare with"):
            comparison = compared(experiment.dataset, registry, options) if done.evaluation else None
        commands = [_again(ctx, experiment, other, settings) for other in (comparison or Comparison()).missing]
        print_trained(done, comparison, commands, folders.results, as_json)


def _of_toml(
    file: StoragePath, options: ExperimentOptions, given: set[str], datasets: StoragePath
) -> tuple[ExperimentOptions, bool]:
    """The experiment of a file under the options that were `given`, and whether neither names a preset."""
    from ape_cli.experiment.experiment_file import in_file, read_experiment

    with in_file(file, given, options.settings, whole=True):
        found = read_experiment(file)
        options = found.under(options, given, lambda data: existing_dataset(data, datasets))
    return options, "preset" not in given and found.preset is None


def _again(ctx: typer.Context, experiment: Experiment, other: ExperimentOptions, settings: dict[str, Any]) -> str:
    """The command that trains `other` on the dataset of an experiment. `settings`: those of this command."""
    given = typed(ctx)
    kept = [f"{key}={json.dumps(value)}" for key, value in other.settings.items() if key in settings]
    changes = dict.fromkeys(("structure", "resume", "overwrite")) | {"scheme": other.scheme, "settings": kept}
    if {"positions", "file"} & given:
        changes["positions"] = other.positions
    # the newest dataset that the other scheme can read may be another one
    if other.data is None and other.task is None and other.recorded is None:
        changes["data"] = experiment.data.folder
    return repeated(ctx, **changes)


def _order(order: str | None, source_order: str | None) -> str | None:
    """The name of the chosen linearisation, or None for the default. Raises `UsageError` if it is not valid."""
    from ape_cli.structure import linearisation

    return linearisation.name(*linearisation.checked(order, source_order)) if order or source_order else None


def _check_together(
    model: ModelOptions,
    source: DataOptions,
    training: TrainingOptions,
    evaluation: FurtherTestOptions,
    existing: ExistingRunOptions,
) -> None:
    """Raise `UsageError` if options exclude each other, or if no scheme is named."""
    orders = (source.order, source.source_order)
    if source.data is not None and (source.task is not None or any(orders)):
        raise UsageError("--data already names a dataset", got="--data with --task or an order", fix="use one of them")
    if source.sizes is not None and source.task is None and not _is_toml(training):
        raise UsageError("--sizes needs a task", got=f"--sizes {source.sizes}", fix="name one with --task")
    if model.scheme is None and training.file is None:
        fix = "for example --scheme rope; `ape schemes` lists all"
        raise UsageError("no scheme is named", got="neither --scheme nor --config", fix=fix)
    if training.preset is not None and training.file is not None and not _is_toml(training):
        fix = "leave --preset out; --set changes single fields"
        raise UsageError("the configuration file has a preset", got="--preset with --config", fix=fix)
    if training.no_eval and (given := flags_of(evaluation)):
        raise UsageError("--no-eval turns off all evaluations", got=f"--no-eval with {given[0]}", fix="use one of them")
    if existing.resume and existing.overwrite:
        raise UsageError("--resume and --overwrite exclude each other", got="both", fix="use one of them")


def _is_toml(training: TrainingOptions) -> bool:
    """Whether the configuration file describes an experiment in TOML. If not, it is a `run.json`."""
    return training.file is not None and training.file.suffix == ".toml"


def _resolved(
    options: ExperimentOptions, source: DataOptions, datasets: StoragePath, default_preset: bool
) -> Experiment:
    """The experiment of the options. Notes name its preset, and a dataset that may have been meant.

    Raises `UsageError` if the preset writes source trees in another order than `source` says.
    """
    from ape_cli.experiment import resolve
    from ape_cli.experiment.choice import find_dataset, note_unused
    from ape_cli.experiment.resolution import make_scheme
    from ape_cli.runs import config

    preset = config.preset(options.preset)
    if source.source_order is not None and preset.linearisation(options.order) != options.order:
        what = f"preset {options.preset} writes source trees {preset.source_order} first"
        fix = "leave --source-order out, or generate a dataset with `ape gen` and name it with --data"
        raise UsageError(what, got=f"--source-order {source.source_order}", fix=fix)
    experiment = resolve(options, find_dataset(options, datasets))
    if experiment.is_sized:
        make_scheme(
            experiment.config, experiment.reading.structure
        )  # raises an error for bad options before anything is written
    note_unused(options, experiment.data.folder)
    about = preset.about[experiment.data.kind]
    logger.info(f"preset: {options.preset} ({about}){'; --preset chooses another' if default_preset else ''}")
    note_data(experiment)
    return experiment


def _trained(
    experiment: Experiment, registry: Registry, execution: Execution, existing: ExistingRun, tests: dict[str, Any]
) -> Trial | None:
    """Train and evaluate as `tests` says. Returns the trial, or None if it was stopped."""
    from ape_cli.training import trial
    from ape_cli.training.trainer import Stopped

    try:
        return trial.run_trial(experiment, registry, execution, existing=existing, **tests)
    except Stopped:
        logger.info("stopped; run the same command with --resume to continue")
        return None


def _existing(options: ExistingRunOptions) -> ExistingRun:
    """What to do with an existing run."""
    from ape_cli.training.execution import ExistingRun

    if options.overwrite:
        return ExistingRun.OVERWRITE
    return ExistingRun.RESUME if options.resume else ExistingRun.REFUSE


@contextmanager
def _stoppable(group: ProcessGroup) -> Iterator[Callable[[], bool]]:
    """Within the block, the first signal to stop asks for a stop after the current step; the second interrupts.

    The signals are those of `on_stop`. Yields a function that tells whether a stop was asked for. In a group of several
    processes the second signal does not interrupt, because a scheduler and torchrun may both send one; torchrun kills
    processes that do not end.
    """
    stopping, alone = False, group.size == 1

    def ask(number: int, frame: Any) -> None:
        nonlocal stopping
        if stopping and alone:
            raise KeyboardInterrupt
        stopping = True
        if alone:  # under torchrun, torchrun prints this
            note("stopping after this step …")

    with on_stop(ask):
        yield lambda: stopping
