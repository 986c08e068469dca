"""The registry of all runs under a folder.

There is no index file: the folder is scanned each time, so many machines may write to it. The name of a run consists of
task, linearisation, scheme, seed, and a short hash of the configuration and the data. Therefore the same configuration
on the same data is always the same run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ape_cli.core.errors import RunError, UsageError, unknown
from ape_cli.core.names import checked_name
from ape_cli.core.version import version
from ape_cli.runs import filters, record
from ape_cli.runs.commit import commit
from ape_cli.runs.config import Config
from ape_cli.runs.filters import Filter
from ape_cli.runs.record import OwnCode
from ape_cli.runs.run import Run, now
from ape_cli.storage import files, folders
from ape_cli.storage.paths import StoragePath, storage_path

if TYPE_CHECKING:  # imported lazily: listing stays fast, and training needs no polars
    import polars as pl

    from ape_cli.data.facts import Facts
    from ape_cli.data.loader import Dataset


class Registry:
    """All runs under a folder, optionally restricted. Make one with `open_registry`.

    `folder` contains the folder `runs`. `names` restricts the registry to runs of these names. `chosen` is a filter,
    which `sound` applies.
    """

    def __init__(self, folder: StoragePath, names: frozenset[str] | None = None, chosen: Filter = filters.ANY) -> None:
        """Nothing is read from the folder yet."""
        self.folder, self.names, self.chosen = folder, names, chosen
        self.unverified: set[str] = set()  # names of the runs with a file without a digest, as far as they were read
        self.own_code: dict[str, OwnCode] = {}  # the own code of the runs that were read and have some, by their names

    def only(self, names: Iterable[str]) -> Registry:
        """A registry of the runs with these names only."""
        return Registry(self.folder, frozenset(names), self.chosen)

    def where(self, chosen: Filter) -> Registry:
        """A registry with another filter.

        `sound`, and everything that reads runs with it, then yields only the selected runs.
        """
        return Registry(self.folder, self.names, chosen)

    def __iter__(self) -> Iterator[Run]:
        """Yield all runs with a matching name, sorted by name; the filter is not applied.

        Raises `RunError` if the folder of results is a file.
        """
        runs = self.folder / "runs"
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError("the results are not in a folder", got=str(self.folder), fix="name a folder with --results")
        try:
            found = folders.entries(runs)
        except OSError as error:
            raise RunError(
                f"cannot read {runs}", got=error.strerror, fix="name another folder with --results"
            ) from error
        names = (name for name, is_folder in found if is_folder and not name.startswith("."))
        yield from (Run(runs / name) for name in names if self.names is None or name in self.names)

    def sound(self, bad: list[str]) -> Iterator[tuple[Run, dict[str, Any]]]:
        """Yield each selected run that can be read, with the content of its run.json.

        For each run that cannot be read, a line of text is appended to `bad`. Runs are yielded one at a time, so that
        tens of thousands of records are never in memory together.

        The names of runs without digests are added to `unverified`, and runs with a user's own code to `own_code`.

        Raises `ApeError` after the last run, if there are runs but the filter selects none or has an unknown name.
        """

        def read(run: Run) -> tuple[Run, dict[str, Any] | None]:
            try:
                return run, run.read()
            except RunError as error:
                if run.never_started():
                    return run, None
                bad.append(f"{run.name}: {error.summary}")
                return run, None

        kinds: set[filters.RunKind] = set()
        for run, about in files.each(read, self, self.folder):
            if about is None:
                continue
            config, data = about["config"], about["dataset"]
            of_data = data["task"], data["order"], data["parameters"]
            kind = filters.kind(config["scheme"], config["preset"], *of_data, image=bool(data.get("image")))
            kinds.add(kind)
            if self.chosen.picks(kind):
                if (own := record.own_code(about)) is not None:
                    self.own_code[run.name] = own
                yield run, about
                if run.unverified:  # the evaluations that the caller has read count too
                    self.unverified.add(run.name)
        self.chosen.check(kinds, str(self.folder))

    @property
    def unverified_note(self) -> str:
        """A note about the runs that were read and have files without a digest; empty if there are none."""
        count = len(self.unverified)
        runs = "1 run is" if count == 1 else f"{count:,} runs are"
        return f"{runs} unverified: there are files without a digest (`ape verify --add` adds it)." if count else ""

    def find(self, name: str) -> Run:
        """Find a run by its name, its path, or a unique prefix of its name.

        Raises `UsageError` if there is no such run, or if several names have this prefix.
        """
        if not name:  # an unset variable of a shell, which must not mean the only run
            raise UsageError("the name of a run is empty", got="''", fix="name a run; `ape runs` lists all")
        names = [run.name for run in self]
        path = storage_path(name)
        wanted = path.name if path.resolve().parent == (self.folder / "runs").resolve() else name
        if wanted in names:
            return Run(self.folder / "runs" / wanted)
        alike = [n for n in names if n.startswith(wanted)]
        if len(alike) == 1:
            return Run(self.folder / "runs" / alike[0])
        if alike:
            raise UsageError(
                "the names of several runs begin like this",
                got=name,
                allowed=", ".join(alike),
                fix="give more of the name",
            )
        if not names:
            raise UsageError(
                "unknown run: there are none here",
                got=f"{name!r} in {self.folder}",
                fix="train one, or name their folder with --results",
            )
        raise unknown("run", name, names)

    def place(self, config: Config, data: Facts) -> Run:
        """The run of a resolved configuration on a dataset, whether it exists or not.

        Raises `ApeError` if the name of the task or of the scheme cannot be a part of a path.
        """
        parts = [data.task, data.order, config.scheme, str(config.seed), config.digest(data.fingerprint)]
        return Run(self.folder / "runs" / checked_name("name of the run", "-".join(p for p in parts if p)))

    def begin(
        self,
        run: Run,
        config: Config,
        data: Dataset,
        machine: dict[str, Any],
        variant: dict[str, Any],
        processes: int = 1,
        own_files: dict[str, str] | None = None,
    ) -> None:
        """Write the first run.json.

        `machine` is what `models.device.describe` returns. `variant` has the fields that differ from the preset.
        `processes` is the number of processes that train together. `own_files` has the digests of a user's own files.
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
                **({"tagged": True} if plan.tagged else {}),
                **({"largest": data.sizes} if data.sizes else {}),
                "vocabulary": data.manifest.vocabulary,
            },
            "versions": {"ape": version(), "torch": here.pop("torch")},
            "commit": commit(),
            **here,
            "processes": processes,
            **({"own_files": own_files} if own_files else {}),
            "started": now(),
        }
        record.write(run.folder / "run.json", about)

    def runs(self) -> pl.DataFrame:
        """A table with one row per run. Runs that cannot be read are left out."""
        return self.table()[0]

    def table(self) -> tuple[pl.DataFrame, list[str]]:
        """A table with one row per run, and a line of text about each run that cannot be read."""
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
                    "variant": record.settings_text(record.settings_of(about)),
                    "preset": config["preset"],
                    "seed": config["seed"],
                    "status": run.status_in(about),
                    "verified": not run.unverified,
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
    "verified": bool,
    "dataset": str,
    "parameters": int,
    "steps": int,
    "seconds": float,
    "validation_token_accuracy": float,
    "started": str,
    "finished": str,
}


def open_registry(folder: str | StoragePath) -> Registry:
    """The registry in a folder or at an address, which need not exist yet.

    Raises `UsageError` for an invalid address.
    """
    return Registry(storage_path(folder))
