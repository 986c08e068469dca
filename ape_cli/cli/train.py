"""`ape train`: train one run, in one process or, under torchrun, in several."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from ape_cli.cli._app import command, existing_dataset, on_stop
from ape_cli.cli.console import accuracy_of, print_json, print_note, print_result, scores_in_words
from ape_cli.cli.options import (
    PRECISION,
    THREADS,
    ExecutionOptions,
    ExistingRunOptions,
    Folders,
    Json,
    RequestOptions,
    option,
    refuse_idle,
)
from ape_cli.core import runtime
from ape_cli.core.errors import ApeError, UsageError
from ape_cli.core.slow_steps import slow_step

if TYPE_CHECKING:
    from ape_cli.data.loader import Dataset
    from ape_cli.experiment import Experiment, ExperimentSpec
    from ape_cli.experiment.spec import ExtraEvaluations
    from ape_cli.runs.record import RunRecord
    from ape_cli.runs.registry import Registry
    from ape_cli.storage.paths import StoragePath
    from ape_cli.training.execution import ExistingRun, ProcessGroup
    from ape_cli.training.trial import Trial

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainExecution(ExecutionOptions):
    """`ExecutionOptions` of a single run."""

    precision: str | None = option(f"{PRECISION} Default: fp32.")
    threads: int | None = option(THREADS)
    dry_run: bool = option("Print what would be trained, without training.", default=False)


@command("ape train --scheme orthogonal-tree --task tree-copy")
def train(
    request: RequestOptions,
    existing: ExistingRunOptions,
    execution: TrainExecution,
    folders: Folders,
    as_json: Json = False,
) -> None:
    """Train a run and evaluate it on the test split.

    Without --data and --task, it is trained on the newest dataset in --datasets that the scheme can read. If there is
    none, the dataset of the scheme's default task is generated, with the sizes of the preset.

    For several processes: torchrun -m ape_cli -- train …

    \f
    Raises `UsageError` if options are not valid or do not fit together.
    """
    _check_together(request, existing)
    runtime.share_cores()
    from ape_cli.cli.progress_bar import ProgressBar
    from ape_cli.experiment.generalisation import LengthGeneralisation
    from ape_cli.experiment.resolution import prepared
    from ape_cli.models.device import check_precision, choose_device, remark
    from ape_cli.runs.registry import open_registry
    from ape_cli.training import loggers, trial
    from ape_cli.training.execution import Execution, process_group
    from ape_cli.training.trainer import Stopped

    with process_group() as group:
        device = group.device(choose_device(execution.device, execution.threads))
        chosen_loggers = [ProgressBar, *map(loggers.load, execution.log or [])]
        given = _given(request, execution.precision)
        spec, preset_is_default = _merged(request.file, given, device.type, folders.datasets)
        check_precision(spec.precision, device)
        registry = open_registry(folders.results)
        if execution.dry_run:
            if group.first:
                experiment = _resolved(spec, request.source_order, folders.datasets, preset_is_default)
                print_plan(experiment, spec.tests, registry, as_json)
            return
        experiment = group.experiment(
            lambda: prepared(_resolved(spec, request.source_order, folders.datasets, preset_is_default))
        )
        with _stoppable(group) as stop:
            how = Execution(device, execution.compiled, stop, group, chosen_loggers)
            others = []
            if group.first:
                if line := remark(spec.precision, device, experiment.config.d_model):
                    print_note(line)
                if spec.generalise:  # before training, so that nothing is lost if the test rows do not fit
                    sizes = LengthGeneralisation(folders.datasets)
                    others = sizes.opened(experiment.data, spec.generalise, experiment.config)
            try:
                done = trial.run_trial(
                    experiment,
                    registry,
                    how,
                    existing=_allowed(existing),
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
            comparison = compared(experiment.data, registry, spec) if done.evaluation else None
        if experiment.data.made_by and not (spec.data or spec.task or spec.recorded or as_json):  # none was found
            default = f"{experiment.data.task}, the default task, because no dataset was found"
            print_result(f"data: {default}; --task or --data chooses another")
        print_trained(done, comparison, as_json)


def _allowed(options: ExistingRunOptions) -> ExistingRun:
    """What the options allow to do with an existing run."""
    from ape_cli.training.execution import ExistingRun

    if options.overwrite:
        return ExistingRun.OVERWRITE
    return ExistingRun.RESUME if options.resume else ExistingRun.REFUSE


def _given(request: RequestOptions, precision: str | None) -> ExperimentSpec:
    """The fields that the command line gives. Raises `UsageError` if one of them is not valid."""
    from ape_cli.experiment.spec import ExperimentSpec, fields_of, validated
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
    from ape_cli.experiment.spec_files import read

    asked = given if file is None else merge(read(file), given)
    spec = merge(ExperimentSpec(preset=default_preset(device)), asked)
    spec.check()
    if spec.data is not None:
        spec = spec.model_copy(update={"data": existing_dataset(spec.data, datasets)})
    return spec, "preset" not in asked.model_fields_set


def _resolved(
    spec: ExperimentSpec, source_order: str | None, datasets: StoragePath, preset_is_default: bool
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
    if experiment.data.missing and experiment.is_sized:
        make_scheme(experiment.config, experiment.reading.structure)  # raises an error for bad options before `gen`
    note_unused(spec, experiment.data.folder)
    about = preset.about[experiment.data.modality]
    logger.info(f"preset: {spec.preset} ({about}){'; --preset chooses another' if preset_is_default else ''}")
    note_data(experiment)
    return experiment


def _check_together(request: RequestOptions, existing: ExistingRunOptions) -> None:
    """Raise `UsageError` if options exclude each other."""
    if request.preset is not None and request.file is not None and request.file.suffix != ".toml":
        fix = "leave --preset out; --set changes single fields"
        raise UsageError("the configuration file has a preset", got="--preset with --config", fix=fix)
    refuse_idle(
        (request.no_eval and request.generalise is not None, "--generalise", "with --no-eval"),
        (request.no_eval and request.decode is not None, "--decode", "with --no-eval"),
    )
    if existing.resume and existing.overwrite:
        raise UsageError("--resume and --overwrite exclude each other", got="both", fix="use one of them")


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


def print_plan(experiment: Experiment, tests: ExtraEvaluations, registry: Registry, as_json: bool) -> None:
    """Print what would be trained and evaluated, for --dry-run."""
    from ape_cli.experiment.generalisation import sizes_for
    from ape_cli.runs.record import settings_text

    config, data = experiment.config, experiment.data
    run = registry.run_for(config, data) if experiment.is_named else None
    lines: dict[str, Any] = {
        "run": run.name if run else None,
        "state": run.status if run and run.exists() else "new",
        "dataset": str(data.folder),
        "dataset_missing": data.missing,
        "structure": data.structure.expression,
        "read_as": experiment.reading.structure.expression,
        "variant": settings_text(experiment.variant),
        "generalise": sorted(sizes_for(data, tests.generalise)),  # also empty if the data would have to be generated
        "decode": tests.decode,
        "config": config.model_dump(mode="json"),
    }
    if as_json:
        print_json(lines)
        return
    of_config = lines.pop("config")
    for name, value in (lines | of_config | lines).items():  # `structure` is that of the data
        print_result(f"{name} = {json.dumps(value)}")


def note_data(experiment: Experiment) -> None:
    """Print the number of training rows and their mean size, and how many of the rows a short training can use."""
    from ape_cli.experiment.choice import tell_overlap
    from ape_cli.tasks import size_words

    config, data = experiment.config, experiment.data
    rows = data.plan.rows["train"]
    if data.modality == "image":
        print_note(f"data: {rows:,} training images")
    else:
        size = size_words(data.task, str(data.structure))[0]
        print_note(f"data: {rows:,} training rows, mean {size} {round(data.mean_size, 2):g}")
    maximum = (config.steps or rows) * config.batch_size  # the last batch of the rows may be short
    if maximum < rows:
        several = f"{config.steps:,} steps of up to {config.batch_size} rows"
        print_note(f"data: this run uses at most {maximum:,} of them ({several}); --set epochs=1 uses each row once")
    tell_overlap(data)


class Comparison(NamedTuple):
    """What a test score is compared with: token accuracies on the same test split, or accuracies of images.

    `constant_guess` and `counted` are those of `count_baselines`. `none` is the score of the registered run of the same
    model without positions, or None if there is no such run.
    """

    constant_guess: float
    counted: dict[str, dict[str, float]]
    none: float | None


def compared(data: Dataset, registry: Registry, spec: ExperimentSpec) -> Comparison:
    """What the test score of a run is compared with."""
    from ape_cli.evaluation.count_baselines import count_baselines
    from ape_cli.evaluation.evaluate import name_of
    from ape_cli.experiment import complete

    none = None
    with suppress(ApeError):  # its run may be damaged, or it may not be able to read this data
        run = registry.run_for(complete(spec.with_scheme("none").config(data.modality), data), data)
        if run.exists() and (evaluation := run.evaluation(name_of(data, "test", "teacher"))):
            none = evaluation["overall"]["token_accuracy"]
    baselines = count_baselines(data, "test")
    return Comparison(baselines.constant_guess, baselines.counted, none)


def print_trained(done: Trial, comparison: Comparison | None, as_json: bool) -> None:
    """Print the result of training, the scores on the test split, and what they are compared with."""
    config, result, test = done.run.record.config, done.run.record.outcome, done.evaluation
    if as_json:
        lines: dict[str, Any] = {"run": done.run.name, "trained": done.trained, **result.model_dump()}
        lines |= {"test": test, "baselines": comparison and comparison._asdict()}
        print_json(lines | ({"other_tests": done.others} if done.others else {}))
        return
    modality = config.modality
    accuracy = accuracy_of(modality)
    pace = f"{result.tokens_per_second:,.0f} {'images' if modality == 'image' else 'tokens'}/s"
    print_result(f"{done.run.name}: {result.steps} steps in {result.seconds:.0f} s, {pace}")
    print_result(f"  validation {accuracy} {result.best_accuracy:.2%}, step {result.best_step}")
    if test is None or comparison is None:
        return
    print_result(f"  test {scores_in_words(test['overall'], modality)}")
    for other in done.others:
        scores = scores_in_words(other["overall"], "sequence")
        if other.get("test_only"):  # at sizes that were not trained on
            by_size = (f"{part['size']} {part['exact_match']:.2%}" for part in other["by_size"])
            scores = f"exact match at size {', '.join(by_size)}"
        print_result(f"  test, {other['decode']} decoding{', ' if other.get('test_only') else ': '}{scores}")
    print_result(f"compare its test {accuracy} with")
    for score, whose in _compared_with(done.run.record, comparison):
        print_result(f"  {score:7.2%}  {whose}", indent=11)
    print_note("`ape report` shows all scores side by side")


def _compared_with(record: RunRecord, comparison: Comparison) -> Iterator[tuple[float, str]]:
    """The scores to compare a run with, and whose they are."""
    scores = {name: score["token_accuracy"] for name, score in comparison.counted.items()}
    usual, *rules = scores
    yield scores[usual], f"always the {usual}"
    if rules:
        best = max(rules, key=lambda name: scores[name])
        yield scores[best], f"the best simple rule ({best})"
    if comparison.none is not None and record.config.scheme != "none":
        yield comparison.none, "the same model without positions (scheme none)"
