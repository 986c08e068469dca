"""`ape export` and `ape push`: write the model of a run to a folder of its own, and upload runs and datasets."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from ape_cli.cli._app import command, dataset_folder
from ape_cli.cli.console import print_hint, print_json, print_note, print_result
from ape_cli.cli.options import EXISTING, OUTPUT, AnyPath, Folders, Json, ResultsFolder, option, path
from ape_cli.core import runtime
from ape_cli.core.errors import UsageError
from ape_cli.storage.paths import storage_path


@dataclass(frozen=True)
class ExportOptions:
    """Where a model is written."""

    PANEL: ClassVar = OUTPUT
    out: AnyPath = path("Folder to write to: a local folder, s3://… or gs://…", default=...)
    overwrite: bool = option("Replace an earlier export in the folder.", default=False, panel=EXISTING)


@command("ape export tree-copy --out tree-copy-model")
def export(
    run: Annotated[str, typer.Argument(help="Name of a finished run, or a prefix of it.")],
    target: ExportOptions,
    folder: ResultsFolder,
    as_json: Json = False,
) -> None:
    """Export the model of a run to a folder. `ape_cli.load(DIR)` loads it in Python.

    The folder contains the weights, the configuration, the vocabulary and a model card.

    \f
    Raises `UsageError` if the run is not finished or the folder has other content, and `RunError` if it is damaged.
    """
    runtime.share_cores()
    from ape_cli.evaluation.sharing import exported
    from ape_cli.runs.registry import open_registry

    out = target.out
    trained = open_registry(folder.results).find(run)
    metadata = exported.export(trained, out, overwrite=target.overwrite)
    if as_json:
        print_json(
            {"run": trained.name, "folder": str(out), "files": list(exported.FILES), "scores": metadata["scores"]}
        )
        return
    print_result(f"{trained.name}: exported to {out}")
    print_hint(f'`import ape_cli; model = ape_cli.load("{out}")` loads it in Python')


@command("ape push tree-copy --to USER/tree-copy --private")
def push(
    what: Annotated[
        str, typer.Argument(metavar="RUN|DATASET", help="Name or prefix of a run, an exported folder, or a dataset.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="USER/NAME", help="Repository on the Hub; created if necessary.")],
    private: Annotated[bool, typer.Option("--private", help="Create a private repository.")] = False,
    *,
    folders: Folders,
    as_json: Json = False,
) -> None:
    """Upload a run or a dataset to the Hugging Face Hub.

    A run is uploaded as `ape export` writes it. The access token is read from HF_TOKEN or from `hf auth login`.

    \f
    Raises `UsageError` if there is no such run or dataset, or no token, and `PlaceError` if the Hub refuses.
    """
    runtime.share_cores()
    from ape_cli.data.manifest import manifest_path
    from ape_cli.evaluation.sharing import exported, hub
    from ape_cli.runs.registry import open_registry

    hub.check_target(to)
    named = storage_path(what)
    folder = dataset_folder(named, folders.datasets)
    is_dataset = manifest_path(folder).exists()
    local = folder if is_dataset else named
    if is_dataset or (named / exported.CONFIG).is_file():
        if not isinstance(local, Path):
            raise UsageError("only a local folder can be uploaded", got=str(local), fix="download it first")
        if is_dataset:
            print_note(f"uploading the dataset {local}")
        upload = hub.push_dataset if is_dataset else hub.push_model
        repository_type, address = "dataset" if is_dataset else "model", upload(local, to, private=private)
    else:
        run = open_registry(folders.results).find(what)
        with tempfile.TemporaryDirectory(prefix="ape-push-") as temporary:
            exported.export(run, Path(temporary))
            repository_type, address = "model", hub.push_model(Path(temporary), to, private=private)
    if as_json:
        print_json({"kind": repository_type, "repository": to, "commit": address})
        return
    print_result(f"{repository_type} uploaded: {address}")
