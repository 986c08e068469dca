"""`ape push`: upload a run or a dataset to the Hugging Face Hub."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from ape_cli.cli._app import DATASETS, RESULTS, Datasets, Json, Results, command, dataset_folder, dataset_names
from ape_cli.cli.console import answer, note, say
from ape_cli.core import runtime
from ape_cli.core.errors import UsageError, unknown
from ape_cli.storage.paths import StoragePath, storage_path


@command("ape push tree-copy --to USER/tree-copy --private")
def push(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|DATASET", help="A run or the beginning of its name, an exported folder, or a dataset."
        ),
    ],
    to: Annotated[str, typer.Option("--to", metavar="USER/NAME", help="Repository on the Hub; created if necessary.")],
    private: Annotated[bool, typer.Option("--private", help="Create a private repository.")] = False,
    datasets: Datasets = DATASETS,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Upload a run or a dataset to the Hugging Face Hub. A run is uploaded as `ape export` writes it.

    The token comes from HF_TOKEN or from `hf auth login`.

    \f
    Raises `UsageError` if there is no such run or dataset, or no token, and `PlaceError` if the Hub refuses.
    """
    runtime.share_cores()
    from ape_cli.data.manifest import manifest_path
    from ape_cli.evaluation.sharing import exported, hub
    from ape_cli.runs.registry import open_registry

    hub.check_target(to)
    given = storage_path(what)
    folder = dataset_folder(given, datasets)
    if manifest_path(folder).exists():
        note(f"uploading the dataset {folder}")
        kind, address = "dataset", hub.push_dataset(_local(folder), to, private=private)
    elif exported.is_export(given):
        kind, address = "model", hub.push_model(_local(given), to, private=private)
    else:
        registry = open_registry(results)
        runs = [run.name for run in registry]
        if not any(name.startswith(given.name) for name in runs):
            raise unknown("run or dataset", what, [*runs, *dataset_names(datasets)])
        run = registry.find(what)
        with tempfile.TemporaryDirectory(prefix="ape-push-") as temporary:
            exported.export(run, Path(temporary))
            kind, address = "model", hub.push_model(Path(temporary), to, private=private)
    if as_json:
        answer({"kind": kind, "repository": to, "commit": address})
        return
    say(f"{kind} uploaded: {address}")


def _local(folder: StoragePath) -> Path:
    """The folder, which has to be on this machine. Raises `UsageError` if it is in an object store."""
    if not isinstance(folder, Path):
        raise UsageError("only a folder of this machine can be uploaded", got=str(folder), fix="download it first")
    return folder
