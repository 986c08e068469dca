"""A second program for the tables of `ape report`, which shares no code with the first: slow, and written to be read.

It makes the text of all tables in Markdown, with every number, mark and sentence, from the files of runs on sequences.
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
RULE = """Underlined: the best mean of each column and every mean at most one standard deviation worse, by the \
deviation of the best mean (of equal best means, the largest)."""
ALONE = " A best mean of one seed has no deviation, so only equal means are underlined with it."
SINGLE = " A column with a single score has no mark."
UNTUNED = """The rows are not tuned{}: a scheme has several settings of training, which were not chosen by \
validation scores (`ape report --best-by validation` chooses). Nothing is underlined{}, because the best of them would \
be chosen on these scores."""


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


def row_names(rows: list[Run]) -> tuple[Callable[[Run], str], str]:
    """The name of the row of each of some runs, and what all rows share. The runs are those of one table."""
    settings = {(run["scheme"], words(run["own"])): run for run in rows}
    owns = [set(run["own"].items()) for run in settings.values()]
    shared = dict(set.intersection(*owns)) if len(settings) > 1 else {}

    def name(run: Run) -> str:
        of_scheme = [other for other in settings.values() if other["scheme"] == run["scheme"]]
        set_by_any = {key for other in of_scheme for key in other["own"] if key in TUNED and key not in shared}
        own = {k: v for k, v in run["own"].items() if k not in shared} | {
            k: v for k, v in run["tuned"].items() if k in set_by_any
        }
        return f"{run['scheme']} ({words(own)})" if own else run["scheme"]

    return name, words(shared)


Cell = tuple[str, Any, Run, dict[int, float]]  # row, column and part, one of the runs, and the score of each seed


def cells_of(runs: list[Run], scores: Callable[[Run], Iterable[tuple[Any, str, str, float]]]) -> list[Cell]:
    """The cells of one table. A score comes with its place in its column, its data, their name, and its value."""
    name = row_names(runs)[0]
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


def marked(column: list[Cell], shown: list[Cell]) -> tuple[set[str], bool]:
    """The rows that are underlined among those `shown` in a part of a column, and whether the column is not tuned."""
    methods: dict[Any, set[str]] = {}
    for _, _, run, _ in column:
        method = run["scheme"], words({k: v for k, v in run["own"].items() if k not in TUNED})
        methods.setdefault(method, set()).add(words(run["tuned"]))
    if any(len(of) > 1 for of in methods.values()):
        return set(), True
    if len(shown) == 1:
        return set(), False
    top = max(fmean(seeds.values()) for *_, seeds in shown)
    best = [seeds for *_, seeds in shown if fmean(seeds.values()) > top - 1e-9]
    slack = max(stdev(seeds.values()) if len(seeds) > 1 else 0.0 for seeds in best)
    return {row for row, *_, seeds in shown if fmean(seeds.values()) > top - slack - 1e-9}, False


def text(
    title: str,
    shared: str,
    cells: list[Cell],
    names: dict[Any, str],
    more: list[str],
    *,
    split: str,
    interval: bool,
    foot: Sequence[list[str]] = (),
) -> str:
    """A table. `names` has the name of each column, by the second field of the cells."""
    rows = sorted({(place(run["scheme"], SCHEMES), row) for row, _, run, _ in cells})
    best, untuned = dict[Any, set[str]](), list[str]()
    for column in names:
        of_task = [cell for cell in cells if cell[1][1] == column[1]]
        best[column], is_untuned = marked(of_task, [cell for cell in cells if cell[1] == column])
        untuned += [column[1]] * (is_untuned and column[1] not in untuned)
    counts = sorted({len(seeds) for *_, seeds in cells})
    lines = []
    for _, row in rows:
        line = [row]
        for column in names:
            seeds = next((list(c[3].values()) for c in cells if c[0] == row and c[1] == column), [])
            line.append(number(seeds, counts[-1], interval=interval, best=row in best[column]))
        lines.append(line)
    spread, none = ("with its 95% interval", "interval over seeds") if interval else ("± standard deviation",) * 2
    none = none.removeprefix("± ")
    fewer = f" (×n where fewer{f'; one seed has no {none}' * (counts[0] == 1)})" if len(counts) > 1 else ""
    over = f"mean {spread} over {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} seeds{fewer}"
    over += ", by Student's t, cut off at 0 and 100%" * interval
    over = f"one seed, so there is no {none}" if counts == [1] else over
    preset = cells[0][2]["preset"] + (f", {shared} in all rows" if shared else "")
    notes = [f"Preset {preset}; token accuracy in %, teacher decoding, {split} split; {over}."]
    rule = (RULE + ALONE * (1 in counts)) if counts != [1] else "Underlined: the best score of each column."
    rule += SINGLE * any(sum(cell[1] == column for cell in cells) == 1 for column in names)
    notes += [rule] * any(best.values())
    if untuned:
        everywhere = {column[1] for column in names} == set(untuned)
        notes.append(UNTUNED.format(*(("", "") if everywhere else (f" in {', '.join(untuned)}", " there"))))
    return markdown(title, "scheme", list(names.values()), [*lines, *foot], notes + more)


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


def markdown(title: str, head: str, columns: list[str], rows: list[list[str]], notes: list[str]) -> str:
    table = [[head, *columns], ["---", *["---:"] * len(columns)], *rows]
    lines = ["| " + " | ".join(row) + " |" for row in table]
    lines[1] = lines[1].replace(" ", "")
    return "\n".join([f"### {title}", "", *lines, "", " ".join(notes), ""])


def title_of(of_table: tuple[str, str], runs: list[Run], what: str = "") -> str:
    structure, preset = of_table
    kind = what or {"seq": "Sequence tasks", "tree(2)": "Tree tasks"}[structure]
    return kind + (f", preset {preset}" if len({run["preset"] for run in runs}) > 1 else "") + ", token accuracy"


def tests(run: Run) -> Iterable[tuple[Any, str, str, float]]:
    """The test scores of a run."""
    return [("", test["fingerprint"], test["dataset"], test["overall"]["token_accuracy"]) for test in run["tests"]]


def own_test(run: Run) -> float:
    """The test score of a run on its own data."""
    return next(value for _, fingerprint, _, value in tests(run) if fingerprint == run["fingerprint"])


def scores(runs: list[Run], without: list[str], *, interval: bool = False) -> str:
    """`ape report`, also with `--interval`. `without`: what is left out."""
    out = []
    for key, group in itertools.groupby(sorted(runs, key=table_of), table_of):
        of_table = list(group)
        cells = cells_of(of_table, tests)
        names = {column: column[1] for _, column, *_ in cells}
        choice = chosen_notes(cells, "test")
        out.append(
            text(title_of(key, runs), row_names(of_table)[1], cells, names, choice, split="test", interval=interval)
        )
    return left_out(out, without)


def by_epoch(runs: list[Run], without: list[str]) -> str:
    """`ape report --by epoch`. `without`: what is left out."""
    out = []
    for key, group in itertools.groupby(sorted(runs, key=table_of), table_of):
        of_table = list(group)

        def halves(run: Run) -> Iterable[tuple[Any, str, str, float]]:
            for end in (False, True):
                step = run["steps"] if end else run["steps"] // 2
                known = [row["validation_token_accuracy"] for row in run["history"] if row["step"] <= step]
                yield (step, end), run["fingerprint"], run["data"], max(known)

        cells = cells_of(of_table, halves)
        for task in dict.fromkeys(cell[1][1] for cell in cells):
            shown = [cell for cell in cells if cell[1][1] == task]
            places = sorted({cell[1][0] for cell in shown}, key=lambda at: (at[0], not at[1]))
            both = {step for step, _ in places if {(step, False), (step, True)} <= set(places)}
            names = {
                ((step, end), task): f"@{step:,} steps" + (f" ({'end' if end else 'half'})" if step in both else "")
                for step, end in places
            }
            more = [
                *chosen_notes(shown, "validation"),
                "Columns: half of the schedule, and the whole schedule.",
                "The best validation accuracy until then: it chose the weights, so it is biased upwards.",
            ]
            title = title_of(key, runs, f"{task} by epoch") + ": validation"
            out.append(text(title, row_names(of_table)[1], shown, names, more, split="validation", interval=False))
    return left_out(out, without)


def left_out(out: list[str], names: list[str]) -> str:
    """Tables with a note about what they leave out."""
    more = f" and {len(names) - 5} more" * (len(names) > 5)
    note = f" Left out, because they cannot be read or compared: {'; '.join(names[:5])}{more}." * bool(names)
    return "\n".join(table.rstrip("\n") + note + "\n" for table in out)


def chosen(runs: list[Run]) -> tuple[list[Run], list[str]]:
    """The runs of the settings that validation scores choose. Each has its `choice`, and is named by what is no choice.

    A row of a column is a scheme here. The rows are named that cannot be chosen for.
    """
    found, without = [], dict[str, str]()

    def by(run: Run) -> tuple[str, ...]:
        return run["preset"], run["task"], run["order"] or "", run["fingerprint"], run["scheme"]

    for _, group in itertools.groupby(sorted(runs, key=by), by):
        trials: dict[str, dict[int, Run]] = {}
        group_of = sorted(group, key=lambda run: run["name"])
        for run in group_of:
            trials.setdefault(words(run["own"]), {})[run["seed"]] = run
        common = sorted(set.intersection(*(set(trial) for trial in trials.values())))
        if not common:
            task = group_of[0]["task"] + (f"/{group_of[0]['order']}" if group_of[0]["order"] else "")
            without[group_of[0]["name"]] = f"{group_of[0]['scheme']} on {task}, preset {group_of[0]['preset']}"
            continue

        def rank(own: str, trials: Any = trials, common: Any = common) -> tuple[float, float, bool, str]:
            accuracy, loss = (fmean(trials[own][seed]["validation"][i] for seed in common) for i in (0, 1))
            return -round(accuracy, 9), round(loss, 9), bool(own), own

        settings = [next(iter(trial.values()))["own"] for trial in trials.values()]
        same = ("scheme", "preset", "structure")
        of_row = [run["own"] for run in runs if all(run[k] == group_of[0][k] for k in same)]
        best, shared = min(trials, key=rank), dict(set.intersection(*(set(own.items()) for own in of_row)))
        varied = {key for own in settings for key in own} - shared.keys()
        tried = {
            own: words({k: of["own"].get(k, of["all"][k]) for k in varied})
            for own, (of, *_) in ((own, list(trial.values())) for own, trial in trials.items())
        }
        default = trials.get(words(shared), {})
        pairs = [(trials[best][seed], default[seed]) for seed in sorted(trials[best].keys() & default.keys())]
        moved = {
            "test": [own_test(a) - own_test(b) for a, b in pairs],
            "validation": [a["validation"][0] - b["validation"][0] for a, b in pairs],
        }
        choice = {"setting": tried[best], "tried": sorted(tried.values()), "seeds": len(common), "moved": moved}
        choice["default"] = bool(default) and default is trials[best]
        found += [run | {"own": shared, "tuned": {}, "choice": choice} for run in trials[best].values()]
    return found, list(dict.fromkeys(without[name] for name in sorted(without)))


def chosen_notes(cells: list[Cell], split: str) -> list[str]:
    """The notes on the settings that were chosen for the cells of a table."""
    choices = {(column[1], row): run["choice"] for row, column, run, _ in in_order(cells) if "choice" in run}
    if not choices:
        return []
    trials, seeds = {len(c["tried"]) for c in choices.values()}, {c["seeds"] for c in choices.values()}
    if trials == {1}:
        return ["There is one setting for each row, so nothing was chosen."]
    counts = [
        f"{' to '.join(map(str, dict.fromkeys((min(of), max(of)))))} {what}{'s' * (max(of) > 1)}"
        for of, what in ((seeds, "seed"), (trials, "setting"))
    ]
    rule = f"Each cell uses the setting with the best mean validation accuracy ({', '.join(counts)} tried)."
    rule += " Test scores were not used."
    unequal = {"numbers of settings": trials, "settings": {str(c["tried"]) for c in choices.values()}, "seeds": seeds}
    if differ := [what for what, of in unequal.items() if len(of) > 1]:
        rule += f" The {differ[0]} differ, so the rows were not tuned equally."
    told: dict[str, dict[str, list[str]]] = {}
    for (column, row), c in choices.items():
        more = [f"{len(c['tried'])} setting{'s' * (len(c['tried']) > 1)}"] * (len(trials) > 1)
        more += [f"{c['seeds']} seed{'s' * (c['seeds'] > 1)}"] * (len(seeds) > 1)
        more += [f"{100 * fmean(c['moved'][split]):+.2f}"] if c["moved"][split] and not c["default"] else []
        setting = c["setting"] + " (the preset's)" * c["default"] if c["setting"] else "the only setting"
        told.setdefault(column, {}).setdefault(setting, []).append(row + (f" ({', '.join(more)})" if more else ""))
    listed = "; ".join(f"{c}: " + ", ".join(f"{s} for {', '.join(r)}" for s, r in of.items()) for c, of in told.items())
    known = any(c["moved"][split] and not c["default"] for c in choices.values())
    moved = f""" (in brackets: the change in token accuracy from the preset's setting, in points, on the {split} split \
of the training dataset, over the seeds that both have)"""
    return [rule, f"Settings{moved * known}: {listed}."]


def in_order(cells: list[Cell]) -> list[Cell]:
    return sorted(cells, key=lambda cell: (*order(cell[1], cell[2])[:3], place(cell[2]["scheme"], SCHEMES), cell[0]))
