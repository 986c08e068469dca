"""`ape verify`: check every file of runs and datasets."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Annotated, Any

import typer

from ape_cli.cli._app import command, dataset_folder, existing_dataset
from ape_cli.cli.console import answer, note, say, tell, user_error
from ape_cli.cli.options import Folders, Json, Place, place
from ape_cli.core.errors import ApeError, BusyError, RunError, UsageError
from ape_cli.storage.paths import StoragePath, storage_path


@command("ape verify")
def verify(
    runs: Annotated[list[str] | None, typer.Argument(help="Names of runs. Default: all.")] = None,
    data: Annotated[
        list[Place] | None,
        typer.Option(
            parser=place, metavar="DIR", help="Check this dataset instead: each shard and each row. May be repeated."
        ),
    ] = None,
    add: Annotated[bool, typer.Option("--add", help="Add digests to the files of runs that have none.")] = False,
    *,
    folders: Folders,
    as_json: Json = False,
) -> None:
    """Check every file of runs, or every row of datasets. Exits with 1 if they are not those that were written.

    \f
    Raises `UsageError` if options do not fit together, and `RunError` if there is no folder of results.
    """
    if data and (runs or add):
        got = "--data and " + ("--add" if add else " ".join(runs or []))
        raise UsageError("one kind of thing at a time", got=got, allowed="runs or datasets", fix="leave one out")
    results, datasets = folders.results, folders.datasets
    if data:
        _verify_datasets(data, datasets, as_json)
    else:
        for name in runs or []:
            _check_no_dataset(storage_path(name), results, datasets)
        _verify_runs(runs or [], add, results, as_json)


def _check_no_dataset(name: StoragePath, results: StoragePath, datasets: StoragePath) -> None:
    """Check that the name of a run is not that of a dataset, if there is no such run. Raises `UsageError` if it is."""
    if (dataset_folder(name, datasets) / "manifest.json").exists() and not (results / "runs" / name.name).exists():
        raise UsageError(
            "this is a dataset, and not a run", got=str(name), fix=f"ape verify --data {shlex.quote(str(name))}"
        )


def _verify_runs(names: list[str], add: bool, results: StoragePath, as_json: bool) -> None:
    """Check runs and print the result.

    Raises `RunError` if there is no folder of results, and `Exit` with 1 if a run is damaged.
    """
    from ape_cli.runs.audit import Audit, add_digests, audit, version_notes
    from ape_cli.runs.registry import open_registry

    registry = open_registry(results)
    if not results.exists():
        raise RunError("there is no such folder of results", got=str(results), fix="name one with --results")
    found: list[Audit] = []
    for run in map(registry.find, names) if names else registry:
        if not names and run.never_started():
            continue
        try:
            found.append(add_digests(run) if add else audit(run))
        except BusyError as error:
            found.append(Audit(run.name, "unverified", (f"no digests were added: {error.what}",)))
    if as_json:
        answer([dataclasses.asdict(each) for each in found])
    else:
        for each in found:
            for problem in each.problems:
                say(f"{each.run}: {problem}")
        counts = {state: sum(each.state == state for each in found) for state in ("verified", "unverified", "damaged")}
        say(f"{len(found):,} runs: " + ", ".join(f"{count:,} {state}" for state, count in counts.items()))
        for line in version_notes(found):
            note(line)
        if counts["unverified"] and not add:
            note("unverified: nothing is known to be wrong; `ape verify --add` adds digests to the files without one")
    if any(each.state == "damaged" for each in found):
        raise typer.Exit(1)


def _verify_datasets(folders: list[StoragePath], datasets: StoragePath, as_json: bool) -> None:
    """Read every row of datasets and print the result. Raises `Exit` with 1 if one of them cannot be verified."""

    lines = []
    for given in folders:
        line: dict[str, Any] = {"dataset": str(given), "fingerprint": None, "rows": None}
        try:
            line |= _verify_dataset(existing_dataset(given, datasets)) | {"problems": []}
        except (ApeError, OSError) as error:  # the others are checked too
            line |= {"state": "failed", "problems": [user_error(error).summary]}
            tell(error)
        lines.append(line)
        if not as_json:
            rows = "" if line["rows"] is None else f"{line['rows']:,} rows, "
            say(f"{line['dataset']}: {rows}{line['state']}")
    if as_json:
        answer(lines)
    if any(line["problems"] for line in lines):
        raise typer.Exit(1)


def _verify_dataset(folder: StoragePath) -> dict[str, Any]:
    """Read every row of a dataset, and return what is printed about it. Raises `DataError` if it is damaged."""
    from ape_cli.core.vocabulary import SPLITS
    from ape_cli.data.loader import open_dataset

    data = open_dataset(folder)
    rows = sum(part.num_rows for name in SPLITS for part in data.split(name).groups())
    return {"dataset": str(folder), "fingerprint": data.manifest.fingerprint, "rows": rows, "state": "verified"}
