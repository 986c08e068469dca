"""`ape report`: the tables, and the plots."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ape_cli.cli._app import (
    RESULTS,
    Presets,
    Results,
    Schemes,
    Somewhere,
    Tasks,
    app,
    command,
    note_unreadable,
    somewhere,
)
from ape_cli.cli._combinations import refuse_beside_the_paper, refuse_both, refuse_grouping
from ape_cli.cli._sweep_runs import sweep_runs
from ape_cli.cli.console import draw, note
from ape_cli.core.errors import UsageError, pick

if TYPE_CHECKING:  # Polars comes in with the command
    import polars as pl
    from matplotlib.figure import Figure

    from ape_cli.reports.tables import Table
    from ape_cli.runs.registry import Registry

_ENDINGS = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".json": "json", ".html": "html"}


@app.command()
@command
def report(
    style: Annotated[str | None, typer.Option("--format", help="rich, markdown, latex, csv, json, html.")] = None,
    metric: Annotated[str, typer.Option(help="token_accuracy, exact_match or cross_entropy.")] = "token_accuracy",
    against: Annotated[str | None, typer.Option(help="`paper`: its numbers beside ours.")] = None,
    compare: Annotated[
        tuple[str, str] | None, typer.Option(metavar="A B", help="Two rows of the tables, in pairs by seed.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="`size`: by length or depth, over all evaluated datasets; `op`: by operator of tree-ops; "
            "`epoch`: halfway and at the end."
        ),
    ] = None,
    interval: Annotated[
        bool,
        typer.Option("--interval", help="± half of the 95% interval over seeds, instead of the standard deviation."),
    ] = False,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    decode: Annotated[str, typer.Option(help="teacher or greedy.")] = "teacher",
    scheme: Schemes = None,
    task: Tasks = None,
    preset: Presets = None,
    sweep: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Only the runs of this sweep, on their own data.")
    ] = None,
    to: Annotated[
        Somewhere | None, somewhere("Write to a file; its ending tells the format.", "--out", metavar="FILE")
    ] = None,
    plots: Annotated[
        Somewhere | None, somewhere("Draw scores, scores by size and learning curves into a folder.", metavar="DIR")
    ] = None,
    plot_format: Annotated[
        list[str] | None, typer.Option(help="svg, png, pdf; several: the option again. Default svg.")
    ] = None,
    axis: Annotated[
        str | None, typer.Option(help="What plots show: `score` (default), or `error`, 100% - score on a log scale.")
    ] = None,
    results: Results = RESULTS,
) -> None:
    """Aggregate the registry over seeds into the paper's tables. `--format html`: one page, plots and all."""
    from ape_cli.reports import rendering, scales
    from ape_cli.reports.plots import encode, require
    from ape_cli.runs import filters
    from ape_cli.runs.registry import open_registry
    from ape_cli.storage import files

    if style is None and to is not None and to.suffix not in _ENDINGS:
        known = ", ".join(_ENDINGS)
        raise UsageError("the file's ending tells no format", got=str(to), allowed=known, fix="name one with --format")
    chosen = pick("format", style or (_ENDINGS[to.suffix] if to else "rich"), rendering.FORMATS)
    refuse_both(chosen, compare, interval, against)
    asked = {"metric": metric, "decode": decode, "split": split}
    refuse_grouping(by, chosen, compare, against, asked)
    refuse_beside_the_paper(against, asked)
    kinds = _plot_kinds(plots, plot_format or [], compare)
    scaled = scales.kind_of(axis, metric, drawn=bool(kinds) or chosen == "html", compared=bool(compare))
    if axis is not None:
        require()
    filtered, standing = filters.make(scheme, task, preset), ""
    registry = open_registry(results)
    if sweep is None:
        registry = registry.where(filtered)
    else:
        registry, standing = sweep_runs(sweep, filtered, registry)
    own = sweep is not None  # scores on other data are for --by size
    found, made, bad = _tables(registry, asked, compare, by, against, interval, own)
    made = [replace(table, notes=[*table.notes, standing]) if standing else table for table in made]
    by_size: list[Table] = []
    further: dict[str, list[Table]] = {}
    figures: dict[str, Figure] = {}
    if not compare and (kinds or chosen == "html"):
        scores = _tables(registry, asked, None, None, against, interval, own)[1] if by else made
        by_size, figures, more = _drawn(registry, asked, scores, interval, scaled)
        bad += more
    if not compare and chosen == "html":
        further, more = _further(registry, asked, against, interval, own)
        bad += more
    note_unreadable(list(dict.fromkeys(bad)))
    for kind in kinds:
        for name, figure in figures.items():
            path = (plots or Path()) / f"{name}.{kind}"
            files.write_bytes(path, encode(figure, kind))
            note(f"written: {path}")
    if standing and chosen in ("csv", "json"):
        note(standing)
    if chosen == "rich" and to is None:
        draw(rendering.rich(made))
        return
    text = _text(chosen, found, made, by_size, further, figures, scaled, plotted=not compare)
    if to is None:
        sys.stdout.write(text)
    else:
        files.write_text(to, text)
        note(f"written: {to}")


