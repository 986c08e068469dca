"""A trial: from a configuration and a dataset to a run that is registered, trained and evaluated.

`ape train` runs one trial, and a sweep runs many. A trial trains a run or resumes it, unless the run is finished
already. Then it evaluates the run on the test split, and on test rows at other sizes if they are asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ape_cli import position
from ape_cli.core import own_parts
from ape_cli.core.errors import ApeError, BusyError, RunError, UsageError
from ape_cli.core.slow_steps import slow_step
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate
from ape_cli.experiment import Experiment
from ape_cli.experiment.generalisation import NO_FURTHER_TESTS, FurtherTests
from ape_cli.models import factory
from ape_cli.models.device import describe, processor
from ape_cli.models.factory import own_files, warn_if_changed
from ape_cli.runs.config import Config
from ape_cli.runs.registry import Registry, new_record
from ape_cli.runs.run import Run
from ape_cli.training.execution import Execution, ExistingRun
from ape_cli.training.loggers import LoggedRun, opened
from ape_cli.training.loop import Loop, Stopped
from ape_cli.training.process_group import RankFailedError
from ape_cli.training.step import DivergenceError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trial:
    """The result of a trial."""

    run: Run
    trained: bool  # by this trial, not before
    evaluation: dict[str, Any] | None  # on the test split, with teacher forcing
    others: list[dict[str, Any]] = field(default_factory=list)  # the further evaluations that were asked for


def run_trial(
    experiment: Experiment,
    registry: Registry,
    execution: Execution,
    *,
    existing: ExistingRun = ExistingRun.REFUSE,
    test: bool = True,
    tests: FurtherTests = NO_FURTHER_TESTS,
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
    config, data = experiment.config, experiment.dataset
    run, group = registry.run_for(config, data), execution.group
    again = existing is ExistingRun.OVERWRITE
    status = group.broadcast(lambda: None if again else run.status_for_training())
    _check_existing(run, status, existing)
    if group.first and status != "finished" and (reason := experiment.ambiguity):
        logger.warning(reason)
    new = status is None or (existing is ExistingRun.REFUSE and status != "finished")
    if group.first and new and status is not None:
        logger.info(f"{run.name} {status} before its first checkpoint, so it starts again")
    if group.first and (status == "finished" or not new):
        warn_if_changed(run.name, config, run.known.last_own_files)
    trained = status != "finished"
    if status == "finished":
        logger.info(f"{run.name} is trained already (`overwrite` trains it again)")
        if group.first:
            _tidy(run, run.tidy)
    elif group.first:
        with run.writing():
            if run.one_process and not again:
                _check_unchanged(run, status)
            # in an object store, other processes may be training the run, each in a folder of its own
            trained = _train(run, experiment, new, execution, clears=again or (new and run.one_process))
    else:
        with group.initialised(execution.device):
            Loop(experiment, None, execution).run()
    done = _evaluated(run, experiment, execution, tests, others) if test and group.first else []
    own = next((one for one in done if (one["fingerprint"], one["decode"]) == (data.fingerprint, "teacher")), None)
    return Trial(run, trained, own, [one for one in done if one is not own])


def _check_existing(run: Run, status: str | None, existing: ExistingRun) -> None:
    """Check that `existing` allows to train a run of this status, which is None if there is no run.

    A run without a state has nothing to lose, so it may start again. Raises `UsageError` or `RunError` if
    `existing` does not allow it.
    """
    if existing is ExistingRun.RESUME and status is None:
        raise UsageError("there is no such run to resume", got=run.name, fix="leave `resume` out to start a new run")
    if existing is not ExistingRun.REFUSE or status not in ("failed", "stopped") or not run.has_state():
        return
    what = "this run failed" if status == "failed" else "this run was started and is not finished"
    fix = "continue it with `resume`, or start it again with `overwrite`"
    raise RunError(what, got=f"{run.name}: {status}", fix=f"{fix}, or change settings" if status == "failed" else fix)


def _tidy(run: Run, remove: Callable[[], None]) -> None:
    """Remove what a finished run does not need; a warning says so if that is not possible."""
    try:
        remove()
    except (ApeError, OSError) as error:  # for example, the folder is read-only; the run can be used all the same
        logger.warning(
            f"the state of {run.name} is no longer needed, and cannot be removed: {str(error).splitlines()[0]}"
        )


def _evaluated(
    run: Run, experiment: Experiment, execution: Execution, tests: FurtherTests, others: Sequence[Dataset]
) -> list[dict[str, Any]]:
    """The evaluations on the test splits of the run's own dataset and of others. What is not stored yet is computed."""
    data = experiment.dataset
    if not data.plan.rows["test"]:
        logger.info(f"{data.name} has no test rows: nothing to evaluate")
    found: dict[str, dict[str, Any]] = {}
    for on, decode in evaluate.missing(run, [data, *others], tests):
        how: dict[str, Any] = {"split": "test", "decode": decode, "device": execution.device, "stop": execution.stop}
        if on is data:
            with slow_step(f"evaluating on {data.plan.rows['test']:,} test rows, {decode} decoding"):
                one = evaluate.evaluate(run, experiment, **how)
        else:
            logger.info(f"evaluating at other sizes: {on.name}, {decode} decoding")
            one = evaluate.evaluate(run, on, batch_size=evaluate.rows_at_once(on.split("test")), **how)
        found[evaluate.name_of(on, "test", decode)] = one
    names = [evaluate.name_of(on, "test", decode) for on in (data, *others) for decode in tests.decodings(on)]
    return [done for name in names if (done := found.get(name) or run.evaluation(name)) is not None]


