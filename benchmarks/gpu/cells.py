"""The runs of `record`, their order, and an estimate of their time.

The estimate is steps x milliseconds of a step, plus the time of a run beside its steps. The time of a step is linear in
the padded tokens of a row. The coefficients are those of an H100 (2026-11, `maintainers/benchmarks.md`) until `steps`
has measured others.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from ape_cli.runs.registry import Registry
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath
from ape_cli.sweep import combinations, specification, stages
from ape_cli.sweep.durations import PastRuns
from ape_cli.sweep.planning import PlannedTrial
from ape_cli.training import schedule

RESULTS = Path(__file__).parents[2] / "results"
SWEEPS = ("table2-neurips", "table1-neurips", "table2-paper", "table1-paper")  # the most useful first


def items(
    preset: str | None, precision: str, registry: Registry, datasets: StoragePath, recorded: Registry
) -> list[PlannedTrial]:
    """The trials of `SWEEPS` in their order, those of the first seed first, with their states in a registry.

    `preset`: instead of that of the sweeps. The fingerprint of a dataset that is not generated yet is that of a run in
    `recorded`, if one used it.
    """
    given = specification.layer({"precision": precision} | ({} if preset is None else {"preset": preset}))
    grids = [grid for sweep in SWEEPS for grid in specification.read(RESULTS / f"{sweep}.toml", given)]
    planned = stages.plan(combinations.groups(grids, "paper"), registry, datasets, PastRuns(recorded))
    assert not planned.left, planned.left
    return planned.first


@dataclass(frozen=True)
class Pace:
    """How fast a machine trains a model of the paper's size. `relative` has a factor for each slower scheme."""

    step_ms: float = 0.8  # of a step, for any batch
    token_ms: float = 0.075  # of a step, for each token of a source row, at 64 rows
    run_seconds: float = 20.0  # of a run beside its steps: recording graphs, validation and evaluation
    start_seconds: float = 15.0  # of a process before its first run
    relative: tuple[tuple[str, float], ...] = (("orthogonal-tree", 1.7), ("orthogonal-seq", 1.15), ("relative", 1.2))
    measured: str = "default, from an H100"

    def seconds(self, item: PlannedTrial, together: int = 1) -> float:
        """The estimated time of the rest of a run, beside `together - 1` others.

        The runs share one GPU, and one run keeps it busy.
        """
        own, data = item.config, item.data
        steps = schedule.steps_of(own, -(-data.plan.rows["train"] // own.batch_size))
        width = own.d_model * statistics.fmean(own.feed_forward_widths) / (512 * 2048) * own.batch_size / 64
        step = self.step_ms + self.token_ms * data.mean_tokens * width
        left = steps - _done(item)
        return left * step * dict(self.relative).get(own.scheme, 1.0) / 1e3 * together + self.run_seconds


def _done(item: PlannedTrial) -> int:
    """The number of steps of a stopped run up to its last validation; 0 for other runs."""
    if item.run is None or item.state != "stopped" or not (item.run.folder / "history.parquet").exists():
        return 0
    with files.local(item.run.folder / "history.parquet") as path:
        history = pq.read_table(path)
    return int(history["step"][-1].as_py()) if history.num_rows else 0


@dataclass(frozen=True)
class Planned:
    """A run and its estimated begin and end, in seconds from the beginning of the stage."""

    item: PlannedTrial
    begin: float
    end: float


def schedule_within(
    waiting: Sequence[PlannedTrial], seconds: float, workers: int, pace: Pace
) -> tuple[list[Planned], list[PlannedTrial]]:
    """Plan runs in their order, each on the worker that is free first. -> the planned runs, and the others

    A run that would end too late is not planned. Stopped runs come first, because their state would be lost with the
    machine.
    """
    free = [pace.start_seconds] * max(1, workers)
    planned, left = [], []
    for item in sorted(waiting, key=lambda item: item.state != "stopped"):
        which = min(range(len(free)), key=free.__getitem__)
        end = free[which] + pace.seconds(item, len(free))
        if end > seconds:
            left.append(item)
            continue
        planned.append(Planned(item, free[which], end))
        free[which] = end
    return planned, left
