"""Filters select runs by scheme, task and preset, and the rows of the table of runs by conditions on its columns.

A condition is a SQL expression, as Polars reads it: `not (status = 'failed' or steps < 800)`. The short forms
COLUMN=VALUE (also with `!=`, `<`, `<=`, `>` and `>=`), COLUMN~TEXT and `COLUMN is null`, and several of them joined by
`and` and `or`, need no quotes: `status=failed or steps<800`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, NamedTuple

from ape_cli import tasks
from ape_cli.core.errors import ApeError, UsageError, pick, suggestion
from ape_cli.runs.config import PRESETS, Config

if TYPE_CHECKING:  # imported lazily: training needs no polars
    import polars as pl

    from ape_cli.data.loader import Dataset
    from ape_cli.runs.record import DatasetRecord


RunKind = tuple[tuple[str, ...], ...]  # schemes, tasks and presets that a run has, in the order of `Filter`


def run_kind(config: Config, data: Dataset | DatasetRecord) -> RunKind:
    """What filters compare of a run. Some runs have several names for their task.

    A tree task is also called by its linearisation, as in `tree-copy/depth`, a task of images by its source, as in
    `images/digits`, and a task with options as in a request: `modular kind=parity`.
    """
    more = data.parameters.get("source") if data.image else data.order
    names = [data.task, f"{data.task}/{more}" if more else data.task]
    with suppress(ApeError, LookupError):  # a task that is not known here
        names.append(tasks.load(data.task).text(data.parameters))
    return (config.scheme,), tuple(dict.fromkeys(names)), (config.preset,)


class Filter(NamedTuple):
    """Selects the runs with one of the schemes, one of the tasks and one of the presets. An empty tuple selects all."""

    schemes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The filter as options."""
        return " ".join(f"`{option}={name}`" for option, names in zip(_OPTIONS, self, strict=True) for name in names)

    def picks(self, run: RunKind) -> bool:
        """Whether the filter selects this run."""
        return all(not names or set(names) & set(has) for names, has in zip(self, run, strict=True))

    def check(self, runs: Collection[RunKind], where: str) -> None:
        """Check that each name of the filter occurs in some run, and that some run is selected.

        `runs` are the kinds of all runs, and `where` says in words where they are. Without any runs, every filter is
        valid.

        Raises `ApeError` that lists what exists, if the check fails.
        """
        for option, names, fields in zip(_OPTIONS, self, zip(*runs, strict=True), strict=False):
            existing = sorted({name for has in fields for name in has})
            for name in names:
                if name not in existing:
                    raise ApeError(
                        f"no run in {where} has {option} {name!r}",
                        got=f"`{option}={name}`",
                        allowed=", ".join(existing),
                        fix=suggestion(name, existing, "choose one of those, or train such a run"),
                    )
        if runs and not any(map(self.picks, runs)):
            fix = "leave one of the options out, or train such a run"
            raise ApeError(f"no run in {where} matches all of these options", got=str(self), fix=fix)


_OPTIONS = ("scheme", "task", "preset")
ANY = Filter()


def make(schemes: list[str] | None, tasks: list[str] | None, presets: list[str] | None) -> Filter:
    """Make a filter from repeated options. Raises `UsageError` if a preset does not exist."""
    for name in presets or ():
        pick("preset", name, PRESETS)
    return Filter(*(tuple(dict.fromkeys(names or ())) for names in (schemes, tasks, presets)))


_PLAIN = re.compile(  # a column, a sign and a value
    r"\s*([\w-]+)\s*(<=|>=|!=|<>|==?|<|>|~)\s*([^'\"()]*?)\s*"
)
_AND, _OR = (re.compile(rf"\s+{word}\s+", re.IGNORECASE) for word in ("and", "or"))
_MISSING = re.compile(r"\s*([\w-]+)\s+is\s+(not\s+)?null\s*", re.IGNORECASE)
_NUMBER = re.compile(  # also 1,000 and 50%
    r"[-+]?((\d+|[1-9]\d{0,2}(,\d{3})+)\.?\d*|\.\d+)(e[-+]?\d+)?%?", re.IGNORECASE
)
_SHORT = {"validation": "validation_token_accuracy"}  # what the table on a terminal calls a column
_LISTED_BY = "ape runs --json"
_FORMS = (
    "COLUMN=VALUE, or with != < <= > >=, or ~ for a part of a text, joined by and, or; or a SQL expression on columns"
)


