"""The description of each run in tables: its row, its column, and what tells it from other runs.

Runs that differ in anything but the seed never share a row. That includes the code of a user's own scheme or kind of
attention: runs that were trained with another version of it have a row of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from ape_cli import tasks
from ape_cli.core.errors import ApeError
from ape_cli.core.plugins import DIGITS
from ape_cli.reports import paper
from ape_cli.runs.config import PRESETS
from ape_cli.runs.record import RunRecord, Trained, settings_text
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.structure import linearisation

CODE = "code "  # begins the part of a variant that names the version of own code; settings contain "="

_PARTS = itemgetter("scheme", "attention")


def described(registry: Registry, bad: list[str]) -> Iterator[tuple[Run, RunRecord, dict[str, Any]]]:
    """Each readable run, its run.json, and its description for tables.

    A line of text about each unreadable run is appended to `bad`.

    If the runs of a user's own scheme were trained with different versions of its code, their `variant` and their
    `configuration` end with the first digits of its SHA-256. The same holds for a kind of attention. Runs with own
    code come last.
    """
    versions: dict[tuple[str, str], set[str]] = {}  # of each scheme with a kind of attention: those of its own files
    of_own_code: list[tuple[Run, RunRecord, dict[str, Any], str]] = []
    for run, record, of_run in _describe_each(registry, bad):
        version = "+".join(digest[:DIGITS] for _, digest in sorted(record.own_files.items()))
        versions.setdefault(_PARTS(of_run), set()).add(version)
        if version:  # how many versions there are is known at the end
            of_own_code.append((run, record, of_run, version))
        else:
            yield run, record, of_run
    for run, record, of_run, version in of_own_code:
        if len(versions[_PARTS(of_run)]) > 1:
            of_run["variant"] = ", ".join(filter(None, [of_run["variant"], f"{CODE}{version}"]))
            of_run["configuration"] += f"-{version}"
        yield run, record, of_run


def _describe_each(registry: Registry, bad: list[str]) -> Iterator[tuple[Run, RunRecord, dict[str, Any]]]:
    """`described`, without a look at the files of schemes and kinds of attention."""
    for run, record in registry.readable(bad):
        config, trained = record.config, record.dataset
        try:
            is_paper_size = _is_paper_size(config.preset, trained)
        except ApeError as error:  # the task of the run does not have its order
            bad.append(f"{run.name}: {error.summary}")
            continue
        yield (
            run,
            record,
            {
                "task": trained.task,
                "order": trained.order,
                "scheme": config.scheme,
                "variant": settings_text(record.variant),
                "configuration": config.digest(trained.fingerprint, without=("seed",)),
                "attention": config.attention,
                "preset": config.preset,
                "seed": config.seed,
                "structure": trained.structure,
                "form": _form(trained),
                "trained_on": trained.name,
                "trained_fingerprint": trained.fingerprint,
                "paper_size": is_paper_size,
            },
        )


def _form(trained: Trained) -> str:
    """The form of a task's dataset, as the task names it: `branching 3, binarised`. Empty if the task is not known."""
    try:
        return tasks.load(trained.task).form(trained.parameters)
    except (ApeError, LookupError):
        return ""


def _is_paper_size(preset: str, trained: Trained) -> bool:
    """Whether a run has the model of the paper, and its rows and its sizes of words or trees, or all of its images."""
    rows = trained.rows
    if preset == "paper" and trained.image:
        # validation rows are held out of the images for training; equal images decide how many
        everything = (rows["train"] + rows["validation"], rows["test"]) == paper.IMAGES_ROWS
        return _form(trained) == paper.SOURCE and everything
    if preset != "paper" or trained.task not in tasks.names() or tasks.load(trained.task).fixed_rows:
        return False
    options = tasks.load(trained.task).preset_options.get(preset, {})
    of_paper = tasks.make(trained.task, *linearisation.parse(trained.order), **options).parameters
    return bool(trained.parameters == of_paper and rows == PRESETS["paper"].rows)