def _text(
    chosen: str,
    found: pl.DataFrame,
    made: list[Table],
    by_size: list[Table],
    further: dict[str, list[Table]],
    figures: dict[str, Figure],
    axis: str,
    plotted: bool,
) -> str:
    """The report in a format of text. `plotted`: whether it would have plots, if they can be drawn."""
    from ape_cli.reports import html_page, plots, rendering

    if chosen == "csv":
        return found.write_csv()
    if chosen == "json":
        return json.dumps(found.to_dicts(), indent=2, ensure_ascii=False) + "\n"
    if chosen == "html":
        svgs = {name: plots.inline(figure, name) for name, figure in figures.items()}
        by_epoch, by_operator = (further.get(by, []) for by in ("epoch", "op"))
        missing = plots.missing() if plotted else None
        return html_page.page(made, by_size, by_epoch, svgs, missing, by_operator=by_operator, axis=axis)
    return rendering.text(chosen, made)


def _tables(
    registry: Registry,
    asked: dict[str, Any],
    compare: tuple[str, str] | None,
    by: str | None,
    against: str | None,
    interval: bool,
    own: bool,
) -> tuple[pl.DataFrame, list[Table], list[str]]:
    """What is asked for, for programs and for people; and what could not be read or paired."""
    from ape_cli.reports import aggregation, comparison, epochs, evaluations, operators, sizes, tables

    if compare:
        values, bad = evaluations.wanted(registry, **asked, own=own)
        found, alone = comparison.lines(values, *compare)
        return found, comparison.tables(found), bad + alone
    if by == "epoch":
        found, bad = epochs.lines(registry, metric=asked["metric"], against=against)
        return epochs.columns(found), epochs.tables(found, interval=interval), bad
    if by == "size":
        by_size, bad = sizes.read(registry, **asked)
        return sizes.lines(by_size), sizes.tables(by_size, interval=interval), bad
    if by == "op":
        found, bad = operators.read(registry, **asked, own=own)
        return operators.lines(found), operators.tables(found, interval=interval), bad
    found, bad = aggregation.lines(registry, **asked, against=against, own=own)
    return found, tables.tables(found, interval=interval), bad


def _further(
    registry: Registry, asked: dict[str, Any], against: str | None, interval: bool, own: bool
) -> tuple[dict[str, list[Table]], list[str]]:
    """The other tables of a page, by what they are by, where there is something; and what could not be read."""
    from ape_cli.reports import epochs, operators
    from ape_cli.reports.curves import MEASURED

    by_op, bad = operators.read(registry, **asked, own=own, needed=False)
    found = {"op": operators.tables(by_op, interval=interval)}
    if asked["metric"] in MEASURED:
        by_epoch, more = epochs.lines(registry, metric=asked["metric"], against=against, needed=False)
        found["epoch"] = epochs.tables(by_epoch, interval=interval)
        bad += more
    return found, bad


def _drawn(
    registry: Registry, asked: dict[str, Any], scores: list[Table], interval: bool, axis: str
) -> tuple[list[Table], dict[str, Figure], list[str]]:
    """Tables by size, and the figures of a report, where there is matplotlib; and what could not be read."""
    from ape_cli.reports import curves, dot_plots, line_plots, plots, sizes
    from ape_cli.reports.evaluations import METRICS

    by_size, bad = sizes.read(registry, **asked, needed=False)
    tables = sizes.tables(by_size, interval=interval)
    if plots.missing():
        return tables, {}, bad
    metric = asked["metric"]
    if metric not in curves.MEASURED:
        note(f"no learning curves: {METRICS[metric][0]} is not measured while a run trains")
    learning, more = curves.learning(registry, metric=metric)
    wanted = {
        "scores": dot_plots.plot(scores),
        "by-size": line_plots.plot(sizes.panels(by_size), metric),
        "learning-curves": line_plots.plot(learning, metric, "validation "),
    }
    figures = plots.figures(wanted, axis)
    for told in (plot.note for plot in wanted.values() if plot and plot.note):
        note(told)
    return tables, figures, bad + more


def _plot_kinds(folder: Somewhere | None, kinds: list[str], compare: tuple[str, str] | None) -> list[str]:
    """The formats of the plots that are asked for; none, if none are."""
    from ape_cli.reports import plots

    if folder is None:
        if kinds:
            raise UsageError("--plot-format is for --plots", got=f"--plot-format {kinds[0]}", fix="add --plots DIR")
        return []
    if compare:
        raise UsageError("a comparison has no plots", got=f"--compare and --plots {folder}", fix="leave one out")
    for kind in kinds:
        pick("plot format", kind, plots.FORMATS)
    plots.require()
    return list(dict.fromkeys(kinds)) or ["svg"]
