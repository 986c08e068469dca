"""Which runs can be evaluated on which datasets, and which evaluations are still missing.

The run has to be finished, and its task, structure, answers, image size and vocabulary have to be those of the dataset.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from typing import Any

from ape_cli import tasks
from ape_cli.core.errors import LEFT_OUT, ApeError, DataError, RunError, UsageError
from ape_cli.data.loader import Dataset
from ape_cli.models.factory import check_installed, warn_if_changed
from ape_cli.runs.record import RECORD, DatasetRecord, RunRecord
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run

logger = logging.getLogger(__name__)


def check_finished(run: Run) -> RunRecord:
    """The content of run.json of a finished run.

    Raises `UsageError` if the run is not finished, and `RunError` if its own scheme is missing here.
    """
    known = run.record
    status = run.status_in(known)
    if status != "finished":
        resume = f"`ape train --config {shlex.quote(str(run.folder / RECORD))} --resume`"
        fixes = {"running": "wait for it", "failed": "train it again with `overwrite`, or with other settings"}
        fix = fixes.get(status, f"resume it: {resume}")
        raise UsageError("the run is not finished", got=f"{run.name}: {status}", fix=fix)
    check_installed(known.config)
    warn_if_changed(run.name, known.config, known.last_own_files)
    return known


def misfit(trained: DatasetRecord, vocabulary: list[str], data: Dataset) -> DataError | None:
    """The reason why a run that was trained on `trained` cannot be evaluated on `data`, or None if it can.

    `vocabulary`: the names of the run's ids.
    """
    plan = data.manifest.plan
    same = trained.fingerprint == data.fingerprint
    trained_tags = bool(plan.tagged if same else trained.tagged)
    compared: dict[str, list[Any]] = {  # of the dataset and of the run
        "task or order": [[plan.task, plan.linearisation or ""], [trained.task, trained.order or ""]],
        "structure": [
            _form(plan.structure.expression, plan.parameters),
            _form(trained.structure, trained.parameters),
        ],
        "kind of answers": [
            _answers(plan.task, plan.parameters, tagged=bool(plan.tagged)),
            _answers(trained.task, trained.parameters, tagged=trained_tags),
        ],
        "size of images": [data.image and list(data.image), trained.image and list(trained.image)],
        "vocabulary": [data.manifest.vocabulary, vocabulary],
    }
    for what, (of_data, of_run) in compared.items():
        if of_data != of_run:
            message = f"the dataset has another {what} than the one the run was trained on"
            got, allowed = f"{data.name}: {_text(of_data)}", f"{trained.name}: {_text(of_run)}"
            fix = "choose a dataset of the run's own task and options; its sizes may differ"
            return DataError(message, got=got, allowed=allowed, fix=fix)
    return None


def _form(structure: str, parameters: dict[str, Any]) -> str:
    """The structure of a dataset, with the branching of trees before they were binarised."""
    binarised = f", binarised from branching {parameters.get('branching', 2)}" if parameters.get("binarise") else ""
    return structure + binarised


def _answers(task: str, parameters: dict[str, Any], *, tagged: bool) -> str:
    """What decides the answers of a dataset, as text: options of its task if that is known here, and `tagged`."""
    form = ["as tags"] if tagged else []
    try:
        loaded = tasks.load(task)
    except ApeError:
        return ", ".join(form)
    known, recorded = tasks.options_of(loaded), loaded.recorded(parameters)
    return ", ".join([*(f"{name} {recorded.get(name, known[name].default)}" for name in loaded.answer_options), *form])


def _text(value: Any) -> str:
    """What is compared, as text: for a vocabulary, its first symbols."""
    if isinstance(value, list) and len(value) > 3:
        return f"{len(value)} ids, {' '.join(value[3:9])} …"
    return " ".join(map(str, value)).strip() if isinstance(value, list) else str(value or "none")


def pending(registry: Registry, data: Sequence[Dataset], split: str, decode: str) -> list[tuple[Run, Dataset | None]]:
    """The evaluations that are still missing: finished runs, each with every dataset of `data` that it fits.

    If `data` is empty, None stands for the run's own dataset. Runs on images are never decoded greedily. Warnings name
    each run that cannot be read, and count the runs without weights and those that fit none of the datasets.
    """
    missing: list[tuple[Run, Dataset | None]] = []
    weightless = unfit = 0
    for run, known in registry.readable():
        trained = known.dataset
        if run.status_in(known) != "finished" or (decode == "greedy" and trained.image):
            continue
        fits: list[Dataset | None] = [d for d in data if not misfit(trained, trained.vocabulary, d)] if data else [None]
        unfit += not fits
        done = {(e["fingerprint"], e["split"], e["decode"]) for e in run.evaluations()[0]}
        of_run: list[tuple[Run, Dataset | None]] = []
        for other in fits:
            rows, fingerprint = (other.plan.rows, other.fingerprint) if other else (trained.rows, trained.fingerprint)
            if rows[split] and (fingerprint, split, decode) not in done:
                of_run.append((run, other))
        if of_run and not run.has_weights():
            weightless += 1
        else:
            missing += of_run
    if weightless:
        logger.warning(f"{LEFT_OUT}{_runs(weightless)} without weights, which only training again brings back")
    if unfit:
        which = "this dataset" if len(data) == 1 else "these datasets"
        logger.warning(f"{LEFT_OUT}{_runs(unfit)} of another task, structure or vocabulary than {which}")
    return missing


def _runs(number: int) -> str:
    """A number of finished runs in words."""
    return f"{number:,} finished run{'s' * (number != 1)}"


def fitting(run: Run, data: Sequence[Dataset]) -> Sequence[Dataset]:
    """The datasets that fit a run. If none fits, all are returned, and `evaluate` raises an error that says why."""
    try:
        trained = run.record.dataset
    except RunError:
        return data
    return [d for d in data if not misfit(trained, trained.vocabulary, d)] or data
