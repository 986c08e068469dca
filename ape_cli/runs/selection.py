"""Select and sort the rows of the table of runs, as `ape runs --filter … --sort …` asks.

A condition is a SQL expression on the columns, as Polars reads it: `status = 'failed' and steps >= 800`. The short
forms COLUMN=VALUE (also with `!=`, `<`, `<=`, `>` and `>=`) and COLUMN~TEXT need no quotes.
"""

from __future__ import annotations

import re

import polars as pl

from ape_cli.core.errors import UsageError, pick

_PLAIN = re.compile(r"\s*([\w-]+)\s*(<=|>=|!=|==?|<|>|~)\s*([^'\"()]*?)\s*")  # a column, a sign and a value
_SHORT = {"validation": "validation_token_accuracy"}  # what the table on a terminal calls a column


def selected(table: pl.DataFrame, conditions: list[str]) -> pl.DataFrame:
    """The rows that fulfil all conditions, for example `status=failed`, `steps>=800` and `dataset~tree`.

    A cell without a value fulfils no condition, except `!=` in the form COLUMN!=VALUE.

    Raises `UsageError` for a condition that Polars cannot read, an unknown column, or a value of another type.
    """
    for text in conditions:
        try:
            plain = _PLAIN.fullmatch(text)
            table = table.filter(_plain(table, *plain.groups()) if plain else pl.sql_expr(text))
        except pl.exceptions.PolarsError as error:
            raise UsageError(
                "bad `filter`",
                got=f"{text!r} ({str(error).splitlines()[0]})",
                allowed="COLUMN=VALUE, or with != < <= > >=, or ~ for a part of a text, or a SQL expression on columns",
                fix="for example status=failed, or status = 'failed' or steps < 800",
            ) from error
    return table


def _plain(table: pl.DataFrame, name: str, sign: str, value: str) -> pl.Expr:
    """The condition COLUMN SIGN VALUE. A number may be a percentage and have thousands separators."""
    name = _column(table, name)
    if sign == "~":
        return pl.col(name).str.contains(value, literal=True)
    is_text = table.schema[name] == pl.String
    value = f"'{value}'" if is_text else re.sub("%$", " / 100.0", value.replace(",", ""))
    condition = pl.sql_expr(f'"{name}" {sign.replace("==", "=")} {value}')
    return condition.fill_null(sign == "!=")


def _column(table: pl.DataFrame, name: str) -> str:
    """The column of a name, which may have hyphens in place of underscores. Raises `UsageError` if it is unknown."""
    plain = name.replace("-", "_")
    return pick("column", _SHORT.get(plain, plain), table.columns)


def arranged(table: pl.DataFrame, column: str, *, descending: bool) -> pl.DataFrame:
    """The rows in the order of a column. Equal rows keep their order, and rows without a value come last.

    Raises `UsageError` if the column is unknown.
    """
    return table.sort(_column(table, column), descending=descending, nulls_last=True, maintain_order=True)
