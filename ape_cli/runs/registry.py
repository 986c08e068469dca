"""The registry of all runs under a folder.

There is no index file: the folder is scanned each time, so many machines may write to it. The name of a run consists of
task, linearisation, scheme, seed, and a short hash of the configuration and the data. Therefore the same configuration
on the same data is always the same run.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ape_cli.core import renamed
from ape_cli.core.errors import LEFT_OUT, RunError, UsageError, left_out, unknown
from ape_cli.core.runtime import version
from ape_cli.runs import filters, listing, packing, record
from ape_cli.runs.config import Config
from ape_cli.runs.filters import Filter
from ape_cli.runs.record import DatasetRecord, RunRecord, UserCode, commit
from ape_cli.runs.remote_run import run_in
from ape_cli.runs.run import Run, now
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath, checked_name, storage_path

if TYPE_CHECKING:  # imported lazily: listing stays fast, and training needs no polars
    import polars as pl

    from ape_cli.data.loader import Dataset

logger = logging.getLogger(__name__)


class Registry:
    """The runs in a results folder. `registry.open` returns one. Iterating over it yields each `Run`, sorted by name.

    `folder` is the parent of the folder `runs`. `names` restricts the registry to these runs. `chosen` is a filter that
    `readable` applies.

    >>> import tempfile
    >>> from ape_cli import registry
    >>> with tempfile.TemporaryDirectory() as results:
    ...     print(len(list(registry.open(results))))
    0
    """

    def __init__(self, folder: StoragePath, names: frozenset[str] | None = None, chosen: Filter = filters.ANY) -> None:
        """Store the arguments. Nothing is read yet."""
        self.folder, self.names, self.chosen = folder, names, chosen
        self.user_code: dict[str, UserCode] = {}  # the code of the runs that were read and have some, by name

    def only(self, names: Iterable[str]) -> Registry:
        """A registry restricted to the runs with these names."""
        return Registry(self.folder, frozenset(names), self.chosen)

    def where(self, chosen: Filter) -> Registry:
        """A registry with another filter.

        `readable`, and everything that reads runs with it, then yields only the selected runs.
        """
        return Registry(self.folder, self.names, chosen)

    def meeting(self, conditions: Sequence[str]) -> Registry:
        """The registry of the runs that meet all conditions on their columns (`filters.selected`).

        Raises `RunError` if there is none.
        """
        if not conditions:
            return self
        names = filters.selected(self.runs(), list(conditions))["run"]
        if names.is_empty():
            fix = "`ape runs` lists the runs, and `ape runs --json` their columns"
            raise RunError(f"no run in {self.folder} meets the conditions", got=" ".join(conditions), fix=fix)
        return self.only(names)

    @property
    def own_code(self) -> dict[str, UserCode]:
        """The former name of `user_code`."""
        renamed.warn_about("Registry.own_code", "user_code")
        return self.user_code

    def __iter__(self) -> Iterator[Run]:
        """Yield all runs with a matching name, sorted by name; the filter is not applied.

        Raises `RunError` if the folder of results is a file.
        """
        runs = self.folder / "runs"
        try:
            entries = files.entries(runs)
        except OSError as error:
            fix = files.how_to_read(error, "name another folder with `results`")
            raise RunError(f"cannot read {runs}", got=error.strerror, fix=fix) from error
        names = (name for name, is_folder in entries if is_folder and not name.startswith("."))
        yield from (run_in(runs / name) for name in names if self.names is None or name in self.names)

    def readable(self, bad: list[str] | None = None) -> Iterator[tuple[Run, RunRecord]]:
        """Yield each selected run that can be read, with the content of its run.json.

        A run that cannot be read is left out with a warning of `logging`. Records are read one at a time, so memory
        does not grow with their number. Runs that use your own code are added to `user_code`. The argument `bad` is
        deprecated: a line of text about each run that is left out is appended to it.

        Raises `ApeError` after the last run if the filter selects none of several runs, or contains an unknown name.
        """
        if bad is not None:
            warnings.warn("`bad` is deprecated: `readable` logs a warning", DeprecationWarning, stacklevel=2)

        def read(run: Run) -> tuple[Run, RunRecord | None]:
            try:
                return run, run.read()
            except RunError as error:
                if not run.never_started():
                    logger.warning(f"{LEFT_OUT}{run.name}: {error.summary}")
                    if bad is not None:
                        bad.append(f"{run.name}: {error.summary}")
                return run, None

        run_kinds: set[filters.RunKind] = set()
        for run, run_record in files.map_ordered(read, self, self.folder):
            if run_record is None:
                continue
            if self.chosen != filters.ANY:
                run_kind = filters.run_kind(run_record.config, run_record.dataset)
                run_kinds.add(run_kind)
                if not self.chosen.picks(run_kind):
                    continue
            if (code := record.user_code(run_record)) is not None:
                self.user_code[run.name] = code
            yield run, run_record
        self.chosen.check(run_kinds, str(self.folder))

    def find(self, name: str) -> Run:
        """Find a run by its name, its path, or a unique prefix of its name.

        Raises `UsageError` if no run matches, or if several do.
        """
        if not name:  # an unset variable of a shell, which must not mean the only run
            raise UsageError("the name of a run is empty", got="''", fix="name a run; `ape runs` lists all")
        names = [run.name for run in self]
        if not names:
            fix = "train one with `ape train`, or name another folder with `results`"
            raise UsageError(f"no runs in {self.folder}", got=name, fix=fix)
        path = storage_path(name)
        start = path.name if path.resolve().parent == (self.folder / "runs").resolve() else name
        alike = [start] if start in names else [n for n in names if n.startswith(start)]
        if len(alike) == 1:
            return run_in(self.folder / "runs" / alike[0])
        if alike:
            what, fix = "several runs have names with this prefix", "give a longer prefix"
            raise UsageError(what, got=name, allowed=", ".join(alike), fix=fix)
        raise unknown("run", name, names, listed_by="ape runs")

    def run_for(self, config: Config, data: Dataset) -> Run:
        """The run of a resolved configuration on a dataset, whether it exists or not.

        Raises `ApeError` if the name of the task or of the scheme cannot be a part of a path.
        """
        name = record.run_name(config, data.task, data.order, data.fingerprint)
        return run_in(self.folder / "runs" / checked_name("name of the run", name))

    def runs(self) -> pl.DataFrame:
        """A `polars.DataFrame` with one row per run. Runs that cannot be read are left out with a warning."""
        return listing.table(self.readable(), self.folder)

    def table(self) -> tuple[pl.DataFrame, list[str]]:
        """Deprecated: `runs`, and a line of text about each run that cannot be read."""
        warnings.warn("`table` is deprecated: call `runs`", DeprecationWarning, stacklevel=2)
        with left_out() as lines:
            return self.runs(), lines


def new_record(
    run: Run,
    config: Config,
    data: Dataset,
    machine: dict[str, Any],
    variant: dict[str, Any],
    processes: int = 1,
    own_files: dict[str, str] | None = None,
) -> RunRecord:
    """The first run.json of a run.

    `machine` is what `models.device.describe` returns. `variant` has the fields that differ from the preset.
    `processes` is the number of processes that train together. `own_files` has the digests of a user's own files.
    """
    plan, manifest, here = data.manifest.plan, data.manifest, dict(machine)
    trained = DatasetRecord(
        name=data.name,
        path=str(data.folder),
        fingerprint=manifest.fingerprint,
        task=plan.task,
        order=plan.linearisation,
        structure=plan.structure.expression,
        parameters=plan.parameters,
        seed=plan.seed,
        image=plan.image,
        mean_size=manifest.mean_size,
        mean_tokens=manifest.mean_tokens,
        tagged=bool(plan.tagged),
        causal=bool(plan.causal),
        code=plan.code,
        largest=data.sizes,
        rows=plan.rows,
        vocabulary=manifest.vocabulary,
    )
    return RunRecord(
        run=run.name,
        status="running",
        config=config,  # type: ignore[arg-type]
        variant=variant,
        dataset=trained,
        versions={"ape": version(), "torch": here.pop("torch")},
        commit=commit(),
        processes=processes,
        own_files=own_files or {},
        started=now(),
        **here,
    )


def open_registry(folder: str | StoragePath) -> Registry:
    """Open the registry in a local folder, or at an address in an object store. It need not exist yet.

    `folder` can also be a file that `ape runs --pack` wrote, or a local folder of such files.

    Raises `UsageError` for an invalid address.
    """
    path = storage_path(folder)
    paths: Sequence[StoragePath] = ()
    if path.suffix == packing.SUFFIX and not path.is_dir():
        paths = [path]
    elif isinstance(path, Path) and not (path / "runs").exists():
        paths = sorted(file for file in path.glob(f"*{packing.SUFFIX}") if file.is_file())
    return Registry(packing.packed(path, *paths).folder if paths else path)
