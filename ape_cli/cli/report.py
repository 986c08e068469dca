"""`ape report`: the tables."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from ape_cli.cli._app import RESULTS, Results, Somewhere, app, command, note_unreadable, somewhere
from ape_cli.display import draw, note
from ape_cli.errors import UsageError


@app.command()
@command
def report(
    style: Annotated[str | None, typer.Option("--format", help="rich, markdown, latex, csv, json, html.")] = None,
    metric: Annotated[str, typer.Option(help="token_accuracy, exact_match or cross_entropy.")] = "token_accuracy",
    against: Annotated[str | None, typer.Option(help="`paper`: its numbers beside ours.")] = None,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    decode: Annotated[str, typer.Option(help="teacher or greedy.")] = "teacher",
    preset: Annotated[str | None, typer.Option(help="Only runs of this preset.")] = None,
    to: Annotated[
        Somewhere | None, somewhere("Write to a file; its ending tells the format.", "--out", metavar="FILE")
    ] = None,
    results: Results = RESULTS,
) -> None:
    """Aggregate the registry over seeds into the paper's tables."""
    from ape_cli import files, render
    from ape_cli import registry as registering
    from ape_cli import report as reporting
    from ape_cli.errors import pick

    endings = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".json": "json", ".html": "html"}
    if style is None and to is not None and to.suffix not in endings:
        known = ", ".join(endings)
        raise UsageError("the file's ending tells no format", got=str(to), allowed=known, fix="name one with --format")
    chosen = pick("format", style or (endings[to.suffix] if to else "rich"), render.FORMATS)
    found, bad = reporting.lines(
        registering.open(results), metric=metric, decode=decode, split=split, preset=preset, against=against
    )
    note_unreadable(bad)
    if chosen == "rich" and to is None:
        draw(render.rich(reporting.tables(found)))
        return
    if chosen == "csv":
        text = found.write_csv()
    elif chosen == "json":
        text = json.dumps(found.to_dicts(), indent=2, ensure_ascii=False) + "\n"
    else:
        text = render.text(chosen, reporting.tables(found))
    if to is None:
        sys.stdout.write(text)
    else:
        files.write_text(to, text)
        note(f"written: {to}")
