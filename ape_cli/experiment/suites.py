"""Suites: the tasks of a publication by its names for them, each with the options that make its data the published one.

A suite is a TOML file. Those of `ape` are in `ape_cli/tasks/suites/`; that folder may be anywhere on the Python path,
or a file is named by its path:

    summary = "two tasks of my paper"
    source = "Doe 2026"
    sizes = "1-40"               # of every task that names none; optional, as the two below
    generalise = "50,100,200"    # sizes of further test rows
    rows = 12_800                # training rows

    [tasks.regular]              # a group, or plain [tasks]
    "parity check" = "modular kind=parity"
    "reverse string" = "reverse vocabulary=2"
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from ape_cli import tasks
from ape_cli.core.errors import unknown
from ape_cli.experiment.choice import task_and_options
from ape_cli.experiment.spec import Generalise, Rows, Sizes, validated
from ape_cli.experiment.spec_files import read_toml


class SuiteTask(NamedTuple):
    """A task of a suite."""

    name: str  # as published
    group: str  # empty for a suite without groups
    text: str  # the task here with its options, such as `modular kind=parity sizes=1-40`


class Suite(BaseModel):
    """The fields of the file of a suite."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    summary: str = ""
    source: str = ""
    sizes: Sizes = None
    generalise: Generalise = False
    rows: Rows = None
    named: Mapping[str, str | Mapping[str, str]] = Field(alias="tasks", min_length=1)

    @property
    def tasks(self) -> list[SuiteTask]:
        """The tasks, in their order, each with its sizes."""
        found = []
        for key, value in self.named.items():
            group, entries = ("", {key: value}) if isinstance(value, str) else (key, value)
            for name, text in entries.items():
                sized = self.sizes is None or " sizes=" in text
                found.append(SuiteTask(name, group, text if sized else f"{text} sizes={self.sizes}"))
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
    """The file of each suite by its name."""
    return {path.stem: path for folder in tasks.__path__ for path in sorted(Path(folder, "suites").glob("*.toml"))}


def command(suite: Suite, text: str) -> str:
    """The `ape gen` command that generates the data of a task of a suite.

    Raises `UsageError` for an unknown task or option, and for invalid values.
    """
    name, options = task_and_options(text)
    sizes = tasks.make(name, **options).rows({"train": 1}, 0)["train"]  # `--n` is of each size
    flags = ({} if suite.rows is None else {"n": -(-suite.rows // sizes)}) | options
    words = [f"--{k.replace('_', '-')}" + ("" if v is True else f" {shlex.quote(str(v))}") for k, v in flags.items()]
    return " ".join(["ape gen", name, *words])
