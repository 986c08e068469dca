"""Machines, verdicts and the progress of sweeps."""

from __future__ import annotations

from typing import get_args

from ape_cli.reports.views.verdicts import Word
from results import plans
from results.numbers import evaluations, runs
from results.plans import RESULTS
from results.verdicts import judged


def machines(preset: str, metric: str) -> list[tuple[float, float]]:
    """The scores of the runs of a preset that were trained on two machines: on the first, and on the second."""
    return [
        (100 * evaluations()[key][seed][0]["overall"][metric], 100 * again[0]["overall"][metric])
        for key, seeds in evaluations(RESULTS / "processors" / "runs.parquet").items()
        if key[0] == preset
        for seed, again in seeds.items()
    ]


def machine_gaps(metric: str) -> list[float]:
    """How many points the runs of preset medium differ by between two machines."""
    return [abs(first - second) for first, second in machines("medium", metric)]


def on_gpus(preset: str) -> int:
    """The number of runs of a preset that were trained on a GPU."""
    return len({run.name for run, about in runs() if about.config.preset == preset and about.device == "cuda"})


def verdict_counts(source: str) -> list[int]:
    """The number of verdicts, then of each kind: reproduced, differs for a likely reason, for an open one, not run."""
    words = [cell.follows for cell in judged(source)]
    return [len(words), *(words.count(word) for word in get_args(Word))]


def standing(*sweeps: str) -> list[int]:
    """The numbers of finished runs, and of all runs, of some sweeps together."""
    counts = [plans.standing(sweep) for sweep in sweeps]
    return [sum(column) for column in zip(*counts, strict=True)]
