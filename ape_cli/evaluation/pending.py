"""Which evaluations are still missing, and which datasets a run can be evaluated on."""

from __future__ import annotations

from collections.abc import Sequence

from ape_cli.core.errors import RunError
from ape_cli.data.loader import Dataset
from ape_cli.evaluation.fit import misfit
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run


def pending(
    registry: Registry, data: Sequence[Dataset], split: str, decode: str
) -> tuple[list[tuple[Run, Dataset | None]], list[str]]:
    """The evaluations that are still missing, and a line about each problem.

    The first list has finished runs, each with every dataset of `data` that it fits. If `data` is empty, None stands
    for the run's own dataset. Runs on images are never decoded greedily. The second list has a line about each run
    that cannot be read, one about the runs without weights, and one about those that fit none of the datasets.
    """
    missing: list[tuple[Run, Dataset | None]] = []
    bad: list[str] = []
    weightless = unfit = 0
    for run, known in registry.readable(bad):
        trained = known.dataset
        fits: list[Dataset | None] = [d for d in data if not misfit(trained, trained.vocabulary, d)] if data else [None]
        if run.status_in(known) != "finished" or (decode == "greedy" and trained.image):
            continue
        unfit += not fits
        done = {(e["fingerprint"], e["split"], e["decode"]) for e in run.evaluations()[0]}
        of_run: list[tuple[Run, Dataset | None]] = []
        for other in fits:
            rows = trained.rows if other is None else other.manifest.plan.rows
            fingerprint = trained.fingerprint if other is None else other.manifest.fingerprint
            if rows[split] and (fingerprint, split, decode) not in done:
                of_run.append((run, other))
        if of_run and not run.has_weights():
            weightless += 1
            continue
        missing += of_run
    if weightless:
        bad.append(f"{_runs(weightless)} without weights, which only training again brings back (--overwrite)")
    if unfit:
        bad.append(_unfit(unfit, len(data)))
    return missing, bad


def _unfit(runs: int, datasets: int) -> str:
    """A line about runs that fit none of some datasets."""
    which = "this dataset" if datasets == 1 else "these datasets"
    return f"{_runs(runs)} of another task, structure or vocabulary than {which}"


def _runs(number: int) -> str:
    """A number of finished runs in words."""
    return f"{number:,} finished run{'s' * (number != 1)}"


def fitting(run: Run, data: Sequence[Dataset]) -> Sequence[Dataset]:
    """The datasets that fit a run. If none fits, all are returned, and `evaluate` raises an error that says why."""
    try:
        trained = run.known.dataset
    except RunError:
        return data
    return [d for d in data if not misfit(trained, trained.vocabulary, d)] or data