def _check_unchanged(run: Run, status: str | None) -> None:
    """Check, under the lock, that the run still has the status that was read before.

    Raises `BusyError` if another process has trained it in between.
    """
    now = run.read().status if run.exists() else None
    if ("stopped" if now == "running" else now) != status:
        raise BusyError("another process trained this run in the meantime", got=f"{run.name}: {now}", fix="try again")


def _train(
    run: Run,
    experiment: Experiment,
    new: bool,
    execution: Execution,
    *,
    clears: bool,
) -> bool:
    """Start a new run or resume an unfinished one, train it to its end, and keep its status up to date.

    `clears`: whether the files of an earlier run are removed first. Returns whether the result is kept, which it is
    unless another process has finished the run in an object store.
    """
    config, data = experiment.config, experiment.dataset
    if clears:
        if run.exists():
            factory.of_experiment(experiment)  # an error in the scheme must leave the earlier run as it is
        run.clear()
    registered, group = False, execution.group
    try:
        with own_parts.explained(), group.initialised(execution.device):
            # errors of the configuration, the stored state or a logger are raised before the run is registered
            loop = Loop(experiment, run, execution)
            with opened(execution.loggers, _logged(run, config, loop)) as loggers:
                code = own_files(config.scheme, config.attention, config.positions)
                if new:
                    device = describe(execution.device)
                    run.write_record(new_record(run, config, data, device, experiment.variant, group.size, code))
                else:
                    _note_changes(run, config, execution)
                    run.resume(group.size, processor(), code)
                registered = True
                _note_training(run, config, loop, execution)
                result = loop.run(loggers)
    except BaseException as error:
        try:
            if registered:
                run.update(status="stopped" if _resumable(error) else "failed")
        except (ApeError, OSError) as second:  # for example, the disk is still full; the first error says more
            logger.warning(f"the status of {run.name} could not be stored: {str(second).splitlines()[0]}")
        raise
    kept = run.finish(result, loop.checkpointer.best, loop.at.history)
    if not kept:
        logger.warning(f"{run.name} was finished elsewhere in the meantime: that run is kept, and this one discarded")
    _tidy(run, run.remove_state)
    return kept


def _resumable(error: BaseException) -> bool:
    """Whether a run may be continued after this error. A full disk can be freed, and a dataset be restored.

    A run that has diverged would diverge again, and other errors are bugs.
    """
    stops = Stopped | RankFailedError | KeyboardInterrupt | ApeError | OSError
    return isinstance(error, stops) and not isinstance(error, DivergenceError)


def _logged(run: Run, config: Config, loop: Loop) -> LoggedRun:
    """The description of the run for metric loggers."""
    return LoggedRun(run.name, config, run.logs, loop.at.schedule.steps, tuple(loop.at.history), loop.at.step)


def _note_training(run: Run, config: Config, loop: Loop, execution: Execution) -> None:
    """Log the start of the training: name, steps and device, and the size of a scheme that is bounded by it."""
    beyond = position.load(config.scheme).beyond
    if beyond:
        logger.info(f"{config.scheme} has the size {config.max_size}: {beyond} (`max_size` changes the size)")
    device, processes = execution.device, execution.group.size
    where = f"on {device}" if processes == 1 else f"in {processes} processes on {device.type}"
    amount = f"{loop.at.schedule.steps:,} steps of up to {config.batch_size} rows, {loop.setup.epochs:.3g} epochs"
    logger.info(f"training {run.name}: {amount}, {where}")


def _note_changes(run: Run, config: Config, execution: Execution) -> None:
    """Log a message if the run resumes with other arithmetic, or with another number of processes."""
    group, earlier, here = execution.group, run.known.last_processor, processor()
    if execution.device.type == "cpu" and earlier and earlier != here:
        then, now = (f"{one.get('products', 'an unknown library')} on {one.get('name')}" for one in (earlier, here))
        digits = "the last digits of its results will differ from those of a run without a stop"
        logger.warning(f"the run was trained with {then} so far, and continues with {now}: {digits}")
    before = run.known.processes
    if before != group.size:
        same = "the batches are the same" + (", the masks of dropout are not" if config.dropout else "")
        processes = f"{before} process{'' if before == 1 else 'es'}"
        logger.info(f"the run was trained in {processes} so far, and continues in {group.size}: {same}")
