"""`ape export`: write the model of a run to a folder of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from ape_cli.cli._app import RESULTS, Json, Results, Somewhere, command, somewhere
from ape_cli.cli._help import EXISTING, OUTPUT
from ape_cli.cli.console import answer, hint, say
from ape_cli.core import runtime


@command("ape export tree-copy --out tree-copy-model")
def export(
    run: Annotated[str, typer.Argument(help="Name of a finished run, or the beginning of its name.")],
    out: Annotated[Somewhere, somewhere("Folder to write: a local folder, s3://… or gs://…", "--out", group=OUTPUT)],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier export in the folder.", rich_help_panel=EXISTING)
    ] = False,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Export the model of a run to a folder. `ape_cli.load(DIR)` loads it in Python.

    The folder has the weights, the configuration, the vocabulary and a model card.

    \f
    Raises `UsageError` if the run is not finished or the folder has other content, and `RunError` if it is damaged.
    """
    runtime.share_cores()
    from ape_cli.evaluation.sharing import exported
    from ape_cli.runs.registry import open_registry

    found = open_registry(results).find(run)
    made = exported.export(found, out, overwrite=overwrite)
    if as_json:
        answer({"run": found.name, "folder": str(out), "files": list(exported.FILES), "scores": made["scores"]})
        return
    say(f"{found.name}: exported to {out}")
    hint(f'`import ape_cli; model = ape_cli.load("{out}")` loads it in Python')
