"""`ape verify`: compare every file of runs and datasets with its SHA-256."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

from ape_cli.cli._app import command, dataset_folder, existing_dataset
from ape_cli.cli.console import answer, say, user_error
from ape_cli.cli.options import Folders, Json, Place, place
from ape_cli.core.errors import ApeError, RunError, UsageError
from ape_cli.storage.paths import StoragePath, storage_path


@command("ape verify")
def verify(
    runs: Annotated[list[str] | None, typer.Argument(help="Names of runs. Default: all.")] = None,
    data: Annotated[
        list[Place] | None,
        typer.Option(parser=place, metavar="DIR", help="Check this dataset instead, shard by shard. May be repeated."),
    ] = None,
    *,
    folders: Folders,
    as_json: Json = False,
) -> None:
    """Check the SHA-256 of every file of runs, or of datasets. Exits with 1 if one has changed.

    \f
    Raises `UsageError` if options do not fit together, and `RunError` if there is no folder of results.
    """
    if data and runs:
        got = f"--data and {' '.join(runs)}"
        raise UsageError("one kind of thing at a time", got=got, allowed="runs or datasets", fix="leave one out")
    results, datasets = folders.results, folders.datasets
    if data:
        kind, lines = "dataset", [_dataset(folder, datasets) for folder in data]
    else:
        for name in runs or []:
            _check_no_dataset(storage_path(name), results, datasets)
        kind, lines = "run", _runs(runs or [], results)
    damaged = sum(bool(line["problems"]) for line in lines)
    if as_json:
        answer(lines)
    else:
        for line in lines:
            for problem in line["problems"]:
                say(f"{line[kind]}: {problem}")
        say(f"{len(lines):,} {kind}{'s' * (len(lines) != 1)}, {damaged:,} damaged")
    if damaged:
        raise typer.Exit(1)


def _check_no_dataset(name: StoragePath, results: StoragePath, datasets: StoragePath) -> None:
    """Check that the name of a run is not that of a dataset, if there is no such run. Raises `UsageError` if it is."""
    if (dataset_folder(name, datasets) / "manifest.json").exists() and not (results / "runs" / name.name).exists():
        raise UsageError(
            "this is a dataset, and not a run", got=str(name), fix=f"ape verify --data {shlex.quote(str(name))}"
        )


def _runs(names: list[str], results: StoragePath) -> list[dict[str, Any]]:
    """The problems of runs. Raises `RunError` if there is no folder of results."""
    from ape_cli.runs.registry import open_registry

    registry = open_registry(results)
    if not results.exists():
        raise RunError("there is no such folder of results", got=str(results), fix="name one with --results")
    lines = []
    for run in map(registry.find, names) if names else registry:
        try:
            problems = run.problems()
        except RunError as error:
            if not names and run.never_started():
                continue
            problems = [error.summary]
        lines.append({"run": run.name, "problems": problems})
    return lines


def _dataset(where: StoragePath, datasets: StoragePath) -> dict[str, Any]:
    """The problems of a dataset: a line about each shard that is missing or was altered."""
    from ape_cli.data.manifest import read_manifest
    from ape_cli.storage import files

    line: dict[str, Any] = {"dataset": str(where), "fingerprint": None, "rows": None, "problems": []}
    try:
        folder = existing_dataset(where, datasets)
        manifest = read_manifest(folder)
    except (ApeError, OSError) as error:  # the others are checked too
        return line | {"problems": [user_error(error).summary]}
    for shard in (shard for shards in manifest.shards.values() for shard in shards):
        try:
            if files.sha256(folder / shard.file) != shard.sha256:
                line["problems"].append(f"{folder / shard.file} was altered")
        except OSError as error:
            line["problems"].append(f"cannot read {folder / shard.file} ({error.strerror})")
    return line | {"fingerprint": manifest.fingerprint, "rows": sum(manifest.plan.rows.values())}
