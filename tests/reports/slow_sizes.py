"""The second program of `slow_report.py` for scores by size. It draws every test row, and compares rows as texts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

from ape_cli import tasks
from tests.reports.slow_report import Cell, text

Row = tuple[str, int]  # a source, and the number of target tokens


class Table:
    """The datasets that the same runs were evaluated on, and at each size those that are scored."""

    def __init__(self, runs: list[dict[str, Any]], data: list[str], drawn: dict[str, dict[int, list[Row]]]) -> None:
        """Choose the datasets of each size: the largest and the training data first, if they repeat no row."""
        self.runs, self.data, self.own = runs, data, runs[0]["dataset"]["fingerprint"]
        self.names = {test["fingerprint"]: test["dataset"] for run in runs for test in run["tests"]}
        self.scored: dict[int, list[str]] = {}
        self.rows: dict[int, set[Row]] = {}
        for size in sorted({size for one in data for size in drawn[one]}):
            known = {one: set(drawn[one][size]) for one in data if size in drawn[one]}
            for one in sorted(known, key=lambda one: (-len(known[one]), one != self.own, self.names[one], one)):
                if not known[one] & self.rows.setdefault(size, set()):
                    self.rows[size] |= known[one]
                    self.scored.setdefault(size, []).append(one)

    def called(self, data: Iterable[str]) -> str:
        return ", ".join(sorted(self.names[one] for one in data))

    def score(self, run: dict[str, Any], size: int, metric: str, unit: str) -> float:
        """The ratio of sums over the datasets that are scored."""
        parts = [
            part
            for test in run["tests"]
            for part in test["by_size"]
            if test["fingerprint"] in self.scored[size] and part["size"] == size
        ]
        return float(sum(part[metric] * part[unit] for part in parts) / sum(part[unit] for part in parts))


def tables_of(where: Path) -> list[Table]:
    """The tables of a folder of runs on one dataset."""
    runs = []
    for folder in sorted((where / "runs").iterdir()):
        tests = [json.loads(path.read_text()) for path in sorted(folder.glob("eval/*.json"))]
        runs.append(json.loads((folder / "run.json").read_text()) | {"tests": tests})
    drawn: dict[str, dict[int, list[Row]]] = {}
    of: dict[str, list[str]] = {}
    for run in runs:
        for test in run["tests"]:
            of.setdefault(test["fingerprint"], []).append(run["run"])
            plan = test.get("plan", run["dataset"])
            if test["fingerprint"] not in drawn:
                task = tasks.make(run["dataset"]["task"], None, **plan["parameters"])
                by_size = drawn[test["fingerprint"]] = {}
                for row in task.sample(rows=range(test["rows"]), split="test", seed=plan["seed"]).to_pylist():
                    by_size.setdefault(row["size"], []).append((str(row["source_ids"]), len(row["target_ids"]) + 1))
    sets = [[data for data in of if set(of[data]) == set(evaluated)] for evaluated in of.values()]
    found = []
    for data in [one for number, one in enumerate(sets) if one not in sets[:number]]:
        found.append(Table([run for run in runs if run["run"] in of[data[0]]], data, drawn))
    found.sort(key=lambda table: (table.own not in table.data, table.called(table.data)))
    return found


def by_size(where: Path) -> list[str]:
    """`ape report --by size` of runs on words of listed lengths, of which no more than ten are evaluated."""
    tables, out = tables_of(where), list[str]()
    for table in tables:
        training = sorted(table.runs[0]["dataset"]["parameters"]["sizes"])
        column = table.runs[0]["dataset"]["task"]
        column += f" on {table.called(table.data)}" if len(tables) > 1 else ""
        cells: dict[tuple[str, int], Cell] = {}
        for run, size in itertools.product(table.runs, table.scored):
            scheme, seed = run["config"]["scheme"], run["config"]["seed"]
            one = {"scheme": scheme, "preset": "small", "own": {}, "tuned": {}}
            cell = cells.setdefault((scheme, size), (scheme, (size, column), one, {}))
            cell[3][seed] = table.score(run, size, "token_accuracy", "tokens")
        names = {(size, column): f"{size}{' (seen)' * (size in training)}" for size in table.scored}
        foot = [
            ["*test rows*", *(f"{len(table.rows[size]):,}" for size in table.scored)],
            ["*test tokens*", *(f"{sum(tokens for _, tokens in table.rows[size]):,}" for size in table.scored)],
        ]
        title = f"{column} by length, token accuracy"
        out += text(title, [*cells.values()], names, foot=foot)
    return out


def lines(where: Path) -> dict[tuple[str, str, int], tuple[Any, ...]]:
    """The scores, counts and intervals of `ape report --by size --metric exact_match --format json`."""
    found = {}
    for table in tables_of(where):
        for scheme, size in itertools.product({run["config"]["scheme"] for run in table.runs}, table.scored):
            of = [
                table.score(run, size, "exact_match", "rows") for run in table.runs if run["config"]["scheme"] == scheme
            ]
            count, mean, z = len(table.rows[size]), fmean(of), 1.959963984540054
            middle = (mean + z * z / 2 / count) / (1 + z * z / count)
            half = z * sqrt(mean * (1 - mean) / count + z * z / 4 / count**2) / (1 + z * z / count)
            tokens = sum(tokens for _, tokens in table.rows[size])
            ends = max(0.0, middle - half), min(1.0, middle + half)
            found[scheme, table.called(table.data), size] = mean, len(of), count, tokens, *ends
    return found
