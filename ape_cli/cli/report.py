"""`ape report`: tables and plots of the registered runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ape_cli.cli._app import (
    RESULTS,
    Json,
    Presets,
    Results,
    Schemes,
    Somewhere,
    Tasks,
    command,
    here,
    note_changed,
    note_unreadable,
    somewhere,
)
from ape_cli.cli._help import FORMAT, RUNS, SCORES
from ape_cli.cli._sweep_runs import sweep_runs
from ape_cli.cli.console import draw, note, say_names
from ape_cli.core.errors import ApeError, UsageError, pick
from ape_cli.core.names import checked_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ape_cli.reports.document import Document
    from ape_cli.reports.views import Options, View
    from ape_cli.runs.registry import Registry

_ENDINGS = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".json": "json", ".html": "html"}


@command("ape report --interval", option="--task ")
def report(
    style: Annotated[
        str | None,
        typer.Option("--format", help="Format: rich, markdown, latex, csv, json or html.", rich_help_panel=FORMAT),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="Metric: token_accuracy, exact_match or cross_entropy.", rich_help_panel=SCORES)
    ] = "token_accuracy",
    against: Annotated[
        str | None,
        typer.Option(metavar="paper", help="`paper`: show the paper's numbers next to ours.", rich_help_panel=SCORES),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B", help="Compare two rows of the tables in pairs with equal seeds.", rich_help_panel=SCORES
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="size|op|epoch",
            help="`size`: scores by length or depth, over all evaluated datasets; `op`: by operator of the source; "
            "`epoch`: halfway through training and at its end.",
            rich_help_panel=SCORES,
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(help="Name of a view (`ape report --views` lists them). Default: scores.", rich_help_panel=SCORES),
    ] = None,
    views: Annotated[
        bool,
        typer.Option(
            "--views", callback=_list_views, is_eager=True, help="List the views and exit.", rich_help_panel=SCORES
        ),
    ] = False,
    interval: Annotated[
        bool,
        typer.Option(
            "--interval",
            help="Show 95% confidence intervals over seeds instead of standard deviations.",
            rich_help_panel=SCORES,
        ),
    ] = False,
    split: Annotated[str, typer.Option(help="Split: train, validation or test.", rich_help_panel=SCORES)] = "test",
    decode: Annotated[str, typer.Option(help="Decoding: teacher or greedy.", rich_help_panel=SCORES)] = "teacher",
    scheme: Schemes = None,
    task: Tasks = None,
    preset: Presets = None,
    sweep: Annotated[
        Path | None,
        typer.Option(
            parser=here,
            metavar="FILE.toml",
            help="Only the runs of this sweep, on their own datasets.",
            rich_help_panel=RUNS,
        ),
    ] = None,
    to: Annotated[
        Somewhere | None,
        somewhere("Write to a file. Its extension decides the format.", "--out", metavar="FILE", group=FORMAT),
    ] = None,
    plots: Annotated[
        Somewhere | None,
        somewhere("Folder for plots of scores, scores by size and learning curves.", metavar="DIR", group=FORMAT),
    ] = None,
    plot_format: Annotated[
        list[str] | None,
        typer.Option(help="Format of plots: svg (default), png or pdf; may be repeated.", rich_help_panel=FORMAT),
    ] = None,
    axis: Annotated[
        str | None,
        typer.Option(
            metavar="score|error",
            help="Axis of plots: `score` (default), or `error`, which is 100% - score on a log scale.",
            rich_help_panel=FORMAT,
        ),
    ] = None,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Print tables of scores over seeds, like the paper's. `--format html` makes a page with tables and plots.

    \f
    Raises `UsageError` if options are not valid or do not fit together.
    """
    from ape_cli.reports import rendering, scales
    from ape_cli.reports.plots import draw_figures, encode, missing, require
    from ape_cli.reports.views import Options, choose
    from ape_cli.runs import filters
    from ape_cli.runs.registry import open_registry
    from ape_cli.storage import files

    chosen, asked = choose(view, by, compare)
    options = Options(
        metric=metric,
        decode=decode,
        split=split,
        against=against,
        compare=compare,
        interval=interval,
        own=sweep is not None,  # scores on other datasets are shown by --by size
        sweep=sweep.name if sweep else "",
        style=_style(style, to, as_json),
        plots=None if plots is None else str(plots),
        axis=axis,
        asked=asked,
    )
    for error in chosen.rejects(options):
        raise error
    kinds = _plot_kinds(plots, plot_format or [])
    scaled = scales.kind_of(axis, metric, drawn=bool(kinds) or options.style == "html")
    if axis is not None:
        require()
    filtered, standing = filters.make(scheme, task, preset), ""
    registry = open_registry(results)
    if sweep is None:
        registry = registry.where(filtered)
    else:
        registry, standing = sweep_runs(sweep, filtered, registry)
    made, bad = _read(registry, chosen, options, standing)
    figures: dict[str, Figure] = {}
    if (kinds or options.style == "html") and not missing():
        require()
        wanted, told = made.plots()
        figures = draw_figures(wanted, scaled) if kinds else {}
        for line in told:
            note(line)
    note_unreadable(bad)
    note_changed(registry.own_code.values())
    for kind in kinds:
        for name, figure in figures.items():
            path = (plots or Path()) / f"{checked_name('name of the figure', name)}.{kind}"
            files.write_bytes(path, encode(figure, kind))
            note(f"written: {path}")
    if standing and options.style in ("csv", "json"):
        note(standing)
    if options.style == "rich" and to is None:
        draw(rendering.rich(made.tables))
        return
    text = made.text(scaled)
    if to is None:
        sys.stdout.write(text)
    else:
        files.write_text(to, text)
        note(f"written: {to}")


def _read(registry: Registry, view: View, options: Options, standing: str) -> tuple[Document, list[str]]:
    """`document.read`. If nothing is left to report, what was left out is printed before the error is raised."""
    from ape_cli.reports import document

    try:
        return document.read(registry, view, options, standing)
    except ApeError as error:
        note_unreadable(getattr(error, "__notes__", []))
        raise


def _list_views(wanted: bool) -> None:
    """`--views`: print the views, and exit."""
    if not wanted:
        return
    from ape_cli.reports.views import every

    found, bad = every()
    say_names((view.name, view.about) for view in found)
    note_unreadable(bad)
    raise typer.Exit


def _style(style: str | None, to: Somewhere | None, as_json: bool) -> str:
    """The format, by its name or by the extension of a file. Raises `UsageError` if it is unknown or not clear."""
    from ape_cli.reports import rendering

    if as_json:
        if style not in (None, "json"):
            raise UsageError("one format at a time", got=f"--json and --format {style}", fix="leave one out")
        return "json"
    if style is None and to is not None and to.suffix not in _ENDINGS:
        known = ", ".join(_ENDINGS)
        raise UsageError(
            "the file's extension is not that of a format", got=str(to), allowed=known, fix="name one with --format"
        )
    return pick("format", style or (_ENDINGS[to.suffix] if to else "rich"), rendering.FORMATS)


def _plot_kinds(folder: Somewhere | None, kinds: list[str]) -> list[str]:
    """The formats of the plots; an empty list without --plots. Raises `UsageError` if they are not valid."""
    from ape_cli.reports import plots

    if folder is None:
        if kinds:
            raise UsageError("--plot-format needs --plots", got=f"--plot-format {kinds[0]}", fix="add --plots DIR")
        return []
    for kind in kinds:
        pick("plot format", kind, plots.FORMATS)
    plots.require()
    return list(dict.fromkeys(kinds)) or ["svg"]