def selected(table: pl.DataFrame, conditions: list[str]) -> pl.DataFrame:
    """The rows that fulfil all conditions, for example `status=failed`, `steps>=800` and `dataset~tree`.

    A cell without a value fulfils no condition, except `!=` in the form COLUMN!=VALUE, and `COLUMN is null`.

    Raises `UsageError` for a condition that cannot be read, or is not true or false of a row, for an unknown column,
    and for a value of another type.
    """
    for text in conditions:
        alternatives = [_AND.split(part) for part in _OR.split(text)]
        if all(_PLAIN.fullmatch(form) or _MISSING.fullmatch(form) for forms in alternatives for form in forms):
            fulfilled = reduce(or_, (reduce(and_, (_short(table, form) for form in forms)) for forms in alternatives))
        else:
            fulfilled = _fulfilled(table, text, text)
        table = table.filter(fulfilled)
    return table


def _short(table: pl.DataFrame, text: str) -> pl.Series:
    """Whether each row fulfils a condition in a short form."""
    if plain := _PLAIN.fullmatch(text):
        return _plain(table, text, *plain.groups())
    missing = _MISSING.fullmatch(text)
    assert missing is not None
    column = table[_column(table, missing[1])]
    return column.is_not_null() if missing[2] else column.is_null()


def _plain(table: pl.DataFrame, text: str, name: str, sign: str, value: str) -> pl.Series:
    """Whether each row fulfils COLUMN SIGN VALUE. A number may be a percentage and have thousands separators."""
    import polars as pl

    name = _column(table, name)
    if sign == "~":
        return table[name].cast(pl.String).str.contains(value, literal=True)
    if table.schema[name] == pl.String:
        value = f"'{value}'"
    elif _NUMBER.fullmatch(value):
        value = re.sub("%$", " / 100.0", value.replace(",", ""))
    return _fulfilled(table, text, f'"{name}" {sign.replace("==", "=")} {value}').fill_null(sign in ("!=", "<>"))


def _fulfilled(table: pl.DataFrame, text: str, sql: str) -> pl.Series:
    """Whether each row fulfils a SQL expression. `text` is the condition as the user wrote it, for errors."""
    import polars as pl

    fix = "for example status=failed, `steps is null`, or status=failed or steps<800"
    try:
        expression = pl.sql_expr(sql)
        for name in expression.meta.root_names():
            pick("column", name, table.columns, _LISTED_BY)
        fulfilled = table.with_columns(expression.alias("fulfilled"))["fulfilled"]
    except pl.exceptions.PolarsError as error:
        raise UsageError("bad `filter`: it cannot be computed", got=text, allowed=_FORMS, fix=fix) from error
    if fulfilled.dtype != pl.Boolean:
        raise UsageError(
            "bad `filter`: it does not give true or false for a run", got=text, allowed="a condition", fix=fix
        )
    return fulfilled


def _column(table: pl.DataFrame, name: str) -> str:
    """The column of a name, which may have hyphens in place of underscores. Raises `UsageError` if it is unknown."""
    plain = name.replace("-", "_")
    return pick("column", _SHORT.get(plain, plain), table.columns, _LISTED_BY)


def arranged(table: pl.DataFrame, column: str, *, descending: bool) -> pl.DataFrame:
    """The rows in the order of a column. Equal rows keep their order, and rows without a value come last.

    Raises `UsageError` if the column is unknown.
    """
    return table.sort(_column(table, column), descending=descending, nulls_last=True, maintain_order=True)
