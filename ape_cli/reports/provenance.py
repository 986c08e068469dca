"""Where a report comes from: when and by which program it was written, what was selected, and its runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime

import ape_cli
from ape_cli.core.errors import UsageError
from ape_cli.reports.evaluations import METRICS, measured
from ape_cli.reports.run_descriptions import described
from ape_cli.reports.tables import Table
from ape_cli.reports.views import Options
from ape_cli.runs.commit import commit
from ape_cli.runs.record import RunRecord
from ape_cli.runs.registry import Registry

_NOTES = [
    "These are the runs that were read for this report. ape and commit: the version of the program that trained them."
]


def written() -> str:
    """The time at which a report is written, in UTC.

    The environment variable SOURCE_DATE_EPOCH, in seconds since 1970, replaces the present time, so that the same
    results give the same bytes. Raises `UsageError` if it is not a number of seconds.
    """
    told = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        time = datetime.now(UTC) if told is None else datetime.fromtimestamp(int(told), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            "bad environment variable SOURCE_DATE_EPOCH",
            got=repr(told),
            allowed="a whole number of seconds since 1970",
            fix="correct or unset it",
        ) from error
    return time.strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True)
class Origin:
    """Where a report comes from."""

    title: str
    facts: list[tuple[str, str]]  # names and values
    runs: Table
    tasks: frozenset[str]  # of the runs

    def name_of(self, metric: str) -> str:
        """The name of a metric for the tasks of the runs."""
        return measured(metric, self.tasks)[0]

    def metrics(self, first: str) -> list[str]:
        """All metrics with different names, and `first` in the first place. Images have one accuracy."""
        names: dict[str, str] = {}
        for metric in (first, *METRICS):
            names.setdefault(self.name_of(metric), metric)
        return list(names.values())


def read(registry: Registry, options: Options) -> Origin:
    """Read the runs of a report, without those that cannot be read.

    Raises `UsageError` if SOURCE_DATE_EPOCH is not a number of seconds.
    """
    rows, tasks = [], set()
    for run, known, of_run in described(registry, []):
        rows.append((run.name, _cells(known, run.status_in(known))))
        tasks.add(of_run["task"])
    columns = ["status", "preset", "ape", "commit", "device", "started", "finished"]
    chosen, sweep = str(registry.chosen), options.sweep
    facts = [
        ("Written", written()),
        ("Program", f"ape {ape_cli.__version__}, commit {_short(commit() or 'unknown')}"),
        ("Scores", f"{options.split} split, {options.decode} decoding"),
        *([("Sweep", sweep)] if sweep else []),
        *([("Filter", chosen)] if chosen else []),
        ("Runs", f"{len(rows):,}"),
    ]
    title = f"ape report: {sweep.removesuffix('.toml')}" if sweep else "ape report"
    return Origin(title, facts, Table("Runs", _NOTES, columns, rows, "", head="run"), frozenset(tasks))


def _cells(known: RunRecord, status: str) -> list[str | None]:
    """The cells of a run."""
    times = [time and time[:16].replace("T", " ") for time in (known.started, known.finished)]
    commit_of_run = known.commit and _short(known.commit)
    return [status, known.config.preset, known.versions.get("ape"), commit_of_run, known.device, *times]


def _short(commit: str) -> str:
    """The first digits of a commit, and the "+" of a commit whose files had changes.

    >>> _short("98c880d958f755497cb5ecb60eb40a2d037165ee+")
    '98c880d+'
    """
    return commit[:7] + "+" * (len(commit) > 7 and commit.endswith("+"))
