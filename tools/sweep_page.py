"""The reference page of sweep files, and of the TOML files of `ape train --config`."""

from __future__ import annotations

import json
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ape_cli.experiment.spec import ExperimentSpec, fields_of
from ape_cli.sweep.specification import SweepSpec, TuneSpec
from tools.markdown_text import page, table

WORDS = {str: "text", bool: "true, false", int: "integer"}
PARSED = {  # the types of values that a file gives in another form
    "sizes": "text or list of integers",
    "generalise": "true, false, text or list of integers",
    "data": "text",
}
INTRODUCTION = """
A sweep file lists what `ape sweep FILE.toml` trains: every combination of the values is a trial.
[Run many trials](../guides/sweeps.md) shows how to use one. It is a TOML file of at most 16 KiB:

```toml
preset = "small"
seeds = [42, 43, 44]
tasks = ["copy", "tree-copy"]
orders = ["breadth", "depth"]
generalise = true

[[grid]]
schemes = ["none", "sinusoidal", "rope"]

[[grid]]
schemes = ["orthogonal-seq"]
set = { decay = [1, 0.98] }
```

`ape sweep FILE.toml --dry-run` lists its 45 trials. There are three datasets, because `copy` has no node order. Three
schemes and two settings of a fourth make five trials for each dataset and seed.
"""
FIELDS = """
## Fields

Options of `ape sweep` have the same names (`set` is `--set`, and the fields of `tune` are `--tune`, `--trials` and
`--tune-seeds`), and replace the fields of the file. An unknown field is an error.
"""
GRIDS = """
## `[[grid]]`

A file may have several tables `[[grid]]`, each with any of these fields. A field that a grid lacks has the value above
the first `[[grid]]`. `set` and `tune` are merged key by key. Trials that several grids have in common are trained once.
"""
TUNE = """
## `[tune]`

The settings of which each scheme keeps the one with the best validation score:
[Tune each scheme equally](../guides/tune.md).
"""
EXPERIMENT = """
## A single experiment

`ape train --config FILE.toml` takes a file with a single value for each field, whose name is singular:

```toml
scheme = "rope"
task = "tree-copy"
order = "depth"
preset = "small"
set = { lr_peak = 1e-3, steps = 400 }
```

The fields mean the same as the options of `ape train`, which replace them. `scheme` is required, here or as an option.
"""


def sweep_page() -> dict[str, str]:
    """The page, with the fields of each table."""
    parts = [INTRODUCTION, FIELDS, _fields(SweepSpec), GRIDS, TUNE, _fields(TuneSpec)]
    rows = [[f"`{name}`", words, default] for name, words, default, _ in _rows(ExperimentSpec)]
    return {"sweep-file.md": page("Sweep files", *parts, EXPERIMENT, table(["field", "type", "default"], rows))}


def _fields(model: type[BaseModel]) -> str:
    """The table of the fields of a model."""
    rows = [[f"`{name}`", words, default, about] for name, words, default, about in _rows(model)]
    return table(["field", "type", "default", "meaning"], rows)


def _rows(model: type[BaseModel]) -> list[tuple[str, str, str, str]]:
    """The name, the type, the default and the meaning of each field of a model."""
    hints, rows = {"set": dict, **get_type_hints(model)}, []
    for name, field in fields_of(model).items():
        parsed = name in PARSED and field.annotation != list[str]
        default = f"`{json.dumps(field.default)}`" if field.default not in (None, "", [], {}, PydanticUndefined) else ""
        rows.append((name, PARSED[name] if parsed else words_of(hints[name]), default, field.description or ""))
    return rows


def words_of(hint: Any) -> str:
    """A type in words.

    >>> words_of(str | list[int] | None), words_of(dict[str, bool])
    ('text or list of integers', 'table')
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        *first, last = (words_of(other) for other in inner if other is not type(None))
        return f"{', '.join(first)} or {last}" if first else last
    if origin is list:
        return "list of text" if inner[0] is str else f"list of {words_of(inner[0])}s"
    return WORDS.get(hint, "table")
