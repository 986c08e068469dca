"""The registered runs of a sweep, for reports."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ape_cli.cli._app import dataset_folder, folder_options
from ape_cli.cli.options import DATASETS
from ape_cli.core.errors import ApeError, DataError
from ape_cli.storage.paths import storage_path

if TYPE_CHECKING:  # imported by the command when it runs, because Polars and torch are slow to import
    from ape_cli.runs.filters import Filter
    from ape_cli.runs.registry import Registry
    from ape_cli.sweep.planning import PlannedTrial


def sweep_runs(file: Path, chosen: Filter, registry: Registry) -> tuple[Registry, str]:
    """The registry with only the chosen runs of a sweep, and a sentence if some of them are not finished.

    Presets of the filter replace those of the file; each of them has all trials of the file. Raises `ApeError` if no
    trial is chosen, or if none of the chosen trials has been trained.
    """
    from ape_cli.models.device import choose_device
    from ape_cli.runs import filters
    from ape_cli.sweep import planning, specification

    presets: list[dict[str, str]] = [{"preset": preset} for preset in chosen.presets] or [{}]
    grids = [
        specification.check(specification.over(fields, given))
        for given in presets
        for fields in specification.read(file)
    ]
    usual = "paper" if choose_device("auto").type == "cuda" else "small"
    try:
        every, _ = planning.of_grids(grids, usual, registry, DATASETS, lambda name: dataset_folder(storage_path(name)))
    except DataError as error:
        raise ApeError(
            f"the runs of the sweep {file} cannot be found without its data: {error.what}",
            got=error.got,
            allowed=error.allowed,
            fix=f"{error.fix}; then `{_command(file, None, registry)}`",
        ) from error

    def kind(item: PlannedTrial) -> filters.RunKind:
        config, data = item.config, item.data
        of_data = data.task, data.order, data.parameters
        return filters.kind(config.scheme, config.preset, *of_data, image=data.image is not None)

    chosen.check([kind(item) for item in every], f"the sweep {file}")
    items = [item for item in every if chosen.picks(kind(item))]
    if not any(map(_is_trained, items)):
        raise ApeError(
            f"no run of the sweep {file} is finished",
            got=f"{len(items)} {'run' if len(items) == 1 else 'runs'}{_of(chosen)}, none finished in {registry.folder}",
            fix=", ".join(f"`{_command(file, given.get('preset'), registry)}`" for given in presets),
        )
    done = sum(item.state == "finished" for item in items)
    standing = f"Of the {len(items)} runs of {file.name}{_of(chosen)}, {done} are finished."
    return registry.only(item.run.name for item in items if item.run), standing if done < len(items) else ""


def _is_trained(item: PlannedTrial) -> bool:
    """Whether the trial has been trained. It may not have been evaluated on its own test split yet."""
    return item.state == "finished" or bool(item.state == "stopped" and item.run and item.run.status == "finished")


def _of(chosen: Filter) -> str:
    """The filter in words, or an empty string."""
    return f" with {chosen}" if str(chosen) else ""


def _command(file: Path, preset: str | None, registry: Registry) -> str:
    """The command that trains the runs of a sweep."""
    words = ["ape", "sweep", str(file), *(["--preset", preset] if preset else [])]
    return shlex.join([*words, *folder_options(registry.folder)])
