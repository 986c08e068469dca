"""A second program for the tables of `ape report`, which shares no code with the first: slow, and written to be read.

It makes all tables in Markdown without their notes, with every number and mark, from the files of runs on sequences.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import polars as pl

Run = dict[str, Any]
TUNED = ("lr_peak", "steps")  # the settings of training that the random runs have
SCHEMES, TASKS = ("none", "rope", "alibi"), ("copy", "reverse", "tree-copy", "tree-ops")
T95 = {2: 12.706204736, 3: 4.30265273, 4: 3.18244631, 5: 2.77644511}  # Student's t by the number of seeds


def runs_of(where: Path) -> list[Run]:
    """The runs in a folder, each as a dictionary."""
    found = []
    for folder in sorted((where / "runs").iterdir(), key=lambda folder: folder.name):
        about = json.loads((folder / "run.json").read_text())
        of, data = about["config"], about["dataset"]
        history = pl.read_parquet(folder / "history.parquet").to_dicts()
        (kept,) = (row for row in history if row["step"] == about["result"]["best_step"])
        found.append(
            {name: data[name] for name in ("task", "order", "structure", "fingerprint")}
            | {name: of[name] for name in ("scheme", "preset", "seed")}
            | {"data": data["name"], "own": about["variant"], "tuned": {name: of[name] for name in TUNED}, "all": of}
            | {"tests": [json.loads(path.read_text()) for path in sorted(folder.glob("eval/*.json"))]}
            | {"name": folder.name, "history": history, "steps": about["result"]["steps"]}
            | {"validation": (kept["validation_token_accuracy"], kept["validation_loss"])}
        )
    return found


def words(settings: dict[str, Any]) -> str:
    return ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in sorted(settings.items()))


def table_of(run: Run) -> tuple[str, str]:
    return run["structure"], run["preset"]


def place(name: str, known: tuple[str, ...]) -> int:
    return known.index(name) if name in known else len(known)


def row_names(rows: list[Run]) -> Callable[[Run], str]:
    """The name of the row of each of some runs, which are those of one table."""
    settings = {(run["scheme"], words(run["own"])): run for run in rows}
    owns = [set(run["own"].items()) for run in settings.values()]
    shared = dict(set.intersection(*owns))

    def name(run: Run) -> str:
        of_scheme = [other for other in settings.values() if other["scheme"] == run["scheme"]]
        set_by_any = {key for other in of_scheme for key in other["own"] if key in TUNED and key not in shared}
        own = {k: v for k, v in run["own"].items() if k not in shared} | {
            k: v for k, v in run["tuned"].items() if k in set_by_any
        }
        return f"{run['scheme']} ({words(own)})" if own else run["scheme"]

    return name


Cell = tuple[str, Any, Run, dict[int, float]]  # row, column and part, one of the runs, and the score of each seed


def cells_of(runs: list[Run], scores: Callable[[Run], Iterable[tuple[Any, str, str, float]]]) -> list[Cell]:
    """The cells of one table. A score comes with its place in its column, its data, their name, and its value."""
    name = row_names(runs)
    task = {id(run): run["task"] + (f"/{run['order']}" if run["order"] else "") for run in runs}
    found: dict[Any, tuple[Run, dict[int, float]]] = {}
    on = dict[Any, str]()
    for run in runs:
        for part, fingerprint, called, value in scores(run):
            of_task = {other["fingerprint"] for other in runs if task[id(other)] == task[id(run)]}
            called_data = min(other["data"] for other in runs if other["fingerprint"] == run["fingerprint"])
            column = task[id(run)] + (f" [{called_data}]" if len(of_task) > 1 else "")
            column += f" on {called}" if fingerprint != run["fingerprint"] else ""
            data = task[id(run)], run["fingerprint"], fingerprint
            on.setdefault(data, column)
            found.setdefault((name(run), part, data), (run, {}))[1][run["seed"]] = value
    alike = {d: f"{c} {d[2][:6]}" if list(on.values()).count(c) > 1 else c for d, c in on.items()}
    cells = [(row, (part, alike[data]), run, seeds) for (row, part, data), (run, seeds) in found.items()]
    return sorted(cells, key=lambda cell: order(cell[1], cell[2]))


def order(column: Any, run: Run) -> tuple[Any, ...]:
    orders = (None, "breadth", "depth")
    return place(run["task"], TASKS), orders.index(run["order"]), column[1], column[0]


def marked(column: list[Cell], shown: list[Cell]) -> set[str]:
    """The rows that are underlined among those `shown` in a part of a column."""
    methods: dict[Any, set[str]] = {}
    for _, _, run, _ in column:
        method = run["scheme"], words({k: v for k, v in run["own"].items() if k not in TUNED})
        methods.setdefault(method, set()).add(words(run["tuned"]))
    top = max(fmean(seeds.values()) for *_, seeds in shown)
    if any(len(of) > 1 for of in methods.values()) or len(shown) == 1 or top < 0.0005:
        return set()
    best = [seeds for *_, seeds in shown if fmean(seeds.values()) > top - 1e-9]
    slack = max(stdev(seeds.values()) if len(seeds) > 1 else 0.0 for seeds in best)
    return {row for row, *_, seeds in shown if fmean(seeds.values()) > top - slack - 1e-9}


def text(
    title: str, cells: list[Cell], names: dict[Any, str], *, interval: bool = False, foot: Sequence[list[str]] = ()
) -> list[str]:
    """A table. `names` has the name of each column, by the second field of the cells."""
    rows = sorted({(place(run["scheme"], SCHEMES), row) for row, _, run, _ in cells})
    most, lines = max(len(seeds) for *_, seeds in cells), []
    best = {
        column: marked(
            [cell for cell in cells if cell[1][1] == column[1]], [cell for cell in cells if cell[1] == column]
        )
        for column in names
    }
    for _, row in rows:
        line = [row]
        for column in names:
            seeds = next((list(c[3].values()) for c in cells if c[0] == row and c[1] == column), [])
            line.append(number(seeds, most, interval=interval, best=row in best[column]))
        lines.append(line)
    return markdown(title, "scheme", list(names.values()), [*lines, *foot])


def number(seeds: list[float], most: int, *, interval: bool, best: bool) -> str:
    """A score with its deviation or its interval over seeds."""
    if not seeds:
        return "—"
    mean, spread = f"{100 * fmean(seeds):.2f}", ""
    if len(seeds) > 1:
        half = T95[len(seeds)] * stdev(seeds) / math.sqrt(len(seeds))
        ends = [f"{100 * min(1.0, max(0.0, fmean(seeds) + sign * half)):.1f}" for sign in (-1, 1)]
        spread = f" ({ends[0]} to {ends[1]})" if interval else f" ±{100 * stdev(seeds):.1f}"
    return (f"<ins>{mean}</ins>" if best else mean) + spread + (f" ×{len(seeds)}" if len(seeds) < most else "")


def markdown(title: str, head: str, columns: list[str], rows: list[list[str]]) -> list[str]:
    table = [[head, *columns], ["---", *["---:"] * len(columns)], *rows]
    lines = ["| " + " | ".join(row) + " |" for row in table]
    lines[1] = lines[1].replace(" ", "")
    return [f"### {title}", *lines]


def title_of(of_table: tuple[str, str], runs: list[Run], what: str = "") -> str:
    structure, preset = of_table
    kind = what or {"seq": "Sequence tasks", "tree(2)": "Tree tasks"}[structure]
    return kind + (f", preset {preset}" if len({run["preset"] for run in runs}) > 1 else "") + ", token accuracy"


def tests(run: Run) -> Iterable[tuple[Any, str, str, float]]:
    """The test scores of a run."""
    return [("", test["fingerprint"], test["dataset"], test["overall"]["token_accuracy"]) for test in run["tests"]]


def scores(runs: list[Run], *, interval: bool = False) -> list[str]:
    """`ape report`, also with `--interval`."""
    out = []
    for key, group in itertools.groupby(sorted(runs, key=table_of), table_of):
        cells = cells_of(list(group), tests)
        names = {column: column[1] for _, column, *_ in cells}
        out += text(title_of(key, runs), cells, names, interval=interval)
    return out


def by_epoch(runs: list[Run]) -> list[str]:
    """`ape report --by epoch`."""
    out = []
    for key, group in itertools.groupby(sorted(runs, key=table_of), table_of):

        def halves(run: Run) -> Iterable[tuple[Any, str, str, float]]:
            for end in (False, True):
                step = run["steps"] if end else run["steps"] // 2
                known = [row["validation_token_accuracy"] for row in run["history"] if row["step"] <= step]
                yield (step, end), run["fingerprint"], run["data"], max(known)

        cells = cells_of(list(group), halves)
        for task in dict.fromkeys(cell[1][1] for cell in cells):
            shown = [cell for cell in cells if cell[1][1] == task]
            places = sorted({cell[1][0] for cell in shown}, key=lambda at: (at[0], not at[1]))
            both = {step for step, _ in places if {(step, False), (step, True)} <= set(places)}
            names = {
                ((step, end), task): f"@{step:,} steps" + (f" ({'end' if end else 'half'})" if step in both else "")
                for step, end in places
            }
            out += text(title_of(key, runs, f"{task} by epoch") + ": validation", shown, names)
    return out


def chosen(runs: list[Run]) -> list[Run]:
    """The runs of the settings that validation scores choose, which are named by what is no choice.

    A row of a column is a scheme here.
    """
    found = []

    def by(run: Run) -> tuple[str, ...]:
        return run["preset"], run["task"], run["order"] or "", run["fingerprint"], run["scheme"]

    for _, group in itertools.groupby(sorted(runs, key=by), by):
        trials: dict[str, dict[int, Run]] = {}
        group_of = sorted(group, key=lambda run: run["name"])
        for run in group_of:
            trials.setdefault(words(run["own"]), {})[run["seed"]] = run
        common = sorted(set.intersection(*(set(trial) for trial in trials.values())))
        if not common:
            continue

        def rank(own: str, trials: Any = trials, common: Any = common) -> tuple[float, float, bool, str]:
            accuracy, loss = (fmean(trials[own][seed]["validation"][i] for seed in common) for i in (0, 1))
            return -round(accuracy, 9), round(loss, 9), bool(own), own

        same = ("scheme", "preset", "structure")
        of_row = [run["own"] for run in runs if all(run[k] == group_of[0][k] for k in same)]
        shared = dict(set.intersection(*(set(own.items()) for own in of_row)))
        found += [run | {"own": shared, "tuned": {}} for run in trials[min(trials, key=rank)].values()]
    return found
