"""`ape doctor`: what a question about this program should come with, and what needs attention."""

from __future__ import annotations

import os
import platform
import re
import shutil
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ape_cli
from ape_cli.cli._app import DATASETS, RESULTS, Datasets, Json, Results, command, folder_options
from ape_cli.cli.console import answer, note, note_lines, say, say_commands, user_error
from ape_cli.core import runtime
from ape_cli.core.errors import ApeError
from ape_cli.core.extras import how_to_install

if TYPE_CHECKING:  # imported by the command when it runs, because Polars and torch are slow to import
    from ape_cli.runs.registry import Registry
    from ape_cli.storage.paths import StoragePath

_PACKAGE = "ape-cli"
_EXTRA = re.compile(r"(?P<package>[\w.-]+)[^;]*;.*extra == ['\"](?P<extra>[\w-]+)['\"]")
_GIB = 2**30


@command("ape doctor")
def doctor(
    speed: Annotated[bool, typer.Option("--speed", help="Measure how fast matrices are multiplied.")] = False,
    results: Results = RESULTS,
    datasets: Datasets = DATASETS,
    as_json: Json = False,
) -> None:
    """Show versions, the machine, folders and leftovers. Nothing is changed."""
    runtime.share_cores()
    from ape_cli.runs.registry import open_registry

    registry = open_registry(results)
    unreadable: list[dict[str, str]] = []
    try:
        runs, leftovers = _runs(registry), _leftovers(registry, results, datasets)
    except (ApeError, OSError) as error:  # a folder is a file or cannot be read; the rest is shown all the same
        runs, leftovers = {}, []
        unreadable = [
            {
                "where": f"{results}, {datasets}",
                "what": user_error(error).summary,
                "fix": "name folders that can be read",
            }
        ]
    found = {
        "versions": _versions(),
        "extras": _extras(),
        "machine": _machine(),
        "folders": {"results": _folder(results) | runs, "datasets": _folder(datasets)},
        "leftovers": [*leftovers, *unreadable],
    }
    if speed:
        found["speed"] = _speed()
    if as_json:
        answer(found)
    else:
        _print(found)


def _print(found: dict[str, Any]) -> None:
    """Print what was found."""
    for title in ("versions", "machine"):
        _say(title, found[title])
    for name, about in found["folders"].items():
        _say(name, about)
    there = [name for name, about in found["extras"].items() if not about["missing"]]
    say(f"extras: {', '.join(there) or 'none'}")
    for name, about in found["extras"].items():
        if about["missing"]:
            note(f"the extra {name} is not installed:")
            note_lines(f"  {about['fix']}")
    machine = found["machine"]
    if machine["load"] > machine["cores"]:
        note("other programs use the cores: training and measurements are slower")
    for one in found.get("speed", []):
        say(f"{one['product']}, {one['precision']}: {one['gflops']:.0f} GFLOP/s ({one['library']})")
    say(f"left over: {len(found['leftovers']) or 'nothing'}")
    for left in found["leftovers"]:
        say(f"  {left['where']}: {left['what']}", indent=4)
        say_commands([f"  {left['fix']}"])


def _say(title: str, facts: dict[str, Any]) -> None:
    """Print facts as a paragraph."""
    say(f"{title}: " + ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None))


def _versions() -> dict[str, str | None]:
    """The versions of this program and of what it needs."""
    from ape_cli.runs.commit import commit

    needed = ("torch", "numpy", "pyarrow", "polars", "pydantic", "typer", "rich", "safetensors", "obstore")
    versions = {name: _version(name) for name in needed}
    return {"ape": ape_cli.__version__, "commit": commit(), "Python": platform.python_version(), **versions}


def _version(package: str) -> str | None:
    """The version of a package, or None if it is not installed."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def _extras() -> dict[str, dict[str, Any]]:
    """The packages of each extra, those that are missing, and the command that installs them.

    Empty if this program is used without being installed, because the extras are listed in its metadata.
    """
    packages: dict[str, list[str]] = {}
    with suppress(metadata.PackageNotFoundError):
        for line in metadata.requires(_PACKAGE) or []:
            found = _EXTRA.match(line)
            if found and found["extra"] != "dev" and found["package"] != _PACKAGE:
                packages.setdefault(found["extra"], []).append(found["package"])
    return {
        extra: {
            "packages": {name: _version(name) for name in names},
            "missing": [name for name in names if _version(name) is None],
            "fix": how_to_install(extra),
        }
        for extra, names in sorted(packages.items())
    }


def _machine() -> dict[str, Any]:
    """The processor, the cores that this process may use, their load, the memory and the GPUs."""
    from ape_cli.models.device import choose_device, describe, gpu_count

    own = describe(choose_device("auto"))
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": f"{own['processor']['name']} ({own['processor']['instruction_set']})",
        "products": own["processor"]["products"],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": own["threads"],
        "load": round(os.getloadavg()[0], 2),
        "memory": _memory(),
        "device": own["device"],
        "GPUs": gpu_count(),
        "GPU": own.get("gpu"),
    }


def _speed() -> list[dict[str, Any]]:
    """How fast this machine multiplies matrices, on all threads."""
    import dataclasses

    from ape_cli.models import speed
    from ape_cli.models.device import choose_device

    return [dataclasses.asdict(one) for one in speed.measure(choose_device("auto"))]


def _memory() -> str:
    """The memory of the machine, and how much of it is free if the system tells."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    with suppress(OSError):  # only Linux has this file
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        free = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
        if free is not None:
            return f"{total:.1f} GiB ({free * 1024 / _GIB:.1f} GiB free)"
    return f"{total:.1f} GiB"


def _folder(folder: StoragePath) -> dict[str, Any]:
    """Where a folder is, whether it can be written to, and how much space is free there."""
    if not isinstance(folder, Path):
        return {"at": str(folder)}
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return {
        "at": str(folder.absolute()),
        "exists": "yes" if folder.exists() else "no",
        "writable": "yes" if os.access(there, os.W_OK | os.X_OK) else "no",
        "free": f"{shutil.disk_usage(there).free / _GIB:.1f} GiB",
    }


def _runs(registry: Registry) -> dict[str, int]:
    """The number of runs in each status."""
    table, bad = registry.table()
    counts = dict(sorted(table["status"].value_counts().iter_rows()))
    return {f"runs {status}": count for status, count in counts.items()} | (
        {"runs unreadable": len(bad)} if bad else {}
    )


def _leftovers(registry: Registry, results: StoragePath, datasets: StoragePath) -> list[dict[str, str]]:
    """What interrupted commands have left. Raises `ApeError` or `OSError` if a folder cannot be read."""
    import dataclasses

    from ape_cli.runs import leftovers

    of_runs = leftovers.of_runs(registry, folder_options(results), folder_options(datasets=datasets))
    found = [*of_runs, *leftovers.of_datasets(datasets)]
    return [dataclasses.asdict(left) for left in found]
