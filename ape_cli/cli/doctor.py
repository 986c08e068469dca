"""`ape doctor` and `ape verify`: the machine and its versions, what needs attention, and which files have changed."""

from __future__ import annotations

import dataclasses
import itertools
import os
import platform
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ape_cli.cli._app import command, existing_dataset
from ape_cli.cli.console import print_json, print_note, print_result, user_error
from ape_cli.cli.options import AnyPath, Folders, Json, any_path
from ape_cli.core import extras, runtime
from ape_cli.core.errors import ApeError, RunError, UsageError, left_out
from ape_cli.core.numbers import counted
from ape_cli.core.runtime import version
from ape_cli.storage.paths import StoragePath

_NEEDED = ("torch", "numpy", "pyarrow", "polars", "pydantic", "typer", "rich", "safetensors")
_GIB = 2**30


@command("ape doctor")
def doctor(
    speed: Annotated[bool, typer.Option("--speed", help="Measure the speed of matrix products.")] = False,
    *,
    folders: Folders,
    as_json: Json = False,
) -> None:
    """Show versions, missing optional packages, machine and folders. Changes nothing."""
    runtime.share_cores()
    from importlib import metadata  # slow to import

    from ape_cli.models.device import choose_device
    from ape_cli.models.speed import measure
    from ape_cli.runs.record import commit

    needed: dict[str, str | None] = dict.fromkeys(_NEEDED)
    for name in _NEEDED:
        with suppress(metadata.PackageNotFoundError):
            needed[name] = metadata.version(name)
    report: dict[str, Any] = {
        "versions": {"ape": version(), "commit": commit(), "Python": platform.python_version(), **needed},
        "absent": extras.absent(),
        "machine": _machine(),
        "folders": {
            "results": _folder(folders.results) | _counts(folders.results),
            "datasets": _folder(folders.datasets),
        },
    }
    if speed:
        report["speed"] = [dataclasses.asdict(product) for product in measure(choose_device("auto"))]
    print_json(report) if as_json else _print(report)


def _print(report: dict[str, Any]) -> None:
    """Print the report."""
    for title, facts in ({name: report[name] for name in ("versions", "machine")} | report["folders"]).items():
        print_result(f"{title}: " + ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None))
    if report["absent"]:
        what = ", ".join(f"{name} ({extras.EXTRAS[name][1]})" for name in report["absent"])
        to_install = extras.how_to_install(",".join(report["absent"]))
        print_result(f"optional, not installed: {what}; to install: {to_install}")
    if report["machine"]["load"] > report["machine"]["cores"]:
        print_note("other programs are using the cores, so training and measurements are slower")
    for speed in report.get("speed", []):
        print_result(f"{speed['product']}, {speed['precision']}: {speed['gflops']:.0f} GFLOP/s ({speed['library']})")


def _machine() -> dict[str, Any]:
    """The processor, the cores that this process may use, their load, the memory and the GPUs."""
    from ape_cli.models.device import choose_device, describe, gpu_count

    facts = describe(choose_device("auto"))
    processor = facts["processor"]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": f"{processor['name']} ({processor['instruction_set']})",
        "products": processor["products"],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": facts["threads"],
        "load": round(os.getloadavg()[0], 2),
        "memory": f"{memory:.1f} GiB",
        "device": facts["device"],
        "GPUs": gpu_count(),
        "GPU": facts.get("gpu"),
    }


def _folder(folder: StoragePath) -> dict[str, Any]:
    """Where a folder is, and how much space is free there."""
    if not isinstance(folder, Path):
        return {"at": str(folder)}
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = f"{shutil.disk_usage(nearest).free / _GIB:.1f} GiB"
    return {"at": str(folder.absolute()), "exists": "yes" if folder.exists() else "no", "free": free}


def _counts(results: StoragePath) -> dict[str, int]:
    """The number of runs in each status."""
    from ape_cli.runs.registry import open_registry

    with left_out() as unreadable:
        table = open_registry(results).runs()
    counts = {f"runs {status}": count for status, count in sorted(table["status"].value_counts().iter_rows())}
    return counts | ({"runs unreadable": len(unreadable)} if unreadable else {})


@command("ape verify")
def verify(
    runs: Annotated[list[str] | None, typer.Argument(help="Names of runs. Default: all.")] = None,
    data: Annotated[
        list[AnyPath] | None,
        typer.Option(
            parser=any_path, metavar="DIR", help="Check this dataset instead, shard by shard; may be repeated."
        ),
    ] = None,
    *,
    folders: Folders,
    as_json: Json = False,
) -> None:
    """Check the SHA-256 of every file of runs or datasets. Exits with status 1 if one has changed.

    \f
    Raises `UsageError` if options do not fit together, and `RunError` if there is no folder of results.
    """
    if data and runs:
        what = "runs and datasets cannot be verified together"
        raise UsageError(what, got=f"--data and {' '.join(runs)}", fix="leave one out")
    noun = "dataset" if data else "run"
    lines = [_dataset(folder, folders.datasets) for folder in data] if data else _runs(runs or [], folders.results)
    damaged = sum(bool(line["problems"]) for line in lines)
    if as_json:
        print_json(lines)
    else:
        for line in lines:
            for problem in line["problems"]:
                print_result(f"{line[noun]}: {problem}")
        print_result(f"{counted(len(lines), noun)}, {damaged:,} damaged")
    if damaged:
        raise typer.Exit(1)


def _runs(names: list[str], results: StoragePath) -> list[dict[str, Any]]:
    """The problems of runs. Raises `RunError` if there is no folder of results."""
    from ape_cli.runs.registry import open_registry

    registry = open_registry(results)
    if not results.exists():
        raise RunError("no such results folder", got=str(results), fix="name one with --results")
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
    from ape_cli.data.manifest import open_shard, read_manifest

    line: dict[str, Any] = {"dataset": str(where), "fingerprint": None, "rows": None, "problems": []}
    try:
        folder = existing_dataset(where, datasets)
        manifest = read_manifest(folder)
    except (ApeError, OSError) as error:  # the others are checked too
        return line | {"problems": [user_error(error).summary]}
    for shard in itertools.chain.from_iterable(manifest.shards.values()):
        try:
            open_shard(folder, manifest.plan, shard)
        except (ApeError, OSError) as error:
            line["problems"].append(user_error(error).summary)
    return line | {"fingerprint": manifest.fingerprint, "rows": sum(manifest.plan.rows.values())}
