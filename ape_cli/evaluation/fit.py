"""Whether a run can be evaluated on a dataset.

The run has to be finished, and its task, structure, answers, image size and vocabulary have to be those of the dataset.
"""

from __future__ import annotations

import shlex
from typing import Any

from ape_cli import tasks
from ape_cli.core.errors import ApeError, DataError, UsageError
from ape_cli.data.loader import Dataset
from ape_cli.models.own_files import check_installed, warn_if_changed
from ape_cli.runs.config import read_config
from ape_cli.runs.run import Run


def check_finished(run: Run) -> dict[str, Any]:
    """The content of run.json of a finished run.

    Raises `UsageError` if the run is not finished, and `RunError` if its own scheme is missing here or has changed.
    """
    about = run.read()
    status = run.status_in(about)
    if status != "finished":
        resume = f"`ape train --config {shlex.quote(str(run.folder / 'run.json'))} --resume`"
        fixes = {"running": "wait for it", "failed": "train it again with --overwrite, or with other settings"}
        fix = fixes.get(status, f"resume it: {resume}")
        raise UsageError("the run is not finished", got=f"{run.name}: {status}", fix=fix)
    config = read_config(about["config"])
    check_installed(config)
    warn_if_changed(about)
    return about


def misfit(own: dict[str, Any], data: Dataset) -> DataError | None:
    """The reason why a run that was trained on `own` cannot be evaluated on `data`, or None if it can."""
    plan = data.manifest.plan
    same = own.get("fingerprint") == data.fingerprint
    trained_tags = bool(plan.tagged if same else own.get("tagged"))
    compared: dict[str, list[Any]] = {  # of the dataset and of the run
        "task or order": [[plan.task, plan.linearisation or ""], [own["task"], own["order"] or ""]],
        "structure": [
            _form(plan.structure.expression, plan.parameters),
            _form(own["structure"], own["parameters"]),
        ],
        "kind of answers": [
            _answers(plan.task, plan.parameters, tagged=bool(plan.tagged)),
            _answers(own["task"], own["parameters"], tagged=trained_tags),
        ],
        "size of images": [list(data.image) if data.image else None, own.get("image")],
        "vocabulary": [data.manifest.vocabulary, own["vocabulary"]],
    }
    for what, (there, trained) in compared.items():
        if there != trained:
            return DataError(
                f"the dataset has another {what} than the one the run was trained on",
                got=f"{data.name}: {_text(there)}",
                allowed=f"{own['name']}: {_text(trained)}",
                fix="choose a dataset of the run's own task and options; its sizes may differ",
            )
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
    known, given = tasks.options_of(loaded), loaded.recorded(parameters)
    return ", ".join([*(f"{name} {given.get(name, known[name].default)}" for name in loaded.answer_options), *form])


def _text(value: Any) -> str:
    """What is compared, as text: for a vocabulary, its first symbols."""
    if isinstance(value, list) and len(value) > 3:
        return f"{len(value)} ids, {' '.join(value[3:9])} …"
    return " ".join(map(str, value)).strip() if isinstance(value, list) else str(value or "none")
