"""`ape report`: tables and plots of the registered runs."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from typing import ClassVar

from ape_cli.cli._app import command, note_changed
from ape_cli.cli.console import draw, print_note
from ape_cli.cli.options import (
    FORMAT,
    SCORES,
    AnyPath,
    Json,
    ResultsFolder,
    RunFilter,
    listing,
    option,
    path,
    refuse_idle,
)
from ape_cli.cli.sweep import sweep_runs
from ape_cli.core.errors import UsageError, pick
from ape_cli.core.slow_steps import slow_step

_ENDINGS = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".json": "json", ".html": "html"}


@dataclass(frozen=True)
class ScoreOptions:
    """Which scores are shown."""

    PANEL: ClassVar = SCORES
    metric: str | None = option(
        "Metric: token_accuracy (default), exact_match, cross_entropy or perplexity. "
        "With --against, the first one of the published numbers."
    )
    against: str | None = option(
        "Show published numbers next to yours: of the paper (`neurips`), of its preprint (`paper`), or of a file.",
        metavar="neurips|paper|FILE.toml",
    )
    compare: tuple[str, str] | None = option("Compare two rows of the tables, paired by seed.", metavar="A B")
    by: str | None = option(
        "`size`: scores by length or depth, over all evaluated datasets; `op`: by operator of the source; "
        "`epoch`: halfway through training and at the end.",
        metavar="size|op|epoch",
    )
    verdicts: bool = option(
        "Show the verdict on each published number; without --against, those of `neurips`.", default=False
    )
    view: str | None = option("Name of a view (`ape report --views` lists them). Default: scores.")
    views: bool = option(
        "List the views and exit.", default=False, callback=listing("ape_cli.reports.views"), is_eager=True
    )
    best_by: str | None = option(
        "`validation`: one row per scheme, with the setting of the best mean validation score in each column.",
        metavar="validation",
    )
    interval: bool = option("Show 95% confidence intervals over seeds instead of standard deviations.", default=False)
    split: str = option("Split: train, validation or test.", default="test")
    decode: str = option("Decoding: teacher or greedy.", default="teacher")


@dataclass(frozen=True)
class FormatOptions:
    """In which form the tables and plots are made, and where."""

    PANEL: ClassVar = FORMAT
    style: str | None = option("Format: rich, markdown, latex, csv, json or html.", "--format")
    to: AnyPath | None = path("File to write. Its extension determines the format.", "--out", metavar="FILE")
    plots: AnyPath | None = path("Folder for plots: of the view, or of all views without --view.")
    plot_format: list[str] | None = option("Plot format: svg (default), png or pdf; may be repeated.")
    axis: str | None = option(
        "Plot axis: `score` (default), or `error` (100% - score) on a log scale.", metavar="score|error"
    )
    no_counts: bool = option("Leave out the numbers of test rows above scores by size.", default=False)
    bold: bool = option("Set the best scores in bold, in LaTeX.", default=False)
    notes: bool = option("Explain how to read the tables.", default=False)


@command("ape report --interval")
def report(
    scores: ScoreOptions, runs: RunFilter, form: FormatOptions, folder: ResultsFolder, as_json: Json = False
) -> None:
    """Print tables of scores over seeds. `--format html` makes a page with tables and plots.

    \f
    Raises `UsageError` if options are not valid or do not fit together.
    """
    from ape_cli.reports import published, rendering
    from ape_cli.reports.document import read
    from ape_cli.reports.plots import axis_kind, draw_figures, encode, missing, require
    from ape_cli.reports.views import Options, check, choose
    from ape_cli.runs import filters
    from ape_cli.runs.registry import open_registry
    from ape_cli.storage import files

    sweep = runs.sweep
    if scores.verdicts and scores.view not in (None, "verdicts"):
        raise UsageError("one view at a time", got=f"--verdicts and --view {scores.view}", fix="leave one out")
    chosen = choose("verdicts" if scores.verdicts else scores.view, scores.by, scores.compare)
    shown = published.load(scores.against).metrics if scores.against and "metric" not in chosen.unused else []
    shown = [Options.metric] if chosen.by == "epoch" and Options.metric in shown else shown  # those of images
    metric = scores.metric or (shown[0] if shown else Options.metric)
    of_scores = ("decode", "split", "compare", "best_by", "interval")
    options = Options(
        **{name: getattr(scores, name) for name in of_scores},
        metric=metric,
        against=scores.against,
        own=sweep is not None,  # scores on other datasets are shown by --by size
        sweep=sweep.name if sweep else "",
        style=_style(form, as_json),
        plots=None if form.plots is None else str(form.plots),
        axis=form.axis,
        counts=not form.no_counts,
        bold=form.bold,
        notes=form.notes,
        conditions=tuple(runs.conditions or ()),
    )
    refuse_idle(
        (form.bold and options.style != "latex", "--bold", f"with --format {options.style}"),
        (form.no_counts and form.plots is None, "--no-counts", "without --plots"),
        (bool(form.plot_format) and form.plots is None, "--plot-format", "without --plots"),
        (form.notes and options.style in ("csv", "json", "html"), "--notes", f"with --format {options.style}"),
        (as_json and form.style not in (None, "json"), "--json", f"with --format {form.style}"),
    )
    check(chosen, options)
    plot_formats = _plot_formats(form)
    drawn = bool(plot_formats) or options.style == "html"
    scaled = axis_kind(form.axis, metric, drawn=drawn)
    drawn = drawn and not (missing() and form.axis is None and not plot_formats)  # a page goes without plots
    if drawn:
        require()
    filtered = filters.make(runs.scheme, runs.task, runs.preset)
    registry, progress = sweep_runs(sweep, filtered, open_registry(folder.results), scores.best_by is not None)
    with slow_step(f"reading the runs in {folder.results}"):
        registry = registry.meeting(options.conditions)
        document = read(registry, chosen, options, progress)
    plots = document.plots() if drawn else {}
    note_changed(registry.user_code.values())
    if form.plots is not None:
        with slow_step("drawing the plots"):
            figures = draw_figures(plots, scaled)
        for plot_format, (name, figure) in itertools.product(plot_formats, figures.items()):
            path_of_plot = form.plots / f"{name}.{plot_format}"
            files.write_bytes(path_of_plot, encode(figure, plot_format))
            print_note(f"written: {path_of_plot}")
    if progress and options.style in ("csv", "json"):
        print_note(progress)
    if options.style == "rich" and form.to is None:
        draw(rendering.rich(document.tables, notes=form.notes))
    elif form.to is None:
        sys.stdout.write(document.text(scaled))
    else:
        files.write_text(form.to, document.text(scaled))
        print_note(f"written: {form.to}")


def _style(form: FormatOptions, as_json: bool) -> str:
    """The format, by its name or by the extension of a file. Raises `UsageError` if it is unknown or not clear."""
    from ape_cli.reports import rendering

    style, to = form.style, form.to
    if as_json:
        return "json"
    if style is None and to is not None and to.suffix not in _ENDINGS:
        what = "the file's extension matches no format"
        raise UsageError(what, got=str(to), allowed=", ".join(_ENDINGS), fix="name one with --format")
    return pick("format", style or (_ENDINGS[to.suffix] if to else "rich"), rendering.FORMATS)


def _plot_formats(form: FormatOptions) -> list[str]:
    """The formats of the plots; an empty list without --plots. Raises `UsageError` for an unknown one."""
    from ape_cli.reports import plots

    names = [pick("plot format", name, plots.FORMATS) for name in form.plot_format or []]
    return list(dict.fromkeys(names)) or ([] if form.plots is None else ["svg"])
