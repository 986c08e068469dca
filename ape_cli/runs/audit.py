"""The audit of runs: whether all files have the content that was written, and digests for files of earlier versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ape_cli.core.errors import RunError
from ape_cli.core.own_code import DIGITS
from ape_cli.runs import history, record
from ape_cli.runs.config import read_config
from ape_cli.runs.record import TrainingResult
from ape_cli.runs.run import Run
from ape_cli.runs.run_files import HISTORY, WEIGHTS
from ape_cli.storage import files


@dataclass(frozen=True)
class Audit:
    """The result of the audit of one run."""

    run: str
    state: str  # `verified`, `unverified` (nothing is wrong, but files have no digest) or `damaged`
    problems: tuple[str, ...] = ()  # a line of text about each file that is damaged, was altered or is missing
    own_files: dict[str, str] = field(default_factory=dict)  # the SHA-256 of the files that run.json records


def audit(run: Run) -> Audit:
    """Read every file of a run and check it. The weights need not exist, because they are large and often removed."""
    problems: list[str] = []
    run.unverified = False
    try:
        about = run.read()
    except RunError as error:
        return Audit(run.name, "damaged", (error.summary,))
    problems += run.evaluations(about)[1]
    for check in (partial(run.check_tensors, _result(about)), run.history if about["status"] == "finished" else None):
        try:
            if check is not None:
                check()
        except RunError as error:
            problems.append(error.summary)
    problems = problems or _contradictions(run, about)
    state = "damaged" if problems else "unverified" if run.unverified else "verified"
    return Audit(run.name, state, tuple(problems), about.get("own_files", {}))


def version_notes(audits: Iterable[Audit]) -> list[str]:
    """A sentence about each own scheme or attention of which these runs were trained with several versions."""
    versions: dict[str, Counter[str]] = {}
    for found in audits:
        for what, digest in found.own_files.items():
            versions.setdefault(what, Counter())[digest[:DIGITS]] += 1
    return [
        f"the runs of {what} were trained with {len(count)} versions of its code, so they have separate rows in tables "
        f"({', '.join(f'{version}: {runs:,} run' + 's' * (runs != 1) for version, runs in count.items())})"
        for what, count in versions.items()
        if len(count) > 1
    ]


def _result(about: dict[str, Any]) -> TrainingResult | None:
    """The result of a finished run, or None."""
    return TrainingResult.model_validate(about["result"]) if about["status"] == "finished" else None


def _contradictions(run: Run, about: dict[str, Any]) -> list[str]:
    """What the files of a run say that cannot be true together: a line of text each.

    Other commands check each file by itself. This reads all of them.
    """
    found: list[str] = []
    wanted = read_config(about["config"]).digest(about["dataset"]["fingerprint"])
    if run.name.rpartition("-")[2] != wanted:
        found.append(f"run.json contradicts the name: its configuration and data have the hash {wanted}")
    if about["status"] == "finished":
        with suppress(RunError):  # reported for itself
            rows = list(run.history(about).iter_rows(named=True))
            try:
                history.check_best(rows, about["result"])
            except ValueError as error:
                found.append(f"its files contradict each other ({error})")
    return found


def add_digests(run: Run) -> Audit:
    """Add digests to the files of a run that have none, unless a file is damaged. Returns the audit after it.

    Digests protect from later changes only: nobody can say whether a file without one was altered before.

    Raises `BusyError` if another process trains the run, and `ApeError` if a file cannot be written.
    """
    found = audit(run)
    if found.state != "unverified":
        return found
    with run.writing():
        about = run.read()
        if about["status"] == "finished":
            existing = [name for name in (WEIGHTS, HISTORY) if (run.folder / name).exists()]
            about["files"] = {name: files.sha256(run.folder / name) for name in existing} | about.get("files", {})
        else:
            run.seal_tensors()
        for evaluation in run.evaluations(about)[0]:
            run.save_evaluation(evaluation)
        record.write(run.folder / "run.json", about)
    return audit(run)
