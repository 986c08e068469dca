"""The reference page of suites: the command and a sample of each of their tasks."""

from __future__ import annotations

from textwrap import shorten
from typing import Any

from ape_cli import tasks
from ape_cli.core.vocabulary import PAD
from ape_cli.experiment import suites
from ape_cli.experiment.choice import task_and_options
from tools.markdown_text import page, prose, table

SAMPLE, LONGEST = 12, 60  # the size of samples, if the task can draw it, and characters of a cell
ABOUT = """
A suite lists the tasks of a publication under their published names. `ape tasks --suite NAME` lists them with their
commands, and `ape sweep --suite NAME` trains on all of them:

```sh
ape tasks --suite chomsky
ape sweep --suite chomsky --schemes rope,alibi --dry-run   # print the plan only
```

In a sweep file, write `suite = "chomsky"`. `sizes`, `rows`, `models` and `generalise` of the sweep replace those of the
suite; other tasks of the sweep have none of these. If neither sets `rows`, the preset does.

`ape report --view unseen` shows means over the sizes beyond training, beside chance: token accuracy, or exact match
where all answers are single symbols.
"""
OWN = "## A suite of your own"


def suites_page() -> dict[str, str]:
    """A section for each suite, and how to write one."""
    parts = [ABOUT]
    for name in suites.names():
        parts += _section(name)
    about = prose(suites.__doc__).split("\n\n", 1)[1]
    return {"suites.md": page("Suites of tasks", *parts, OWN, about)}


def _section(name: str) -> list[str]:
    """The section of a suite."""
    suite = suites.load(name)
    rows = []
    for task in suite.tasks:
        source, target = sample(task.text)
        command = suites.command(task).removeprefix("ape gen ")
        rows.append([task.name, task.group, f"`{command}`", f"`{source}`", f"`{target}`"])
    heads = ["task", "group", "`ape gen` …", "a source", "its target"]
    if not any(row[1] for row in rows):
        rows, heads = [[*row[:1], *row[2:]] for row in rows], [*heads[:1], *heads[2:]]
    facts = [f"{suite.summary[0].upper()}{suite.summary[1:]}. Source: {suite.source}."]
    if isinstance(suite.generalise, tuple):
        first, *_, last = suite.generalise
        facts.append(f"Training sizes: {suite.sizes}; test sizes: {len(suite.generalise)} from {first} to {last}.")
    facts += [f"A sweep trains with `model={suite.model}`."] * bool(suite.model)
    for task in suite.tasks:
        own = ({"model": task.model} if task.model != suite.model else {}) | dict(task.settings)
        words = " and ".join(f"`{key}={value}`" for key, value in own.items())
        facts += [f"For {task.name}, it sets {words}."] * bool(own)
    return [f"## `{name}`", " ".join(facts), table(heads, rows)]


def sample(text: str) -> tuple[str, str]:
    """The first training row of a task, in the symbols of `ape show`. It is short, and cut if it is long all the same.

    A dot stands for a token without a tag.
    """
    name, options = task_and_options(text)
    task: Any = tasks.make(name, **options)
    task = tasks.make(name, **options | {"sizes": str(max(SAMPLE, task.parts[0].limits[0]))})
    (row,) = task.sample(rows=range(1), split="train", seed=42).to_pylist()
    sides = [[task.id_names[i] if i != PAD else "." for i in row[side]] for side in ("source_ids", "target_ids")]
    source, target = (("" if all(len(word) == 1 for word in side) else " ").join(side) for side in sides)
    return shorten(source, LONGEST, placeholder=" …"), shorten(target, LONGEST, placeholder=" …")
