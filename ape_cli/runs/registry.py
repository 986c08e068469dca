"""All runs under a folder; the index is a scan, and many machines may write to one folder.

RUN is task-order-scheme-seed and a short hash of the configuration and the data: the same
configuration is the same run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ape_cli
from ape_cli.core.errors import RunError, UsageError, unknown
from ape_cli.runs import filters, record
from ape_cli.runs.config import Config
from ape_cli.runs.filters import Filter
from ape_cli.runs.run import Run, now
from ape_cli.storage import files
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import StoragePath, storage_path

if TYPE_CHECKING:  # imported where it is needed, so that listing is fast and training needs no polars
    import polars as pl

    from ape_cli.data.loader import Dataset, Facts


class Registry:
    """All runs under a folder, or those of some names, or those that a filter picks. Make one with `open`."""

    def __init__(self, folder: StoragePath, names: frozenset[str] | None = None, chosen: Filter = filters.ANY) -> None:
        self.folder, self.names, self.chosen = folder, names, chosen

    def only(self, names: Iterable[str]) -> Registry:
        """The runs of these names alone."""
        return Registry(self.folder, frozenset(names), self.chosen)

    def where(self, chosen: Filter) -> Registry:
        """The same registry, of which `sound` (and all that reads runs by it) has the chosen runs alone."""
        return Registry(self.folder, self.names, chosen)

    def __iter__(self) -> Iterator[Run]:
        runs = self.folder / "runs"
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError("the results are not in a folder", got=str(self.folder), fix="name a folder with --results")
        names = (name for name, is_folder in files.entries(runs) if is_folder and not name.startswith("."))
        yield from (Run(runs / name) for name in names if self.names is None or name in self.names)

    def sound(self, bad: list[str]) -> Iterator[tuple[Run, dict[str, Any]]]:
        """The chosen runs that can be read, each with its run.json; `bad` gets a line about each that cannot.

        Raises `ApeError` at the end where there are runs and the filter picks none of them. One after the other, so
        that no more of ten thousand runs is in memory than what is made of them.
        """

        def read(run: Run) -> tuple[Run, dict[str, Any] | None]:
            try:
                return run, run.read()
            except RunError as error:
                # what an object store keeps of a run that was never begun
                if isinstance(run.folder, RemotePath) and not any(run.folder.iterdir()):
                    return run, None
                bad.append(f"{run.name}: {error.what}{f' ({error.got})' if error.got else ''}")
                return run, None

        kinds: set[filters.RunKind] = set()
        for run, about in files.each(read, self, self.folder):
            if about is None:
                continue
            config, data = about["config"], about["dataset"]
            kind = filters.kind(config["scheme"], config["preset"], data["task"], data["order"], data["parameters"])
            kinds.add(kind)
            if self.chosen.picks(kind):
                yield run, about
        self.chosen.check(kinds, str(self.folder))

    def find(self, name: str) -> Run:
        """A run by its name, its folder here, or a beginning that only it has."""
        names = [run.name for run in self]
        path = storage_path(name)
        wanted = path.name if path.resolve().parent == (self.folder / "runs").resolve() else name
        if wanted in names:
            return Run(self.folder / "runs" / wanted)
        alike = [n for n in names if n.startswith(wanted)]
        if len(alike) == 1:
            return Run(self.folder / "runs" / alike[0])
        if alike:
            raise UsageError("several runs begin like this", got=name, allowed=", ".join(alike), fix="give more of it")
        raise unknown("run", name, names)

    def place(self, config: Config, data: Facts) -> Run:
        """Where the run of this settled configuration on this data stands, whether or not it exists."""
        parts = [data.task, data.order, config.scheme, str(config.seed), config.digest(data.fingerprint)]
        return Run(self.folder / "runs" / "-".join(p for p in parts if p))

    def begin(
        self,
        run: Run,
        config: Config,
        data: Dataset,
        machine: dict[str, Any],
        variant: dict[str, Any],
        processes: int = 1,
    ) -> None:
        """Write the first run.json.

        `machine` is what `models.device.describe` returns. `variant` has the fields that differ from the preset.
        """
        here = dict(machine)
        plan = data.manifest.plan
        about = {
            "version": record.VERSION,
            "run": run.name,
            "status": "running",
            "config": config.model_dump(),
            "variant": variant,
            "dataset": {
                "name": data.name,
                "path": str(data.folder),
                "fingerprint": data.manifest.fingerprint,
                "task": plan.task,
                "order": plan.linearisation,
                "structure": plan.structure.expression,
                "parameters": plan.parameters,
                "seed": plan.seed,
                "rows": plan.rows,
                **({} if plan.image is None else {"image": plan.image}),
                "mean_size": data.manifest.mean_size,
                "mean_tokens": data.manifest.mean_tokens,
                "vocabulary": data.manifest.vocabulary,
            },
            "versions": {"ape": ape_cli.__version__, "torch": here.pop("torch")},
            "commit": _commit(),
            **here,
            "processes": processes,
            "started": now(),
        }
        files.write_json(run.folder / "run.json", about)

    def runs(self) -> pl.DataFrame:
        """One line a run."""
        return self.table()[0]

    def table(self) -> tuple[pl.DataFrame, list[str]]:
        """One line a run, and a line of text about each that cannot be read."""
        import polars as pl

        lines, bad = [], list[str]()
        for run, about in self.sound(bad):
            config, data, result = about["config"], about["dataset"], about.get("result") or {}
            lines.append(
                {
                    "run": run.name,
                    "task": data["task"],
                    "order": data["order"],
                    "scheme": config["scheme"],
                    "variant": record.variant_text(about),
                    "preset": config["preset"],
                    "seed": config["seed"],
                    "status": run.status_in(about),
                    "dataset": data["name"],
                    "parameters": result.get("parameters"),
                    "steps": result.get("steps"),
                    "seconds": result.get("seconds"),
                    "validation_token_accuracy": result.get("best_accuracy"),
                    "started": about.get("started"),
                    "finished": about.get("finished"),
                }
            )
        return pl.DataFrame(lines, schema=_COLUMNS, orient="row"), bad


_COLUMNS = {
    "run": str,
    "task": str,
    "order": str,
    "scheme": str,
    "variant": str,
    "preset": str,
    "seed": int,
    "status": str,
    "dataset": str,
    "parameters": int,
    "steps": int,
    "seconds": float,
    "validation_token_accuracy": float,
    "started": str,
    "finished": str,
}


def open_registry(folder: str | StoragePath) -> Registry:
    """The registry in a folder or at an address, where there need not be anything yet."""
    return Registry(storage_path(folder))


@lru_cache(maxsize=1)
def _commit() -> str | None:
    """What the environment says in APE_COMMIT, for a copy without its history. Else the commit of this program's own
    checkout, with a + where it has changes; None outside of one."""
    if told := os.environ.get("APE_COMMIT"):
        return told
    here = Path(ape_cli.__file__).resolve().parent

    def git(*words: str) -> str:
        command = ["git", "-C", str(here), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != here.parent:
            return None
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None
