"""Count what baselines without a model reach on the datasets of some sweeps of results/.

    python results/floors.py       writes results/floors.csv, and generates the datasets that are missing

Run `results/trees.sh` and `results/indirect.sh` first. `make record` prints the numbers.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from ape_cli import tasks
from ape_cli.evaluation.count_baselines import count_baselines
from ape_cli.experiment.resolution import prepared
from ape_cli.reports.evaluations import task_of
from ape_cli.runs.registry import open_registry
from ape_cli.sweep import combinations, specification, stages

RESULTS = Path(__file__).resolve().parent
SWEEPS = ("tasks", "trees", "indirect", "chomsky")


def counted(sweep: str) -> list[dict[str, object]]:
    """The scores of each baseline on each dataset of a sweep, from 0 to 1."""
    grids = specification.read(RESULTS / f"{sweep}.toml")
    datasets = RESULTS.parent / "datasets"
    groups = combinations.groups(grids, "small", lambda name: datasets / name)
    items = stages.plan(groups, open_registry(RESULTS / "record"), datasets).trials
    lines = []
    for item in {item.data.folder: item for item in items}.values():
        data = prepared(item.experiment).data
        form = tasks.load(data.task).form(data.parameters)
        column = task_of({"task": data.task, "order": data.order, "form": form})
        for baseline, scores in count_baselines(data, "test").counted.items():
            rounded = {name: round(score, 6) for name, score in scores.items()}
            lines.append({"sweep": sweep, "column": column, "baseline": baseline, **rounded})
    return lines


def main() -> None:
    """Write the table of all sweeps."""
    lines = [line for sweep in SWEEPS for line in counted(sweep)]
    pl.DataFrame(lines).write_csv(RESULTS / "floors.csv")


if __name__ == "__main__":
    main()
