"""Verdicts on each published number of a source: `ape report --against NAME --verdicts`.

`verdicts.py` in the folder above has the rule from which they follow, and the runs that they rest on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import polars as pl

from ape_cli.reports import published, verdicts
from ape_cli.reports.evaluations import METRICS, measured
from ape_cli.reports.published import LAST_DIGIT, Number
from ape_cli.reports.tables import Table, number
from ape_cli.reports.verdicts import Judged, Word
from ape_cli.reports.views import Options, View
from ape_cli.runs.registry import Registry

MARKS: dict[Word, str] = {"reproduced": "=", "differs, and why": "≠", "differs, cause open": "?", "not run": "—"}
_RULE = """=: reproduced: the means differ by at most {times} times the larger standard deviation over seeds, ours \
or the published one, plus {digit}, half of the last digit of the published mean. {times} times the published \
deviation is at least {least}, because it is rounded.{interval} ≠: differs by more, and runs of the same preset with a \
suspected cause leave at most {times} times the published deviation, or {explained:.0%} of the difference. ?: differs \
by more, and no runs explain it."""
_NOT_RUN = "—: not run."
_RATIO = "Our perplexity divided by the published one."
_INTERVAL = " It follows from half of the 95% interval over {} seeds."
_OF_LOGARITHMS = """Perplexities are compared by their logarithm, so deviations are those of the logarithm, and \
rounding is divided by the published perplexity."""
_COLUMNS = {
    **dict.fromkeys(("table", "scheme", "column", "metric", "verdict", "sentence", "preset"), pl.String),
    "seeds": pl.Int64,
    **dict.fromkeys(("mean", "std", "paper_mean", "paper_spread", "difference", "margin", "left"), pl.Float64),
    **dict.fromkeys(("evidence", "cause"), pl.String),
}


class VerdictView(View[list[Judged]]):
    """Shows the verdict on each number. Its page has only its own tables."""

    about = "verdicts on each published number: --against NAME --verdicts"
    on_page = False
    title = "Verdicts"
    unused = ("metric", "decode", "split", "interval", "best_by", "plots", "axis", "counts")

    def read(self, registry: Registry, options: Options) -> list[Judged]:
        """Judge the numbers of a source by the runs of a registry. Raises the errors of `verdicts.read`."""
        return verdicts.read(registry, published.load(options.against or "neurips"))

    def frame(self, result: list[Judged]) -> pl.DataFrame:
        """A line for each cell. `left` is what the cause leaves of the difference.

        Accuracies are fractions. Differences and margins of perplexities are those of their logarithms.
        """
        return pl.DataFrame([_line(cell) for cell in result], schema=_COLUMNS, orient="row")

    def tables(self, result: list[Judged], *, interval: bool = False) -> list[Table]:
        """The tables of the source, with its columns as rows, and a count of the verdicts. The notes have sentences."""
        return [*(_table(name, cells) for name, cells in _by_table(result).items()), count(result)]


def count(cells: Sequence[Judged]) -> Table:
    """How many numbers of each table have each verdict."""
    of_table = {name: [cell.follows for cell in of] for name, of in _by_table(cells).items()}
    rows = [(name, [str(words.count(word)) for word in MARKS]) for name, words in of_table.items()]
    return Table(f"Verdicts on {cells[0].source.called}", [""], [*MARKS], rows, "", head="table")


def _by_table(cells: Sequence[Judged]) -> dict[str, list[Judged]]:
    """The cells of each table of the source, by its name."""
    found: dict[str, list[Judged]] = {}
    for cell in cells:
        found.setdefault(cell.number.table, []).append(cell)
    return found


def _line(cell: Judged) -> dict[str, object]:
    """The line of a cell for programs."""
    ours, entry, number = cell.ours, cell.entry, cell.number
    return {
        "table": number.table,
        "scheme": number.row,
        "column": number.column,
        "metric": number.metric,
        "verdict": cell.follows,
        "sentence": entry and entry.sentence,
        "preset": ours and ours.preset,
        "seeds": ours and len(ours.by_run),
        "mean": ours and ours.mean,
        "std": ours and ours.std,
        "paper_mean": number.value,
        "paper_spread": number.spread,
        **{name: getattr(cell, name) for name in ("difference", "margin", "left")},
        "evidence": " ".join(ours.by_run) if ours else None,
        "cause": " ".join(cell.caused.by_run) if cell.caused else None,
    }


def _table(name: str, cells: Sequence[Judged]) -> Table:
    """One table of the source."""
    metrics = list(dict.fromkeys(cell.number.metric for cell in cells if cell.number.metric in METRICS))
    schemes = list(dict.fromkeys(cell.number.row for cell in cells))
    names = [c.number.column + f", {c.number.metric}" * (len(metrics) > 1) for c in cells]
    columns = list(dict.fromkeys(names))
    texts = {(cell.number.row, column): mark(cell) for cell, column in zip(cells, names, strict=True)}
    rows = [(column, [texts.get((scheme, column)) for scheme in schemes]) for column in columns]
    own_size, others = any(c.own_size for c in cells), {c.ours.preset for c in cells if c.ours and not c.own_size}
    sizes = ["*: runs of the published size."] * own_size
    if others:
        sizes.append(f"{'All other' if own_size else 'All'} runs have preset {', '.join(sorted(others))}.")
    units = [measured(metric, [None]) for metric in metrics if not METRICS[metric].exponential]
    legend = [_RATIO] * any(METRICS[metric].exponential for metric in metrics)
    legend += [f"Our mean {of} minus the published one, in {'points' if u == '%' else u}." for of, u in units]
    legend += [*[_rule(cells)] * bool(metrics), _NOT_RUN, *[_OF_LOGARITHMS] * (_RATIO in legend)]
    told = dict.fromkeys(
        f"{_where(c)}: {c.follows}. {c.entry.sentence}" for c in cells if c.entry and c.follows == c.entry.verdict
    )
    return Table(name, [" ".join([*legend, *sizes]), *told], schemes, rows, "", head="column")


def _rule(cells: Sequence[Judged]) -> str:
    """The rule of `verdicts.py`, with its numbers for the source and the metrics of these cells."""
    source, numbers = cells[0].source, {c.number.metric: c.number for c in cells if c.number.metric in METRICS}

    def amounts(of: Callable[[Number], float]) -> str:
        found = []
        for metric, one in numbers.items():
            name, unit = measured(metric, [None])
            amount = f"{100 * of(one):.2g} points" if unit == "%" else f"{of(one):.2g} {unit}".strip()
            found.append(amount + f" of {name}" * (len(numbers) > 1))
        return " or ".join(found)

    return _RULE.format(
        times=verdicts.DEVIATIONS,
        digit=amounts(lambda one: LAST_DIGIT[one.metric] / 2),
        least=amounts(lambda one: verdicts.DEVIATIONS * source.deviation(one._replace(spread=None))),
        interval=_INTERVAL.format(source.seeds) * (source.spread == "interval"),
        explained=verdicts.EXPLAINED,
    )


def mark(cell: Judged) -> str:
    """A cell as text: the mark of its verdict, the difference or the ratio, and * at the published size."""
    sign = MARKS[cell.follows]
    if cell.ours is None or cell.difference is None:
        return sign
    of = METRICS[cell.number.metric]
    text = f"×{math.exp(cell.difference):.2f}" if of.exponential else number(cell.difference, of.units[0], 2, "+")
    return f"{sign} {text}" + "*" * cell.own_size


def _where(cell: Judged) -> str:
    """The cells that share a sentence, for example `rope on copy and repeat`."""
    assert cell.entry is not None
    *most, last = cell.entry.columns
    return f"{cell.entry.scheme} on {', '.join(most)}{' and ' * bool(most)}{last}"
