"""Select and sort the rows of the table of runs, as `ape runs --filter … --sort …` asks.

A condition is a SQL expression on the columns, as Polars reads it: `status = 'failed' and steps >= 800`. The short
forms COLUMN=VALUE (also with `!=`, `<`, `<=`, `>` and `>=`), COLUMN~TEXT and `COLUMN is null` need no quotes.
"""

from __future__ import annotations

import re

import polars as pl

from ape_cli.core.errors import UsageError, pick, unknown

_PLAIN = re.compile(  # a column, a sign and a value
    r"\s*([\w-]+)\s*(<=|>=|!=|<>|==?|<|>|~)\s*((?:(?!\s(?:and|or)\s)[^'\"()])*?)\s*", re.IGNORECASE
)
_MISSING = re.compile(r"\s*([\w-]+)\s+is\s+(not\s+)?null\s*", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?(\d[\d,]*\.?\d*|\.\d+)(e[-+]?\d+)?%?", re.IGNORECASE)  # also 1,000 and 50%
_SHORT = {"validation": "validation_token_accuracy"}  # what the table on a terminal calls a column
_FORMS = "COLUMN=VALUE, or with != < <= > >=, or ~ for a part of a text, or a SQL expression on columns"


def selected(table: pl.DataFrame, conditions: list[str]) -> pl.DataFrame:
    """The rows that fulfil all conditions, for example `status=failed`, `steps>=800` and `dataset~tree`.

    A cell without a value fulfils no condition, except `!=` in the form COLUMN!=VALUE, and `COLUMN is null`.

    Raises `UsageError` for a condition that cannot be read, or is not true or false of a row, for an unknown column,
    and for a value of another type.
    """
    for text in conditions:
        if plain := _PLAIN.fullmatch(text):
            fulfilled = _plain(table, text, *plain.groups())
        elif missing := _MISSING.fullmatch(text):
            column = table[_column(table, missing[1])]
            fulfilled = column.is_not_null() if missing[2] else column.is_null()
        else:
            fulfilled = _fulfilled(table, text, text)
        table = table.filter(fulfilled)
    return table


def _plain(table: pl.DataFrame, text: str, name: str, sign: str, value: str) -> pl.Series:
    """Whether each row fulfils COLUMN SIGN VALUE. A number may be a percentage and have thousands separators."""
    name = _column(table, name)
    kind = _kind(table, name)
    if sign == "~":
        if kind != "a text":
            fix = "compare it by = != < <= > or >="
            raise UsageError(f"bad `filter`: {name} is {kind}, and ~ finds a part of a text", got=text, fix=fix)
        return table[name].str.contains(value, literal=True)
    if kind == "a text":
        value = f"'{value}'"
    elif re.search(r"\s", value) or value in table.columns or _is_of(kind, value):
        value = re.sub("%$", " / 100.0", value.replace(",", ""))
    else:
        what, fix = f"bad `filter`: {value!r} is not {kind}", f"`{name} is null` finds runs without a value"
        raise UsageError(what, got=text, allowed=f"{name} is {kind}", fix=fix)
    return _fulfilled(table, text, f'"{name}" {sign.replace("==", "=")} {value}').fill_null(sign in ("!=", "<>"))


def _kind(table: pl.DataFrame, name: str) -> str:
    """What the values of a column are, in words."""
    kind = table.schema[name]
    return "a text" if kind == pl.String else "true or false" if kind == pl.Boolean else "a number"


def _is_of(kind: str, value: str) -> bool:
    """Whether a word is a number, or true or false."""
    return bool(_NUMBER.fullmatch(value)) if kind == "a number" else value.lower() in ("true", "false")


def _fulfilled(table: pl.DataFrame, text: str, sql: str) -> pl.Series:
    """Whether each row fulfils a SQL expression. `text` is the condition as the user wrote it, for errors."""
    try:
        expression = pl.sql_expr(sql)
    except pl.exceptions.PolarsError as error:
        fix = "for example status=failed, or status = 'failed' or steps < 800"
        raise UsageError("bad `filter`: it cannot be read", got=text, allowed=_FORMS, fix=fix) from error
    names = sorted(set(expression.meta.root_names()))
    if other := next((name for name in names if name not in table.columns), None):
        of = unknown("column", other, table.columns)
        more = "choose one from the list, put a text into quotes, or find runs without a value by `COLUMN is null`"
        fix = of.fix if of.fix and of.fix.startswith("did you mean") else more
        raise UsageError("bad `filter`: unknown column", got=f"{other!r} in {text}", allowed=of.allowed, fix=fix)
    try:
        found = table.with_columns(expression.alias("fulfilled"))["fulfilled"]
    except pl.exceptions.PolarsError as error:
        kinds = ", ".join(f"{name} is {_kind(table, name)}" for name in names)
        fix = "compare numbers with numbers, and texts with texts in quotes"
        raise UsageError("bad `filter`: it cannot be computed", got=text, allowed=kinds or _FORMS, fix=fix) from error
    if found.dtype != pl.Boolean:
        what, fix = "bad `filter`: it is not true or false of a run", "compare it with a value, as in steps >= 800"
        raise UsageError(what, got=text, allowed="a condition", fix=fix)
    return found


def _column(table: pl.DataFrame, name: str) -> str:
    """The column of a name, which may have hyphens in place of underscores. Raises `UsageError` if it is unknown."""
    plain = name.replace("-", "_")
    return pick("column", _SHORT.get(plain, plain), table.columns)


def arranged(table: pl.DataFrame, column: str, *, descending: bool) -> pl.DataFrame:
    """The rows in the order of a column. Equal rows keep their order, and rows without a value come last.

    Raises `UsageError` if the column is unknown.
    """
    return table.sort(_column(table, column), descending=descending, nulls_last=True, maintain_order=True)
