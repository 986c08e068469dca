"""A trial: from a configuration and a dataset to a run that is registered, trained and evaluated.

`ape train` runs one trial, and a sweep runs many. A trial trains a run or resumes it, unless the run is finished
already (`decide`). Then it evaluates the run on the test split, and on test rows at other sizes if they are asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from ape_cli import position
from ape_cli.core import user_parts
from ape_cli.core.errors import ApeError, BusyError, RunError, UsageError
from ape_cli.core.slow_steps import slow_step
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate
from ape_cli.experiment import Experiment
from ape_cli.experiment.spec import NO_EXTRA_EVALUATIONS, ExtraEvaluations
from ape_cli.models import factory
from ape_cli.models.device import describe, processor
from ape_cli.models.factory import own_files, warn_if_changed
from ape_cli.runs.registry import Registry, new_record
from ape_cli.runs.run import Run
from ape_cli.training.execution import Execution, ExistingRun, RankFailedError
from ape_cli.training.loggers import LoggedRun, opened
from ape_cli.training.trainer import DivergenceError, Stopped, Trainer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trial:
    """The result of a trial."""

    run: Run
    trained: bool  # by this trial, not before
    evaluation: dict[str, Any] | None  # on the test split, with teacher forcing
    others: list[dict[str, Any]] = field(default_factory=list)  # the further evaluations that were asked for


class RunAction(Enum):
    """What a trial does with its run."""

    START = auto()
    RESUME = auto()
    SKIP = auto()  # the run is finished
    REFUSE = auto()


def decide(status: str | None, existing: ExistingRun, *, has_state: bool) -> RunAction:
    """What to do with a run of this status, which is None if there is no run.

    `existing` is what the user allows. `has_state` is whether the run has a checkpoint. An unfinished run without one
    has nothing to lose, so it starts again where it would be refused.
    """
    nothing_to_lose = status in ("stopped", "failed") and not has_state
    if existing is ExistingRun.OVERWRITE or (existing is ExistingRun.REFUSE and nothing_to_lose):
        return RunAction.START
    if status is None:
        return RunAction.REFUSE if existing is ExistingRun.RESUME else RunAction.START
    if status == "finished":
        return RunAction.SKIP
    return RunAction.REFUSE if status == "running" or existing is ExistingRun.REFUSE else RunAction.RESUME


def run_trial(
    experiment: Experiment,
    registry: Registry,
    execution: Execution,
    *,
    existing: ExistingRun = ExistingRun.REFUSE,
    test: bool = True,
    tests: ExtraEvaluations = NO_EXTRA_EVALUATIONS,
    others: Sequence[Dataset] = (),
) -> Trial:
    """Train a run unless it is finished. Evaluate it on the test split unless that was done or `test` is False.

    The dataset of the experiment has to be open (`experiment.resolution.prepared`). The run is also evaluated on
    `others`, the test rows at the sizes of `tests`, and on all of them with the decodings of `tests`.

    All ranks of a process group train. Only the first rank reads and writes the registry, and evaluates.

    Raises:
        RunError: The run is unfinished and has a state, and `existing` is `REFUSE`; or the training failed.
        UsageError: `existing` is `RESUME`, and there is no run to resume.
        BusyError: Another process trains the run.
        Stopped: `execution.stop` was true; the state is stored.
    """
    config, data, group = experiment.config, experiment.data, execution.group
    run, overwrite = registry.run_for(config, data), existing is ExistingRun.OVERWRITE
    status, has_state = group.broadcast(lambda: (None, False) if overwrite else _state(run))
    action = decide(status, existing, has_state=has_state)
    if action is RunAction.REFUSE:
        raise _refusal(run, status)
    trained = action is not RunAction.SKIP
    if not group.first:
        if trained:
            with group.initialised(execution.device):
                Trainer(experiment, None, execution).run()
        return Trial(run, trained, None)
    if trained and experiment.ambiguity:
        logger.warning(experiment.ambiguity)
    if action is RunAction.START and status is not None:
        logger.info(f"{run.name} {status} before its first checkpoint, so it starts again")
    if action is not RunAction.START:
        warn_if_changed(run.name, config, run.record.last_own_files)
    if action is RunAction.SKIP:
        logger.info(f"{run.name} is trained already (`overwrite` trains it again)")
        with suppress(ApeError, OSError):  # for example, the folder is read-only
            run.tidy()
    else:
        with run.writing():
            # in an object store, other processes may be training the run, each in a folder of its own
            if run.one_process and not overwrite:
                _check_unchanged(run, status)
            if overwrite or (action is RunAction.START and run.one_process):
                if run.exists():
                    factory.of_experiment(experiment)  # an error in the scheme leaves the files as they are
                run.clear()
            trained = _train(run, experiment, action, execution)
    evaluations = _evaluations(run, experiment, execution, tests, others) if test else []
    own = next((e for e in evaluations if (e["fingerprint"], e["decode"]) == (data.fingerprint, "teacher")), None)
    return Trial(run, trained, own, [evaluation for evaluation in evaluations if evaluation is not own])


def _state(run: Run) -> tuple[str | None, bool]:
    """The status of a run, and whether it is unfinished and has a checkpoint."""
    status = run.status_for_training()
    return status, status in ("stopped", "failed") and run.has_state()


def _refusal(run: Run, status: str | None) -> ApeError:
    """The error for a run of this status that `decide` refuses."""
    if status is None:
        return UsageError("there is no such run to resume", got=run.name, fix="leave `resume` out to start a new run")
    if status == "running":
        return run.busy()
    fix = "continue it with `resume`, or start it again with `overwrite`"
    return RunError("this run was started and is not finished", got=f"{run.name}: {status}", fix=fix)


def _check_unchanged(run: Run, status: str | None) -> None:
    """Check, under the lock, that the run still has the status that was read before.

    Raises `BusyError` if another process has trained it in between.
    """
    now = run.read().status if run.exists() else None
    if ("stopped" if now == "running" else now) != status:
        raise BusyError("another process trained this run in the meantime", got=f"{run.name}: {now}", fix="try again")


def _train(run: Run, experiment: Experiment, action: RunAction, execution: Execution) -> bool:
    """Start a new run or resume an unfinished one, train it to its end, and keep its status up to date.

    Returns whether the result is kept, which it is unless another process has finished the run in an object store.
    """
    config, group, registered = experiment.config, execution.group, False
    try:
        with user_parts.explained(), group.initialised(execution.device):
            # errors of the configuration, the stored state or a logger are raised before the run is registered
            trainer = Trainer(experiment, run, execution)
            progress, steps = trainer.progress, trainer.progress.schedule.steps
            logged = LoggedRun(run.name, config, run.logs, steps, tuple(map(dict, progress.history)), progress.step)
            with opened(execution.loggers, logged) as loggers:
                code = own_files(config.scheme, config.attention, config.positions)
                if action is RunAction.START:
                    device, variant = describe(execution.device), experiment.variant
                    run.write_record(new_record(run, config, experiment.data, device, variant, group.size, code))
                else:
                    _note_changes(run, trainer)
                    run.resume(group.size, processor(), code)
                registered = True
                _note_training(run, trainer)
                result = trainer.run(loggers)
    except BaseException as error:
        try:
            if registered:
                # a full disk can be freed; a run that has diverged would diverge again, and other errors are bugs
                stops = Stopped | RankFailedError | KeyboardInterrupt | ApeError | OSError
                resumable = isinstance(error, stops) and not isinstance(error, DivergenceError)
                run.update(status="stopped" if resumable else "failed")
        except (ApeError, OSError) as second:  # for example, the disk is still full; the first error says more
            logger.warning(f"the status of {run.name} could not be stored: {str(second).splitlines()[0]}")
        raise
    kept = run.finish(result, trainer.best, progress.history)
    if not kept:
        logger.warning(f"{run.name} was finished elsewhere in the meantime: that run is kept, and this one discarded")
    with suppress(ApeError, OSError):  # the state is no longer needed
        run.remove_state()
    return kept


def _note_training(run: Run, trainer: Trainer) -> None:
    """Log the start of the training: name, steps and device, and the size of a scheme that is bounded by it."""
    config, device, processes = trainer.config, trainer.execution.device, trainer.execution.group.size
    beyond = position.load(config.scheme).beyond
    if beyond:
        logger.info(f"{config.scheme} has the size {config.max_size}: {beyond} (`max_size` changes the size)")
    where = f"on {device}" if processes == 1 else f"in {processes} processes on {device.type}"
    steps = trainer.progress.schedule.steps
    amount = f"{steps:,} steps of up to {config.batch_size} rows, {trainer.epochs:.3g} epochs"
    logger.info(f"training {run.name}: {amount}, {where}")


def _note_changes(run: Run, trainer: Trainer) -> None:
    """Log a warning if the run resumes with other arithmetic."""
    before, now = run.record.last_processor, processor()
    if trainer.execution.device.type == "cpu" and before and before != now:
        old, new = (f"{cpu.get('products', 'an unknown library')} on {cpu.get('name')}" for cpu in (before, now))
        digits = "the last digits of its results will differ from those of a run without a stop"
        logger.warning(f"the run was trained with {old} so far, and continues with {new}: {digits}")


def _evaluations(
    run: Run, experiment: Experiment, execution: Execution, tests: ExtraEvaluations, others: Sequence[Dataset]
) -> list[dict[str, Any]]:
    """The evaluations on the test splits of the run's own dataset and of others. What is not stored yet is computed."""
    data, evaluations = experiment.data, []
    if not data.plan.rows["test"]:
        logger.info(f"{data.name} has no test rows: nothing to evaluate")
    for tested in (data, *others):
        for decode in tests.decodings(tested):
            evaluation = run.evaluation(evaluate.name_of(tested, "test", decode))
            rows = tested.plan.rows["test"]
            if evaluation is None and rows:
                options: dict[str, Any] = {"device": execution.device, "stop": execution.stop}
                if tested is not data:
                    options["batch_size"] = evaluate.rows_at_once(tested.split("test"))
                with slow_step(f"evaluating on {rows:,} test rows of {tested.name}, {decode} decoding"):
                    on = experiment if tested is data else tested
                    evaluation = evaluate.evaluate(run, on, split="test", decode=decode, **options)
            evaluations += [] if evaluation is None else [evaluation]
    return evaluations
