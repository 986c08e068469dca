"""Whether a run can be evaluated on a dataset.

The run has to be finished, and its task, structure, answers, image size and vocabulary have to be those of the dataset.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from ape_cli import tasks
from ape_cli.core.errors import ApeError, DataError, UsageError
from ape_cli.data.loader import Dataset
from ape_cli.models.own_files import check_installed, check_own_files
from ape_cli.runs.record import RECORD, RunRecord, TrainingData
from ape_cli.runs.run import Run


def check_finished(run: Run) -> RunRecord:
    """The content of run.json of a finished run.

    Raises `UsageError` if the run is not finished, and `RunError` if its own scheme is missing here or has changed.
    """
    known = run.known
    status = run.status_in(known)
    if status != "finished":
        raise UsageError(
            "the run is not finished",
            got=f"{run.name}: {status}",
            fix={
                "running": "wait for it",
                "failed": "train it again with --overwrite, or with other settings",
            }.get(status, f"resume it: `ape train --config {shlex.quote(str(run.folder / RECORD))} --resume`"),
        )
    check_installed(known.config)
    check_own_files(run, known.config)
    return known


def misfit(trained: TrainingData, vocabulary: list[str], data: Dataset) -> DataError | None:
    """The reason why a run that was trained on `trained` cannot be evaluated on `data`, or None if it can.

    `vocabulary`: the names of the run's ids.
    """
    plan = data.manifest.plan
    if (trained.task, trained.order) != (plan.task, plan.linearisation):
        return DataError(
            "the dataset is of another task or order than the run",
            got=f"{plan.task} {plan.linearisation or ''}".strip(),
            allowed=f"{trained.task} {trained.order or ''}".strip(),
            fix="choose a dataset of the run's own task; sizes may differ",
        )
    ours, theirs = (
        structure + (f", binarised from branching {p.get('branching', 2)}" if p.get("binarise") else "")
        for structure, p in ((trained.structure, trained.parameters), (plan.structure.expression, plan.parameters))
    )
    if ours != theirs:
        return DataError(
            "the dataset is of another structure than the one the run was trained on",
            got=f"{data.name}: {theirs}",
            allowed=f"{trained.name}: {ours}",
            fix="generate a dataset with the run's own --branching, --binarise or --ring",
        )
    same = trained.fingerprint == data.fingerprint
    learned = _answers(trained.task, trained.parameters, tagged=bool(plan.tagged if same else trained.tagged))
    if learned != (there := _answers(plan.task, plan.parameters, tagged=bool(plan.tagged))):
        return DataError(
            "the dataset asks for other answers than the one the run was trained on",
            got=f"{data.name}: {there}",
            allowed=f"{trained.name}: {learned}",
            fix="generate a dataset with the options of the run's own dataset; sizes may differ",
        )
    if trained.image != data.image:
        return DataError(
            "the images are of another size than those the run was trained on",
            got=f"{data.name}: {_size(data.image)}",
            allowed=f"{trained.name}: {_size(trained.image)}",
            fix="choose images of the same height, width and channels",
        )
    if vocabulary != data.manifest.vocabulary:
        return DataError(
            "the dataset has another vocabulary than the one the run was trained on",
            got=f"{data.name}: {data.ids} ids, {_sketch(data.manifest.vocabulary)}",
            allowed=f"{trained.name}: {len(vocabulary)} ids, {_sketch(vocabulary)}",
            fix="generate a dataset of the same task and --vocabulary",
        )
    return None


def _answers(task: str, parameters: dict[str, Any], *, tagged: bool) -> str:
    """What decides the answers of a dataset, as text: options of its task if that is known here, and `tagged`."""
    form = ["as tags"] if tagged else []
    try:
        found = tasks.load(task)
    except ApeError:
        return ", ".join(form)
    known, given = tasks.options_of(found), found.recorded(parameters)
    return ", ".join([*(f"{name} {given.get(name, known[name].default)}" for name in found.answer_options), *form])


def _size(image: Sequence[int] | None) -> str:
    """The size of images as text."""
    return " x ".join(map(str, image)) if image else "no images"


def _sketch(vocabulary: list[str]) -> str:
    """The first symbols of a vocabulary as text."""
    return " ".join(vocabulary[3:9]) + " …"
