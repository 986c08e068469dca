"""`ape report`: the tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ape_cli.cli._app import RESULTS, Results, app, command, note_unreadable
from ape_cli.display import draw, note
from ape_cli.errors import UsageError


@app.command()
@command
def report(
    style: Annotated[str | None, typer.Option("--format", help="rich, markdown, latex, csv, json, html.")] = None,
    metric: Annotated[str, typer.Option(help="token_accuracy, exact_match or cross_entropy.")] = "token_accuracy",
    against: Annotated[str | None, typer.Option(help="`paper`: its numbers beside ours.")] = None,
    compare: Annotated[
        tuple[str, str] | None, typer.Option(metavar="A B", help="Two rows of the tables, in pairs by seed.")
    ] = None,
    interval: Annotated[bool, typer.Option("--interval", help="± half of the 95% interval for ± deviation.")] = False,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    decode: Annotated[str, typer.Option(help="teacher or greedy.")] = "teacher",
    preset: Annotated[str | None, typer.Option(help="Only runs of this preset.")] = None,
    to: Annotated[Path | None, typer.Option("--out", help="Write to a file; its ending tells the format.")] = None,
    results: Results = RESULTS,
) -> None:
    """Aggregate the registry over seeds into the paper's tables."""
    from ape_cli import compare as comparing
    from ape_cli import files, render
    from ape_cli import registry as registering
    from ape_cli import report as reporting
    from ape_cli.errors import pick

    endings = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".json": "json", ".html": "html"}
    if style is None and to is not None and to.suffix not in endings:
        known = ", ".join(endings)
        raise UsageError("the file's ending tells no format", got=str(to), allowed=known, fix="name one with --format")
    chosen = pick("format", style or (endings[to.suffix] if to else "rich"), render.FORMATS)
    _refuse_both(chosen, compare, interval, against)
    registry = registering.open(results)
    if compare:
        values, bad = reporting.wanted(registry, metric=metric, decode=decode, split=split, preset=preset)
        found, alone = comparing.lines(values, *compare)
        bad += alone
    else:
        found, bad = reporting.lines(
            registry, metric=metric, decode=decode, split=split, preset=preset, against=against
        )
    note_unreadable(bad)
    if chosen == "csv":
        text = found.write_csv()
    elif chosen == "json":
        text = json.dumps(found.to_dicts(), indent=2, ensure_ascii=False) + "\n"
    else:
        made = comparing.tables(found) if compare else reporting.tables(found, interval=interval)
        if chosen == "rich" and to is None:
            draw(render.rich(made))
            return
        text = render.text(chosen, made)
    if to is None:
        sys.stdout.write(text)
    else:
        files.write_text(to, text)
        note(f"written: {to}")


def _refuse_both(style: str, compare: tuple[str, str] | None, interval: bool, against: str | None) -> None:
    """What would have no effect beside another option."""
    if interval and (compare or style in ("csv", "json")):
        there = "a comparison" if compare else style
        raise UsageError(f"{there} always has the interval", got="--interval", fix="leave it out")
    if compare and against:
        raise UsageError("one comparison at a time", got=f"--compare and --against {against}", fix="leave one out")
