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
from ape_cli.cli.console import print_note
from ape_cli.cli.options import (
    PRECISION,
    THREADS,
    ExecutionOptions,
    ExistingRunOptions,
    Folders,
    Json,
    RequestOptions,
    option,
    repeated,
    typed,
)
from ape_cli.cli.train_output import compared, note_data, print_plan, print_trained
from ape_cli.core import runtime
from ape_cli.core.errors import UsageError
from ape_cli.core.slow_steps import slow_step

if TYPE_CHECKING:
    from ape_cli.experiment import Experiment, ExperimentSpec
    from ape_cli.storage.paths import StoragePath
    from ape_cli.training.execution import ExistingRun
    from ape_cli.training.process_group import ProcessGroup

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainExecution(ExecutionOptions):
    """`ExecutionOptions` of a single run."""

    precision: str | None = option(f"{PRECISION} Default: fp32.")
    threads: int | None = option(THREADS)
    dry_run: bool = option("Print what would be trained, without training.", default=False)


@command("ape train --scheme orthogonal-tree --task tree-copy", option="--scheme ")
def train(
    ctx: typer.Context,
    request: RequestOptions,
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
        _check_together(request, existing)
    runtime.share_cores()
    from ape_cli.cli.progress_bar import ProgressBar
    from ape_cli.experiment.generalisation import LengthGeneralisation
    from ape_cli.experiment.resolution import prepared
    from ape_cli.experiment.spec_files import located
    from ape_cli.models.device import check_precision, choose_device, remark
    from ape_cli.runs.registry import open_registry
    from ape_cli.training import loggers, trial
    from ape_cli.training.execution import Execution, joined
    from ape_cli.training.trainer import Stopped

    with joined() as group:
        _check_together(request, existing)  # again: one of several processes says an error
        device = group.device(choose_device(execution.device, execution.threads))
        chosen_loggers = [ProgressBar, *map(loggers.load, execution.log or [])]
        given = _given(request, execution.precision)
        with located(request.file, given):
            spec, default_preset = _merged(request.file, given, device.type, folders.datasets)
            check_precision(spec.precision, device)
            registry = open_registry(folders.results)
            if execution.dry_run:
                if group.first:
                    experiment = _resolved(spec, request.source_order, folders.datasets, default_preset)
                    print_plan(experiment, spec.tests, registry, as_json)
                return
            experiment = group.experiment(
                lambda: prepared(_resolved(spec, request.source_order, folders.datasets, default_preset))
            )
            with _stoppable(group) as stop:
                how = Execution(device, execution.compiled, stop, group, chosen_loggers)
                others = []
                if group.first:
                    if line := remark(spec.precision, device, experiment.config.d_model):
                        print_note(line)
                    # before training, so that nothing is lost if the test rows do not fit
                    sizes = LengthGeneralisation(folders.datasets)
                    others = sizes.opened(experiment.dataset, spec.tests.generalise, experiment.config)
                try:
                    done = trial.run_trial(
                        experiment,
                        registry,
                        how,
                        existing=_existing(existing),
                        test=not request.no_eval,
                        tests=spec.tests,
                        others=others,
                    )
                except Stopped:
                    logger.info("stopped; run the same command with --resume to continue")
                    done = None
    if done is None:
        raise typer.Exit(130)
    if group.first:
        with slow_step("computing scores to compare with"):
            comparison = compared(experiment.dataset, registry, spec) if done.evaluation else None
        missing = comparison.missing if comparison else ()
        commands = [_again(ctx, experiment, other, given) for other in missing]
        print_trained(done, comparison, commands, folders.results, as_json)


def _given(request: RequestOptions, precision: str | None) -> ExperimentSpec:
    """The fields that the command line gives. Raises `UsageError` if one of them is not valid."""
    from ape_cli.experiment.spec import ExperimentSpec
    from ape_cli.experiment.spec_files import fields_of, validated
    from ape_cli.runs.config import parse_settings
    from ape_cli.structure import linearisation

    options = vars(request) | {"precision": precision, "set": parse_settings(request.settings or []) or None}
    if request.order or request.source_order:
        options["order"] = linearisation.name(*linearisation.checked(request.order, request.source_order))
    if request.no_eval:  # also if a file asks for more
        options |= {name: ExperimentSpec.model_fields[name].default for name in ("generalise", "decode")}
    fields = {name: options[name] for name in fields_of(ExperimentSpec) if options.get(name) is not None}
    return validated(ExperimentSpec, fields, "an experiment")


def _merged(
    file: StoragePath | None, given: ExperimentSpec, device: str, datasets: StoragePath
) -> tuple[ExperimentSpec, bool]:
    """What is asked for, by a file and by what is `given` instead of its fields, and whether neither names a preset."""
    from ape_cli.experiment.spec import ExperimentSpec, default_preset, merge
    from ape_cli.experiment.spec_files import located, read

    with located(file, given, whole=True):
        asked = given if file is None else merge(read(file), given)
        spec = merge(ExperimentSpec(preset=default_preset(device)), asked)
        spec.check()
        if spec.data is not None:
            spec = spec.model_copy(update={"data": existing_dataset(spec.data, datasets)})
    return spec, "preset" not in asked.model_fields_set


def _resolved(
    spec: ExperimentSpec, source_order: str | None, datasets: StoragePath, default_preset: bool
) -> Experiment:
    """The experiment of a spec. Notes name its preset, and a dataset that may have been meant.

    Raises `UsageError` if the preset writes source trees in another order than `source_order`.
    """
    from ape_cli.experiment import resolve
    from ape_cli.experiment.choice import find_dataset, note_unused
    from ape_cli.experiment.resolution import make_scheme
    from ape_cli.runs import config

    preset = config.preset(spec.preset)
    if source_order is not None and preset.linearisation(spec.order) != spec.order:
        what = f"preset {spec.preset} writes source trees {preset.source_order} first"
        fix = "leave --source-order out, or generate a dataset with `ape gen` and name it with --data"
        raise UsageError(what, got=f"--source-order {source_order}", fix=fix)
    experiment = resolve(spec, find_dataset(spec, datasets))
    if experiment.is_sized:
        # raises an error for bad options before anything is written
        make_scheme(experiment.config, experiment.reading.structure)
    note_unused(spec, experiment.data.folder)
    about = preset.about[experiment.data.kind]
    logger.info(f"preset: {spec.preset} ({about}){'; --preset chooses another' if default_preset else ''}")
    note_data(experiment)
    return experiment


def _again(ctx: typer.Context, experiment: Experiment, other: ExperimentSpec, given: ExperimentSpec) -> str:
    """The command that trains `other` on the dataset of an experiment. `given`: the fields that this command gives."""
    kept = [f"{key}={json.dumps(value)}" for key, value in other.settings.items() if key in given.settings]
    changes = dict.fromkeys(("structure", "resume", "overwrite")) | {"scheme": other.scheme, "settings": kept}
    if {"positions", "file"} & typed(ctx):
        changes["positions"] = other.positions
    # the newest dataset that the other scheme can read may be another one
    if other.data is None and other.task is None and other.recorded is None:
        changes["data"] = experiment.data.folder
    return repeated(ctx, **changes)


def _check_together(request: RequestOptions, existing: ExistingRunOptions) -> None:
    """Raise `UsageError` if options exclude each other, or if no scheme is named."""
    if request.scheme is None and request.file is None:
        fix = "for example --scheme rope; `ape schemes` lists all"
        raise UsageError("no scheme is named", got="neither --scheme nor --config", fix=fix)
    if request.preset is not None and request.file is not None and request.file.suffix != ".toml":
        fix = "leave --preset out; --set changes single fields"
        raise UsageError("the configuration file has a preset", got="--preset with --config", fix=fix)
    if request.no_eval and (request.generalise or request.decode):
        got = f"--no-eval with --{'generalise' if request.generalise else 'decode'}"
        raise UsageError("--no-eval turns off all evaluations", got=got, fix="use one of them")
    if existing.resume and existing.overwrite:
        raise UsageError("--resume and --overwrite exclude each other", got="both", fix="use one of them")


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
            print_note("stopping after this step …")

    with on_stop(ask):
        yield lambda: stopping
