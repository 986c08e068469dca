"""Settings in tables: the names of rows, and the notes on settings that validation scores chose.

A row is named by its scheme and by the settings in which it differs from its preset. What all rows of a table share is
left out and stands in the caption; a single row keeps its settings. If a row of a scheme sets a setting of training
(`runs.config.TRAINING`), the other rows of the scheme name their own value of it, which is the preset's:
`rope (lr_peak=0.001)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import polars as pl

from ape_cli.core.errors import UsageError, pick
from ape_cli.reports.descriptions import CODE, Choice, Settings, joined, read_settings

Key = tuple[str, str]  # the scheme of a row, and its settings as JSON


def _settings(lines: pl.DataFrame) -> dict[Key, Settings]:
    """The settings of each row of a table."""
    keys = lines.select("scheme", pl.col("settings").cast(pl.String)).unique(maintain_order=True).rows()
    return {(scheme, text): read_settings(text) for scheme, text in keys}


def _named(scheme: str, items: Mapping[str, str]) -> str:
    """The name of a row."""
    return f"{scheme} ({joined(items)})" if items else scheme


def row_names(lines: pl.DataFrame) -> tuple[dict[Key, str], str]:
    """The name of each row of a table, and the settings that all rows share as text."""
    rows = _settings(lines)
    shared = set.intersection(*(set(row.variant.items()) for row in rows.values()))
    shared = {(key, item) for key, item in shared if key != CODE and len(rows) > 1}
    names = {}
    for (scheme, text), row in rows.items():
        own = dict(row.variant.items() - shared)
        of_others = {
            key for (other, _), one in rows.items() if other == scheme for key, _ in one.variant.items() - shared
        }
        names[scheme, text] = _named(scheme, {key: row.training[key] for key in of_others & row.training.keys()} | own)
    return names, joined(dict(shared))


TableKey = tuple[bool, str, str]  # is_image, structure and preset


def two_rows(a: str, b: str, lines: pl.DataFrame) -> dict[tuple[Any, ...], str]:
    """The rows that a user calls `a` and `b`, of the lines from `layout.label`: the side of each table and row.

    If both names are of one row in a table, the row is of the name that has its settings, and the table lacks the other
    row. Raises `UsageError` if a row is unknown, or if both are the same everywhere.
    """
    found = {"a": _called(a, lines), "b": _called(b, lines)}
    for table in found["a"].keys() & found["b"].keys():
        of_a, of_b = found["a"][table], found["b"][table]
        if of_a.row == of_b.row:
            for side, one, other in (("a", of_a, of_b), ("b", of_b, of_a)):
                if one.exact <= other.exact:
                    del found[side][table]
    if not found["a"] or not found["b"]:
        raise UsageError("a row compared with itself", got=f"{a} and {b}", allowed="two different rows of the tables")
    return {(*table, called.row): side for side, of_side in found.items() for table, called in of_side.items()}


class _Called(NamedTuple):
    """The row of a table that a name is of, and how exactly it names it."""

    exact: int  # 2: with its settings; 1: as its table does; 0: by the scheme of a single row
    row: str


def _called(name: str, lines: pl.DataFrame) -> dict[TableKey, _Called]:
    """The row of a name, in each table that has it.

    A row may be named as its table names it, with all of its settings, or by its scheme alone if no other row of its
    table has this scheme. Raises `UsageError` if there is no such row.
    """
    found: dict[TableKey, _Called] = {}
    for table, group in lines.partition_by("is_image", "structure", "preset", as_dict=True).items():
        rows = group.select("row", "scheme", "variant").unique().rows()
        wholes = [_Called(2, row) for row, scheme, variant in rows if name == f"{scheme} ({variant})"]
        exact = wholes + [_Called(1, row) for row, _, _ in rows if name == row]
        of_scheme = [_Called(0, row) for row, scheme, _ in rows if name == scheme]
        if exact or len(of_scheme) == 1:
            found[table] = max(exact or of_scheme)
    if not found:
        pick("row of the tables", name, lines["row"].unique())
    return found


def notes(cells: Iterable[tuple[str, str, str]], split: str, number: Callable[[float], str], change: str) -> list[str]:
    """The notes on the chosen settings of a table: each row and column with its setting, and what the choice moved.

    `cells` has the column, the row and the settings of each of its cells. `number` writes what the choice moved on a
    split, and `change` says what this number is. There are no notes if nothing was chosen.
    """
    chosen = {(column, row): choice for column, row, text in cells if (choice := read_settings(text).choice)}
    if not chosen:
        return []
    trials, seeds = ({getattr(choice, name) for choice in chosen.values()} for name in ("trials", "seeds"))
    if trials == {1}:
        return ["There is one setting for each row, so nothing was chosen."]
    rule = f"""Each cell uses the setting with the best mean validation accuracy ({_range(seeds, "seed")}, \
{_range(trials, "setting")} tried). Test scores were not used."""
    unequal = {
        "numbers of settings": trials,
        "settings": {tuple(choice.tried) for choice in chosen.values()},
        "seeds": seeds,
    }
    if differing := [what for what, of in unequal.items() if len(of) > 1]:
        rule += f" The {differing[0]} differ, so the rows were not tuned equally."
    columns: dict[str, dict[str, list[str]]] = {}  # the rows of each setting in each column
    for (column, row), choice in chosen.items():
        more = [f"{choice.trials} {_plural('setting', choice.trials)}"] if len(trials) > 1 else []
        more += [f"{choice.seeds} {_plural('seed', choice.seeds)}"] if len(seeds) > 1 else []
        more += [] if choice.is_default or split not in choice.moved else [number(choice.moved[split])]
        told = f"{row} ({', '.join(more)})" if more else row
        columns.setdefault(column, {}).setdefault(_of(choice), []).append(told)
    listed = "; ".join(
        f"{column}: " + ", ".join(f"{setting} for {', '.join(rows)}" for setting, rows in settings.items())
        for column, settings in columns.items()
    )
    moved = f" (in brackets: {change}, on the {split} split of the training dataset, over the seeds that both have)"
    known = any(split in choice.moved and not choice.is_default for choice in chosen.values())
    return [rule, f"Settings{moved * known}: {listed}."]


def _of(choice: Choice) -> str:
    """A chosen setting as text."""
    if not choice.setting:
        return "the only setting" if choice.trials == 1 else "the preset's"
    return f"{choice.setting} (the preset's)" if choice.is_default else choice.setting


def _range(counts: set[int], what: str) -> str:
    """Numbers of things as text: `3 seeds`, `1 to 3 seeds`."""
    low, high = min(counts), max(counts)
    return f"{low} {_plural(what, low)}" if low == high else f"{low} to {high} {what}s"


def _plural(what: str, count: int) -> str:
    """The word for this number of things."""
    return what if count == 1 else f"{what}s"
