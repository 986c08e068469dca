"""`ape train`: train one run, in one process or, under torchrun, in several."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ape_cli.cli import trained
from ape_cli.cli._app import (
    DATASETS,
    RESULTS,
    Datasets,
    Json,
    Log,
    Results,
    Somewhere,
    Threads,
    command,
    on_stop,
    somewhere,
)
from ape_cli.cli._command_line import given, repeated
from ape_cli.cli._help import DATA, EXECUTION, EXISTING, MODEL, TRAINING
from ape_cli.cli._wanted_run import WantedRun
from ape_cli.cli.console import answer, note
from ape_cli.core import runtime
from ape_cli.core.errors import UsageError

if TYPE_CHECKING:
    from ape_cli.data.loader import Dataset
    from ape_cli.runs.config import Config
    from ape_cli.runs.registry import Registry
    from ape_cli.training.execution import Execution, ExistingRun
    from ape_cli.training.process_group import ProcessGroup
    from ape_cli.training.trial import Trial

logger = logging.getLogger(__name__)


@command("ape train --scheme orthogonal-tree --task tree-copy", option="--scheme ")
def train(
    ctx: typer.Context,
    scheme: Annotated[
        str | None,
        typer.Option(
            help="Positional encoding (`ape schemes` lists them). Required without --config.", rich_help_panel=MODEL
        ),
    ] = None,
    structure: Annotated[
        str | None,
        typer.Option(help="Structure as which positions are read, for example seq*tree(2).", rich_help_panel=MODEL),
    ] = None,
    attention: Annotated[
        str, typer.Option(help="Kind of attention (`ape attentions` lists them).", rich_help_panel=MODEL)
    ] = "dot",
    data: Annotated[
        Somewhere | None, somewhere("Dataset: a folder, a name under --datasets, s3://… or gs://…", group=DATA)
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Task; its dataset has the sizes of the preset.", rich_help_panel=DATA)
    ] = None,
    order: Annotated[
        str | None, typer.Option(help="Order of the nodes of trees: breadth or depth.", rich_help_panel=DATA)
    ] = None,
    source_order: Annotated[
        str | None, typer.Option(help="Order of the nodes of source trees. Default: --order.", rich_help_panel=DATA)
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="paper, medium, small or tiny. Default: paper on a GPU, else small.", rich_help_panel=TRAINING
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed for weights, batch order and dropout.", rich_help_panel=TRAINING)
    ] = 42,
    file: Annotated[
        Somewhere | None,
        somewhere(
            "Configuration and dataset of a run: its run.json. Other options replace fields of the file.",
            "--config",
            metavar="FILE",
            group=TRAINING,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any field of the configuration; may be repeated.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a stopped run.", rich_help_panel=EXISTING)] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Delete an existing run and train it again.", rich_help_panel=EXISTING)
    ] = False,
    no_eval: Annotated[
        bool, typer.Option("--no-eval", help="Do not evaluate on the test split.", rich_help_panel=TRAINING)
    ] = False,
    device: Annotated[str, typer.Option(help="Device: auto, cpu or cuda.", rich_help_panel=EXECUTION)] = "auto",
    precision: Annotated[
        str, typer.Option(help="Precision: fp32, tf32 (only on GPUs) or bf16.", rich_help_panel=EXECUTION)
    ] = "fp32",
    compiled: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="Compile the model with torch.compile; faster only on a GPU, if at all.",
            rich_help_panel=EXECUTION,
        ),
    ] = False,
    log: Log = None,
    threads: Threads = None,
    results: Results = RESULTS,
    datasets: Datasets = DATASETS,
    as_json: Json = False,
) -> None:
    """Train one run, evaluate it on the test split, and register it. For several processes: torchrun -m ape_cli train …

    \f
    Raises `UsageError` if options are not valid or do not fit together.
    """
    runtime.share_cores()
    from ape_cli.cli.progress_bar import ProgressBar
    from ape_cli.models.device import choose_device
    from ape_cli.models.precision import check_precision, remark
    from ape_cli.runs import config
    from ape_cli.runs.config_file import read_config_file
    from ape_cli.runs.registry import open_registry
    from ape_cli.training import data_parallel, loggers
    from ape_cli.training.execution import Execution

    chosen_order = _order(order, source_order)
    if data is not None and (task is not None or chosen_order is not None):
        raise UsageError("--data already names a dataset", got="--data with --task or an order", fix="use one of them")
    if scheme is None and file is None:
        fix = "for example --scheme rope; `ape schemes` lists all"
        raise UsageError("no scheme is named", got="neither --scheme nor --config", fix=fix)
    if preset is not None and file is not None:
        fix = "leave --preset out; --set changes single fields"
        raise UsageError("the configuration file has a preset", got="--preset with --config", fix=fix)
    existing = _existing(resume, overwrite)
    with data_parallel.joined() as group:
        where = group.device(choose_device(device, threads))
        usual = "paper" if where.type == "cuda" else "small"
        asked = config.parse_settings(settings or [])
        chosen_loggers = [ProgressBar, *map(loggers.load, log or [])]
        wanted = WantedRun(preset or usual, scheme or "", structure, attention, chosen_order, seed, precision, asked)
        if file is not None:
            wanted = wanted.over(read_config_file(file), given(ctx))
        check_precision(wanted.precision, where)
        usually = preset is None and file is None
        found = group.dataset(partial(wanted.dataset, data, task, datasets, usual=usually))
        with _stoppable(group) as stop:
            execution = Execution(where, compiled, stop, group, chosen_loggers)
            chosen = wanted.config(found.kind)
            if group.first and (known := remark(chosen.precision, where, chosen.d_model)):
                note(known)
            registry = open_registry(results)
            done = _trained(chosen, found, registry, execution, existing, test=not no_eval)
    if done is None:
        raise typer.Exit(130)
    if group.first:
        baseline = wanted.baseline()
        baselines = trained.compared(found, registry, baseline) if done.evaluation else None
        settings = [f"{key}={json.dumps(value)}" for key, value in baseline.settings.items() if key in asked]
        again = repeated(ctx, scheme="none", structure=None, settings=settings, resume=None, overwrite=None)
        _print(done, baselines, again, as_json)


def _order(order: str | None, source_order: str | None) -> str | None:
    """The name of the chosen linearisation, or None for the default. Raises `UsageError` if it is not valid."""
    from ape_cli.structure import linearisation

    return linearisation.name(*linearisation.checked(order, source_order)) if order or source_order else None


def _trained(
    chosen: Config, data: Dataset, registry: Registry, execution: Execution, existing: ExistingRun, *, test: bool
) -> Trial | None:
    """Train and evaluate. Returns the trial, or None if it was stopped."""
    from ape_cli.training import trial
    from ape_cli.training.loop import Stopped

    try:
        return trial.run_trial(chosen, data, registry, execution, existing=existing, test=test)
    except Stopped:
        logger.info("stopped; run the same command with --resume to continue")
        return None


def _existing(resume: bool, overwrite: bool) -> ExistingRun:
    """What to do with an existing run. Raises `UsageError` if both options are given."""
    from ape_cli.training.execution import ExistingRun

    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other", got="both", fix="use one of them")
    if overwrite:
        return ExistingRun.OVERWRITE
    return ExistingRun.RESUME if resume else ExistingRun.REFUSE


def _print(done: Trial, baselines: dict[str, Any] | None, again: str, as_json: bool) -> None:
    """Print the result of training and of the evaluation. `again`: the command that trains a baseline."""
    if as_json:
        found = {"run": done.run.name, "trained": done.trained, **done.run.known.outcome.model_dump()}
        answer(found | {"test": done.evaluation, "baselines": baselines})
        return
    trained.print_trained(done, baselines, again)


@contextmanager
def _stoppable(group: ProcessGroup) -> Iterator[Callable[[], bool]]:
    """Within the block, the first signal to stop asks for a stop after the current step; the second interrupts.

    The signals are those of `stop_signals`. Yields a function that tells whether a stop was asked for. In a group of
    several processes the second signal does not interrupt, because a scheduler and torchrun may both send one; torchrun
    kills processes that do not end.
    """
    asked, alone = False, group.size == 1

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked and alone:
            raise KeyboardInterrupt
        asked = True
        if alone:  # under torchrun, torchrun prints this
            note("stopping after this step …")

    with on_stop(ask):
        yield lambda: asked
