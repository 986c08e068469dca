"""The fifteen tasks of Deletang et al.: what is learned in training, and what carries over to longer inputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from statistics import fmean
from typing import Any

from ape_cli import tasks
from ape_cli.data.manifest import DatasetPlan
from ape_cli.experiment import suites
from ape_cli.experiment.choice import preset_plan
from ape_cli.reports.evaluations import task_of
from ape_cli.sweep import specification
from results.plans import RESULTS, ROOT, planned, so_far, standing
from results.queries.answers import floor
from tools.suite_page import sample

SUITE = "chomsky"
USUAL = "most frequent answer"
LEARNED = 90.0  # exact match on the test rows at the training lengths, in percent
CARRIED = 90.0  # accuracy at longer inputs, in percent
GRID = specification.read(RESULTS / f"{SUITE}.toml")[0]
LONGER = GRID.generalise  # the test lengths
assert isinstance(LONGER, tuple)
REPEATED = "bucket-sort"  # there, repeating the previous symbol reaches `CARRIED`
# tasks whose answers are strings; in all others the answer is one symbol
STRINGS = {
    *("stack-manipulation", "reverse-string", "duplicate-string", "odds-first"),
    *("binary-addition", "binary-multiplication", "compute-sqrt", "bucket-sort"),
}
SHARED = {  # test rows of the sweep's datasets whose source is also in training, of 1,000
    **dict.fromkeys(("even-pairs", "parity-check", "reverse-string", "duplicate-string"), 144),
    **dict.fromkeys(("odds-first", "compute-sqrt"), 144),
    **dict.fromkeys(("binary-addition", "binary-multiplication", "solve-equation"), 250),
    **dict.fromkeys(("cycle-navigation", "bucket-sort"), 50),
    "modular-arithmetic": 100,
    "stack-manipulation": 94,
    "modular-arithmetic-brackets": 137,
    "missing-duplicate": 150,
}
GOLDEN = ROOT / "tests" / "tasks" / "golden" / "chomsky.json"


@cache
def published_plans() -> dict[str, DatasetPlan]:
    """The plan of the dataset of each task of the sweep, by its published name."""
    return {
        task.name: preset_plan(task.text, None, "small", ROOT / "datasets", GRID.sizes, GRID.rows)[1]
        for task in suites.load(SUITE).tasks
    }


def name_of(plan: DatasetPlan) -> str:
    """The published name of the task of a dataset of the sweep."""
    return next(
        name for name, of in published_plans().items() if (of.task, of.parameters) == (plan.task, plan.parameters)
    )


@cache
def chomsky() -> dict[tuple[str, str], dict[int, list[dict[str, Any]]]]:
    """The evaluations of the finished runs of the sweep by task and row of the tables, then by seed."""
    found: dict[tuple[str, str], dict[int, list[dict[str, Any]]]] = {}
    for item in planned(SUITE).trials:
        if item.state == "finished" and item.run:
            config = item.config
            row = config.scheme + ", randomised" * (config.positions != "plain")
            found.setdefault((name_of(item.data.plan), row), {})[config.seed] = item.run.evaluations()[0]
    return found


def rows() -> list[str]:
    """The rows of the tables: the schemes, in the order of the sweep."""
    return list(dict.fromkeys(row for _, row in chomsky()))


def trained(task: str, row: str) -> float:
    """Exact match on the test rows at the training lengths, in percent: the mean over seeds."""
    return fmean(100 * _own(of)["overall"]["exact_match"] for of in chomsky()[task, row].values())


def beyond(task: str, row: str, key: str = "") -> float:
    """The mean over longer inputs and seeds in percent: of tokens for `STRINGS`, else of answers.

    `key`: `chance`, for what the most frequent answer of the training data reaches there.
    """
    metric = "token_accuracy" if task in STRINGS else "exact_match"
    lines = [line for of in chomsky()[task, row].values() for e in of if e.get("test_only") for line in e["by_size"]]
    return fmean(100 * (line[key] if key else line)[metric] for line in lines)


def learned(task: str, row: str) -> bool:
    """Whether a scheme has learned a task."""
    return trained(task, row) >= LEARNED


def learned_by(task: str) -> int:
    """How many of the schemes have learned a task."""
    return sum(learned(task, row) for of, row in chomsky() if of == task)


def carries_over(task: str, row: str) -> bool:
    """Whether a scheme has learned a task and is right on longer inputs too, which no simple rule is."""
    return task != REPEATED and learned(task, row) and beyond(task, row) >= CARRIED


def guess(task: str, baseline: str = "") -> float:
    """Exact match of a baseline on the test rows at the training lengths, in percent. The default is the best one."""
    plan = published_plans()[task]
    form = tasks.load(plan.task).form(plan.parameters)
    return floor(SUITE, task_of({"task": plan.task, "order": None, "form": form}), baseline=baseline)


def _own(of: list[dict[str, Any]]) -> dict[str, Any]:
    """The evaluation on the test rows at the training lengths."""
    return next(e for e in of if not e.get("test_only") and (e["split"], e["decode"]) == ("test", "teacher"))


def learned_table() -> str:
    """Which tasks are learned: the number of schemes, then the exact match of each at the training lengths."""

    def line(task: str, of: list[str]) -> list[str]:
        cells = [_score(trained(task, row), learned(task, row)) if row in of else "" for row in rows()]
        guesses = guess(task, USUAL), guess(task)
        return [task, f"{learned_by(task)} of {len(of)}", *cells, *map(_score, guesses)]

    return _table(["task", "learned by"], line, ["chance", "simple rule"])


def beyond_table() -> str:
    """The accuracy at longer inputs of each scheme that has learned the task, beside chance."""

    def cell(task: str, row: str) -> str:
        return _score(beyond(task, row), carries_over(task, row)) if learned(task, row) else "not learned"

    def line(task: str, of: list[str]) -> list[str]:
        return [task, *(cell(task, row) if row in of else "" for row in rows()), _score(beyond(task, of[0], "chance"))]

    return _table(["task"], line, ["chance"])


def chomsky_answer() -> str:
    """The answer of the page from the finished runs, and how many there are until all are."""
    tasks_of = {row: sum(learned(task, of) for task, of in chomsky() if of == row) for row in rows()}
    most, names = max(tasks_of.values()), [name for name in published_plans() if any(of == name for of, _ in chomsky())]
    best = _names(row for row in rows() if tasks_of[row] == most)
    fewer = [count for count in tasks_of.values() if count < most]
    apart = f", and {_range(fewer)} by each of the others" if fewer else ""
    known = sum(learned_by(task) > 0 for task in names)
    over = {task: [row for row in rows() if (task, row) in chomsky() and carries_over(task, row)] for task in names}
    still = "; ".join(f"{_names(of)} on `{task}`" for task, of in over.items() if of) or "none"
    seeds = f", with {_range([*map(len, chomsky().values())])} of {len(GRID.seeds)} seeds each"
    return (
        f"{known} of {len(names)} tasks are learned: {most} by {best}{apart}. "
        f"At up to five times the training length, these carry over: {still}.{so_far(*standing(SUITE), seeds)}"
    )


def _range(counts: list[int]) -> str:
    """The least and the largest of some counts: `2 to 7`, or one number if all are equal."""
    return " to ".join(map(str, dict.fromkeys((min(counts), max(counts)))))


def _names(of: Iterable[str]) -> str:
    """Rows of the tables in a sentence."""
    return " and ".join(f"`{row}`" for row in of)


def sorted_by_repetition(length: int, symbols: int = 5) -> float:
    """How many symbols of a sorted string are the one before, in percent; the first one counts as right."""
    return 100 * (1 - (symbols - 1) * (1 - (1 - 1 / symbols) ** length) / length)


def _table(heads: list[str], line: Callable[[str, list[str]], list[str]], guesses: list[str]) -> str:
    """A table with a line for each task that is trained, given the rows of the tables that have it."""
    heads = [*heads, *(f"`{row}`" for row in rows()), *guesses]
    found = {task: [row for row in rows() if (task, row) in chomsky()] for task in published_plans()}
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *(line(task, of) for task, of in found.items() if of)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _score(value: float, is_bold: bool = False) -> str:
    """A score as text."""
    return f"**{value:.1f}**" if is_bold else f"{value:.1f}"


def fifteen() -> str:
    """The fifteen tasks: command, sample, published rows that the tests compare, levels of guessing and `SHARED`."""
    compared = {
        name.replace("_", "-"): of["rows"] for name, of in json.loads(GOLDEN.read_text("utf-8"))["tasks"].items()
    }
    lines = ["| level | task | `ape gen …` | a source | its target | rows compared | chance | simple rule | shared |"]
    lines.append("|---|---|---|---|---|---:|---:|---:|---:|")
    suite = suites.load(SUITE)
    for task in suite.tasks:
        source, target = sample(task.text)
        command = suites.command(task).removeprefix("ape gen ").partition(" --out ")[0]
        of_lengths = next(of for name, of in compared.items() if name.startswith(task.name))
        count, shared = sum(map(len, of_lengths.values())), f"{SHARED[task.name] / 10:.1f}%"
        cells = [task.group, task.name, f"`{command}`", f"`{source}`", f"`{target}`", str(count)]
        cells += [f"{guess(task.name, USUAL):.1f}", f"{guess(task.name):.1f}", shared]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
