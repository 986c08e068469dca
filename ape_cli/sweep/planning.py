"""Planning of a sweep: the trials of its grids, the state of each in registry and datasets folder, and its time.

Planning changes no files, except that `prepare` generates missing datasets.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ape_cli.core.errors import RunError, UsageError
from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate
from ape_cli.experiment import Experiment, ExperimentSpec, find_dataset, resolve
from ape_cli.experiment.generalisation import LengthGeneralisation, sizes_for
from ape_cli.experiment.resolution import IMPOSSIBLE, prepared
from ape_cli.experiment.spec import NO_EXTRA_EVALUATIONS, ExtraEvaluations
from ape_cli.runs import record
from ape_cli.runs.config import Config
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.storage.paths import StoragePath
from ape_cli.sweep.durations import PastRuns

_SHORT = 100.0  # seconds: a task of a cluster should not be shorter


@dataclass(frozen=True)
class PlannedTrial:
    """A trial of a sweep and its state.

    `run` is None as long as its name is not known. `state` is `finished`, `new`, `stopped` or `failed` (which are
    resumed), `damaged` (training it reports the damage), or `running` in another process. It is `open` if the settings
    in `tuned` have to be chosen first. Its time is estimated from the runs in `past`. `tests` are its evaluations, and
    `others` the open datasets of test rows at other sizes, once it is prepared.
    """

    experiment: Experiment
    run: Run | None
    state: str
    past: PastRuns
    tests: ExtraEvaluations = NO_EXTRA_EVALUATIONS
    others: tuple[Dataset, ...] = ()
    tuned: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """The estimated seconds of its training, or None."""
        return self.past.estimate(self.config, self.data)

    @property
    def config(self) -> Config:
        """The configuration of the experiment."""
        return self.experiment.config

    @property
    def data(self) -> Dataset:
        """The dataset of the experiment."""
        return self.experiment.data

    @property
    def variant(self) -> str:
        """The settings that differ from the preset."""
        return record.settings_text(self.experiment.variant | dict.fromkeys(self.tuned, "?"))

    @property
    def name(self) -> str:
        """The name of the run. It is incomplete if the dataset has no fingerprint yet."""
        parts = (self.data.task, self.data.order, self.config.scheme, str(self.config.seed))
        return self.run.name if self.run else "-".join(p for p in parts if p) + "-…"

    def joined(self, other: PlannedTrial) -> PlannedTrial:
        """The trial with the evaluations of another trial of the same run too.

        Raises `UsageError` if both have test rows at other sizes, and these differ.
        """
        sizes = {self.tests.generalise, other.tests.generalise} - {False}
        if len(sizes) > 1:
            what = "two grids have the same run with different sizes in `generalise`"
            raise UsageError(what, got=self.name, fix="give it the same sizes in both")
        decode = max(self.tests.decode, other.tests.decode, key=record.DECODINGS.index)
        state = "stopped" if "stopped" in (self.state, other.state) else self.state
        tests = ExtraEvaluations(next(iter(sizes), False), decode)
        return replace(self, state=state, tests=tests, others=self.others or other.others)


class Planner:
    """Plans trials. Each trial and each dataset is looked at once, and nothing is generated.

    The fingerprint of a missing dataset is taken from registered runs that used it (`past`).
    """

    def __init__(self, registry: Registry, datasets: StoragePath, past: PastRuns | None = None) -> None:
        """Read the registered runs, unless `past` has done so."""
        self.registry, self.past = registry, past or PastRuns(registry)
        self.root, self.lengths = datasets, LengthGeneralisation(datasets)
        self._datasets: dict[Any, Dataset] = {}
        self._planned: dict[str, PlannedTrial | str] = {}  # the trial, or why it is impossible

    def trial(self, request: ExperimentSpec) -> PlannedTrial | None:
        """A trial with its state, or None if it is impossible.

        Raises `DataError` if a dataset is damaged or is not the one that is needed, and `UsageError` for unknown names
        and invalid values.
        """
        trial = self._trial(request)
        return None if isinstance(trial, str) else trial

    def obstacle(self, request: ExperimentSpec) -> str:
        """Why a trial is impossible. Empty if it is possible."""
        trial = self._trial(request)
        return trial if isinstance(trial, str) else ""

    @property
    def left(self) -> list[str]:
        """A line about each trial that is impossible."""
        return list(dict.fromkeys(reason for reason in self._planned.values() if isinstance(reason, str)))

    def _trial(self, request: ExperimentSpec) -> PlannedTrial | str:
        """A trial, or why it is impossible. It is looked at once."""
        if (key := repr(request)) not in self._planned:
            data = find_dataset(request, self.root, self.past.datasets, self._datasets)
            try:
                experiment = resolve(request, data)
            except IMPOSSIBLE as error:
                self._planned[key] = f"{request.scheme} on {data.folder.name}: {error.summary}"
            else:
                self._planned[key] = _planned(experiment, self.registry, self.past, request.tests, self.lengths)
        return self._planned[key]


def unique(items: Iterable[PlannedTrial]) -> list[PlannedTrial]:
    """The trials, each run once with all of its evaluations, even if its name is not known yet.

    Raises `UsageError` as `PlannedTrial.joined`.
    """
    trials: dict[str, PlannedTrial] = {}
    for item in items:
        unnamed = f"{item.state} {item.tuned} {item.data.folder} {item.config.model_dump_json()}"
        key = item.run.name if item.run else unnamed
        trials[key] = trials[key].joined(item) if key in trials else item
    return list(trials.values())


def per_task(items: list[PlannedTrial]) -> int:
    """The number of trials in a task of a cluster, so that a task takes a minute or two and there are at least 16."""
    seconds = [item.seconds for item in items if item.seconds is not None]
    usual = statistics.median_high(seconds) if seconds else _SHORT
    return max(1, min(int(_SHORT / max(usual, 1.0)), len(items) // 16))


def _planned(
    experiment: Experiment, registry: Registry, past: PastRuns, tests: ExtraEvaluations, lengths: LengthGeneralisation
) -> PlannedTrial:
    """Plan one trial."""
    run = registry.run_for(experiment.config, experiment.data) if experiment.is_named else None
    state = "new" if run is None else _state(run, experiment.data, tests, lengths)
    return PlannedTrial(experiment, run, state, past, tests)


def _state(run: Run, data: Dataset, tests: ExtraEvaluations, lengths: LengthGeneralisation) -> str:
    """The state of a run, as in `PlannedTrial`. A run whose files cannot be read is damaged."""
    if not run.exists():
        return "new"
    try:
        state = run.status
        done = state != "finished" or (_is_tested(run, data, tests, lengths) and not run.has_leftovers())
    except (RunError, OSError):
        return "damaged"
    # a run that was stopped before its evaluation, or before it was tidied, has to be resumed
    return state if done else "stopped"


def _is_tested(run: Run, data: Dataset, tests: ExtraEvaluations, lengths: LengthGeneralisation) -> bool:
    """Whether a finished run has all of its evaluations. Missing training data is not needed to tell."""
    if evaluate.missing(run, [data], tests):
        return False
    if not tests.generalise:
        return True
    if data.missing:
        sizes = sizes_for(data, tests.generalise)
        at_other_sizes = (evaluation for evaluation in run.evaluations()[0] if evaluation.get("test_only"))
        done = {e["decode"] for e in at_other_sizes if sizes <= {metrics["size"] for metrics in e["by_size"]}}
        return done >= set(tests.decodings(data))
    other, _ = lengths.of(data, tests.generalise)
    return other is None or not (other.missing or evaluate.missing(run, [other], tests))


def prepare(items: list[PlannedTrial], registry: Registry, datasets: StoragePath) -> list[PlannedTrial]:
    """Generate the missing datasets of the trials in `datasets`, and return the trials with their datasets.

    If another process is generating a dataset, this waits for it. Each dataset is opened once. If two trials turn out
    to be the same run, they become one.
    """
    ready: list[PlannedTrial] = []
    lengths = LengthGeneralisation(datasets)
    for item in items:
        now = item
        if item.state != "finished":
            experiment, tests = prepared(item.experiment), item.tests
            others = lengths.opened(experiment.data, tests.generalise, experiment.config)
            now = replace(_planned(experiment, registry, item.past, tests, lengths), others=tuple(others))
        ready.append(now)
    return unique(ready)
