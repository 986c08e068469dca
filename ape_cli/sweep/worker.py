"""The worker of a sweep, which runs one trial on an executor.

Finished runs are skipped, stopped runs are resumed, and failed runs are tried again. A failed trial does not stop the
others. Every trial is a run of the registry, which holds all state. So a sweep that was killed is continued by the same
command.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ape_cli.core.errors import ApeError, BusyError, messages_to
from ape_cli.core.executors import Job, JobContext, failure
from ape_cli.data.loader import open_dataset
from ape_cli.experiment import Experiment
from ape_cli.experiment.spec import NO_EXTRA_EVALUATIONS, ExtraEvaluations
from ape_cli.models.device import choose_device, use_gpu
from ape_cli.runs.config import Config
from ape_cli.runs.registry import Registry, open_registry
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath
from ape_cli.sweep.planning import PlannedTrial
from ape_cli.training import trial
from ape_cli.training.execution import Execution, ExistingRun
from ape_cli.training.loggers import LoggedRun, LoggerFactory, MetricLogger, is_validation, load

_RETRY_EVERY = 2.0  # seconds between two attempts
_REPORT_EVERY = 1.0  # seconds between two reports of a trial's progress


@dataclass(frozen=True)
class Work:
    """The arguments of a trial, which are sent to the worker."""

    name: str  # name of the run
    config: Config
    data: StoragePath
    results: StoragePath
    device: str
    compiled: bool
    loggers: tuple[str, ...] = ()  # names of metric loggers
    tests: ExtraEvaluations = NO_EXTRA_EVALUATIONS
    others: tuple[StoragePath, ...] = ()  # datasets of test rows at other sizes


def job(item: PlannedTrial, registry: Registry, device: str, compiled: bool, loggers: Sequence[str] = ()) -> Job:
    """The job of a trial, for an executor. The arguments are those of `Work`."""
    assert item.run is not None
    work = Work(
        name=item.run.name,
        config=item.config,
        data=item.data.folder,
        results=registry.folder,
        device=device,
        compiled=compiled,
        loggers=tuple(loggers),
        tests=item.tests,
        others=tuple(other.folder for other in item.others),
    )
    return Job(work.name, train_one, (work,))


def train_one(context: JobContext, work: Work) -> dict[str, Any]:
    """Train or resume one run and evaluate it, or find it finished. Returns its outcome.

    Messages go into a log. If the trial fails, the log is written to `results/logs/RUN.log`.
    """
    log, path = io.StringIO(), log_of(work.results, work.name)
    with contextlib.suppress(OSError, ApeError):
        path.unlink(missing_ok=True)  # the log of an earlier failure
    try:
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log), messages_to(print):
            return _train(context, work)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        log.write(f"{failure(error)}\n")
        with contextlib.suppress(OSError, ApeError):  # a full disk must not hide what went wrong
            files.write_text(path, log.getvalue().encode("utf-8", "backslashreplace").decode())
        raise


def log_of(results: StoragePath, run: str) -> StoragePath:
    """The path of the log of a failed trial."""
    return results / "logs" / f"{run}.log"


class _Progress(MetricLogger):
    """Reports the progress of a trial to the process that runs the sweep, at most once a second."""

    def __init__(self, context: JobContext, run: LoggedRun) -> None:
        """Keep the connection to the sweep."""
        self.context, self.steps, self.reported = context, run.steps, 0.0
        self.validation = run.history[-1]["validation_token_accuracy"] if run.history else None

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Report the progress."""
        if is_validation(metrics):
            self.validation = metrics["validation_token_accuracy"]
        elif time.monotonic() - self.reported > _REPORT_EVERY:
            self.reported = time.monotonic()
            recent = {"loss": metrics["recent_loss"], "accuracy": metrics["recent_token_accuracy"]}
            self.context.report({"step": step, "steps": self.steps, "validation": self.validation, **recent})

    def close(self) -> None:
        """Do nothing, because the end of the job is reported by the executor."""


def _train(context: JobContext, work: Work) -> dict[str, Any]:
    """Train one run. Waits if another process has locked it. Raises `KeyboardInterrupt` if the sweep stops."""
    from ape_cli.training.trainer import Stopped

    device = choose_device(work.device)
    use_gpu(device, context.number)
    registry, planned = open_registry(work.results), Experiment(work.config, open_dataset(work.data))
    others = [open_dataset(folder) for folder in work.others]
    loggers: list[LoggerFactory] = [partial(_Progress, context), *map(load, work.loggers)]
    execution = Execution(device, work.compiled, context.stopping, loggers=loggers)
    existing = ExistingRun.RESUME_OR_START
    while True:
        try:
            done = trial.run_trial(planned, registry, execution, existing=existing, tests=work.tests, others=others)
        except BusyError:
            if context.stopping():
                raise KeyboardInterrupt from None
            context.report({"waiting": True})
            time.sleep(_RETRY_EVERY)
        except Stopped:
            raise KeyboardInterrupt from None
        else:
            seconds = done.run.record.outcome.seconds
            test = done.evaluation["overall"]["token_accuracy"] if done.evaluation else None
            return {"trained": done.trained, "seconds": seconds, "test": test}


@contextlib.contextmanager
def shared_gpu(several: bool) -> Iterator[bool]:
    """Run NVIDIA's multi-process service, for `several` processes at the same time on one GPU, if it is installed.

    Yields whether these processes use the service. Without it, their kernels take turns. If the service is already
    running, it is neither started nor stopped.
    """
    control = shutil.which("nvidia-cuda-mps-control")
    if not several or control is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield "CUDA_MPS_PIPE_DIRECTORY" in os.environ
        return
    with tempfile.TemporaryDirectory() as folder:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        daemon = subprocess.run([control, "-d"], check=False, capture_output=True, env=os.environ | variables)
        started = daemon.returncode == 0
        if started:
            os.environ.update(variables)
        try:
            yield started
        finally:
            if started:
                subprocess.run([control], input=b"quit\n", check=False, capture_output=True, timeout=30)
                for name in variables:
                    os.environ.pop(name, None)
