"""The fifteen tasks of Deletang et al.: what is learned in training, and what carries over to longer inputs."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from ape_cli.experiment import suites
from ape_cli.experiment.choice import preset_plan
from results.plans import ROOT, planned
from tools.suite_page import sample

SUITE = "chomsky"
LEARNED = 90.0  # exact match on the test rows at the training lengths, in percent
CARRIED = 90.0  # accuracy at longer inputs, in percent, as in the source
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
def named() -> dict[str, str]:
    """The published name of each task of the sweep, by the parameters of its dataset."""
    plans = {
        task.name: preset_plan(task.text, None, "small", Path("datasets"), "1-20", 200_000)[1]
        for task in suites.load(SUITE).tasks
    }
    return {json.dumps([plan.task, plan.parameters], sort_keys=True): name for name, plan in plans.items()}


@cache
def chomsky() -> dict[tuple[str, str], dict[int, list[dict[str, Any]]]]:
    """The evaluations of the finished runs of the sweep by task and row of the tables, then by seed."""
    found: dict[tuple[str, str], dict[int, list[dict[str, Any]]]] = {}
    for item in planned(SUITE).trials:
        if item.state == "finished" and item.run:
            data, config = item.data.plan, item.config
            name = named()[json.dumps([data.task, data.parameters], sort_keys=True)]
            row = config.scheme + ", randomised" * (config.positions != "plain")
            found.setdefault((name, row), {})[config.seed] = item.run.evaluations()[0]
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


def carried() -> list[tuple[str, str]]:
    """The tasks and schemes that are learned and are right on longer inputs too."""
    return [key for key in chomsky() if learned(*key) and beyond(*key) >= CARRIED]


def chance(task: str) -> float:
    """The most frequent answer at the training lengths: exact match of the test rows in percent."""
    of = next(of for (name, _), by_seed in chomsky().items() if name == task for of in by_seed.values())
    return 100 * float(_own(of)["baselines"]["most frequent answer"]["exact_match"])


def _own(of: list[dict[str, Any]]) -> dict[str, Any]:
    """The evaluation on the test rows at the training lengths."""
    return next(e for e in of if not e.get("test_only") and (e["split"], e["decode"]) == ("test", "teacher"))


def learned_table() -> str:
    """Which tasks are learned: the number of schemes, then the exact match of each at the training lengths."""
    lines = [f"| task | learned by | {' | '.join(f'`{row}`' for row in rows())} | chance |"]
    lines.append(f"|---|---:|{'---:|' * (len(rows()) + 1)}")
    for task in named().values():
        of = [row for row in rows() if (task, row) in chomsky()]
        if of:
            cells = [_bold(trained(task, row), LEARNED) if row in of else "" for row in rows()]
            lines.append(f"| {task} | {learned_by(task)} of {len(of)} | {' | '.join(cells)} | {chance(task):.1f} |")
    return "\n".join(lines)


def beyond_table() -> str:
    """The accuracy at longer inputs of each scheme that has learned the task, beside chance."""
    lines = [f"| task | {' | '.join(f'`{row}`' for row in rows())} | chance |"]
    lines.append(f"|---|{'---:|' * (len(rows()) + 1)}")
    for task in named().values():
        of = [row for row in rows() if (task, row) in chomsky()]
        if of:
            cells = [
                "" if row not in of else _bold(beyond(task, row), CARRIED) if learned(task, row) else "not learned"
                for row in rows()
            ]
            lines.append(f"| {task} | {' | '.join(cells)} | {beyond(task, of[0], 'chance'):.1f} |")
    return "\n".join(lines)


def chomsky_answer() -> str:
    """The answer of the page in a sentence, from the finished runs."""
    found = {task: learned_by(task) for task in named().values() if any(of == task for of, _ in chomsky())}
    over = {task for task, _ in carried()}
    several = f"{sum(count > 0 for count in found.values())} of {len(found)} tasks are learned"
    still = f"on {len(over)} of them, one is still right at up to five times the training length"
    return f"**{several} by at least one of {len(rows())} schemes; {still}.**"


def sorted_by_repetition(length: int, symbols: int = 5) -> float:
    """How many symbols of a sorted string are the one before, in percent; the first one counts as right."""
    return 100 * (1 - (symbols - 1) * (1 - (1 - 1 / symbols) ** length) / length)


def _bold(value: float, least: float) -> str:
    """A score, in bold from `least` on."""
    mark = "**" * (value >= least)
    return f"{mark}{value:.1f}{mark}"


def fifteen() -> str:
    """The fifteen tasks: command, sample, number of published rows that the tests compare, and `SHARED`."""
    compared = {
        name.replace("_", "-"): of["rows"] for name, of in json.loads(GOLDEN.read_text("utf-8"))["tasks"].items()
    }
    lines = [
        "| level | task | `ape gen …` | a source | its target | published rows compared | test rows also in training |"
    ]
    lines.append("|---|---|---|---|---|---:|---:|")
    suite = suites.load(SUITE)
    for task in suite.tasks:
        source, target = sample(task.text)
        command = suites.command(task).removeprefix("ape gen ").partition(" --out ")[0]
        of_lengths = next(of for name, of in compared.items() if name.startswith(task.name))
        count, shared = sum(map(len, of_lengths.values())), f"{SHARED[task.name] / 10:.1f}%"
        cells = [task.group, task.name, f"`{command}`", f"`{source}`", f"`{target}`", str(count), shared]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
