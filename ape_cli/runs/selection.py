"""Select and sort the rows of the table of runs, as `ape runs --filter … --sort …` asks."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from ape_cli.core.errors import UsageError, pick

_CONDITION = re.compile(r"\s*(?P<column>[\w-]+)\s*(?P<sign><=|>=|!=|==?|<|>|~)\s*(?P<value>.*?)\s*", re.DOTALL)
_SHORT = {"validation": "validation_token_accuracy"}  # what the table on a terminal calls a column
_ALLOWED = "COLUMN=VALUE, or with != < <= > >=, or ~ for a part of a text"


def selected(table: pl.DataFrame, conditions: list[str]) -> pl.DataFrame:
    """The rows that fulfil all conditions, for example `status=failed`, `steps>=800` and `dataset~tree`.

    Numbers are compared as numbers, and texts by the order of their characters. A cell without a value fulfils only
    conditions with `!=`.

    Raises `UsageError` for a condition of another form, an unknown column, or a value that is no number.
    """
    for text in conditions:
        table = table.filter(_condition(table, text))
    return table


def _condition(table: pl.DataFrame, text: str) -> pl.Expr:
    """A condition on the rows of a table. Raises `UsageError` as `selected` does."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UsageError("bad --filter", got=repr(text), allowed=_ALLOWED, fix="for example --filter status=failed")
    name, sign = _column(table, found["column"]), found["sign"].replace("==", "=")
    column, value = pl.col(name), _value(table.schema[name], name, sign, found["value"])
    if sign == "~":
        return column.str.contains(value, literal=True).fill_null(False)
    compared = {
        "=": column == value,
        "!=": column != value,
        "<": column < value,
        "<=": column <= value,
        ">": column > value,
        ">=": column >= value,
    }[sign]
    return compared.fill_null(sign == "!=")


def _column(table: pl.DataFrame, name: str) -> str:
    """The column of a name, which may have hyphens in place of underscores. Raises `UsageError` if it is unknown."""
    plain = name.replace("-", "_")
    return pick("column", _SHORT.get(plain, plain), table.columns)


def _value(kind: pl.DataType, name: str, sign: str, text: str) -> Any:
    """The value of a condition, of the type of its column. Raises `UsageError` if the text is no such value."""
    if kind == pl.String:
        return text
    if sign == "~":
        fix = f"for example --filter {name}>1"
        raise UsageError("only texts have parts", got=f"{name}~{text}", allowed="= != < <= > >=", fix=fix)
    if kind == pl.Boolean:
        return pick(f"value of {name}", text, ["true", "false"]) == "true"
    try:
        return float(text.replace(",", "").removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        fix = f"for example --filter {name}{sign}1"
        raise UsageError(f"{name} is a number", got=repr(text), allowed="a number", fix=fix) from None


def arranged(table: pl.DataFrame, column: str, *, descending: bool) -> pl.DataFrame:
    """The rows in the order of a column. Equal rows keep their order, and rows without a value come last.

    Raises `UsageError` if the column is unknown.
    """
    return table.sort(_column(table, column), descending=descending, nulls_last=True, maintain_order=True)
