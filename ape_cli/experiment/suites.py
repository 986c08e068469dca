"""Suites: the tasks of a publication by its names for them, each with the options that make its data the published one.

A suite is a TOML file. The built-in ones are in `ape_cli/tasks/suites/`. That folder may be anywhere on the Python
path, or give the path of a file:

    summary = "two tasks of my paper"
    source = "Doe 2026"
    sizes = "1-40"               # for tasks that name none; optional, like the three below
    generalise = "50,100,200"    # sizes of further test rows
    rows = 12_800                # training rows
    model = "decoder"            # default: encoder-decoder

    [tasks.regular]              # a group, or plain [tasks]
    "parity check" = "modular kind=parity"
    "reverse string" = { task = "reverse vocabulary=2", rows = 500, set = { dropout = 0.1 } }
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Discriminator, Field, Tag, model_validator

from ape_cli import tasks
from ape_cli.core import plugins
from ape_cli.core.errors import unknown
from ape_cli.core.validation import Checked, Scalar
from ape_cli.experiment.choice import task_and_options
from ape_cli.experiment.spec import Generalise, Rows, Sizes, validated
from ape_cli.experiment.spec_files import read_toml


class SuiteEntry(Checked):
    """What a suite says of a task: its text, and a number of training rows, a model and settings of its own."""

    task: str
    rows: Rows = None
    model: str | None = None
    settings: Mapping[str, Scalar] = Field(default={}, alias="set")

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, given: Any) -> Any:
        """Plain text is the task."""
        return {"task": given} if isinstance(given, str) else given


_Entry = Annotated[
    Annotated[SuiteEntry, Tag("entry")] | Annotated[Mapping[str, SuiteEntry], Field(min_length=1), Tag("group")],
    Discriminator(lambda given: "group" if isinstance(given, dict) and "task" not in given else "entry"),
]


class SuiteTask(NamedTuple):
    """A task of a suite."""

    name: str  # as published
    group: str  # empty for a suite without groups
    text: str  # the task here with its options, such as `modular kind=parity sizes=1-40`
    rows: int | None
    model: str | None
    settings: Mapping[str, Scalar]


class Suite(Checked):
    """The fields of the file of a suite."""

    summary: str = ""
    source: str = ""
    sizes: Sizes = None
    generalise: Generalise = False
    rows: Rows = None
    model: str | None = None
    named: Mapping[str, _Entry] = Field(alias="tasks", min_length=1, examples=[{"parity": "modular kind=parity"}])

    @property
    def tasks(self) -> list[SuiteTask]:
        """The tasks, in their order, each with its sizes."""
        found = []
        for key, value in self.named.items():
            group, entries = ("", {key: value}) if isinstance(value, SuiteEntry) else (key, value)
            for name, entry in entries.items():
                is_sized = self.sizes is None or "sizes" in task_and_options(entry.task)[1]
                text = entry.task if is_sized else f"{entry.task} sizes={self.sizes}"
                rows, model = entry.rows or self.rows, entry.model or self.model
                found.append(SuiteTask(name, group, text, rows, model, entry.settings))
        return found


def names() -> list[str]:
    """The names of all suites, here and in folders on the Python path."""
    return sorted(_files())


def load(name: str) -> Suite:
    """A suite, by its name or by the path of its file.

    Raises `UsageError` if there is none, or if its file is not valid.
    """
    files = _files()
    if not name.endswith(".toml") and name not in files:
        raise unknown("suite", name, files)
    fields = read_toml(files.get(name, Path(name)), "summary", '"my tasks"')
    return validated(Suite, fields, f"suite {name}")


def _files() -> dict[str, Path]:
    """The file of each suite by its name. Raises `UsageError` if two suites have the same name."""
    return plugins.toml_files((Path(folder, "suites") for folder in tasks.__path__), "suites")


def command(entry: SuiteTask) -> str:
    """The `ape gen` command that generates the data of a task of a suite, in a folder with its published name.

    Raises `UsageError` for an unknown task or option, and for invalid values.
    """
    name, options = task_and_options(entry.text)
    sizes = tasks.make(name, **options).rows({"train": 1}, 0)["train"]  # `--n` is of each size
    flags = ({} if entry.rows is None else {"n": -(-entry.rows // sizes)}) | options
    flags["out"] = "datasets/" + re.sub(r"[^A-Za-z0-9.]+", "-", entry.name)
    words = [f"--{k.replace('_', '-')}" + ("" if v is True else f" {shlex.quote(str(v))}") for k, v in flags.items()]
    return " ".join(["ape gen", name, *words])
