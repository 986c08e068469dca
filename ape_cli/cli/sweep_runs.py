"""The runs of a sweep, as `ape report --sweep` and `ape runs --sweep` select them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ape_cli.cli._app import dataset_folder, with_results
from ape_cli.cli.console import print_note
from ape_cli.cli.options import DATASETS
from ape_cli.core.errors import ApeError
from ape_cli.storage.paths import storage_path

if TYPE_CHECKING:
    from ape_cli.runs.filters import Filter
    from ape_cli.runs.registry import Registry


def sweep_runs(file: Path | None, chosen: Filter, registry: Registry, tuned: bool = False) -> tuple[Registry, str]:
    """The registry with only the chosen runs of a sweep, and a sentence if some of them are not finished.

    Without a file, these are all chosen runs.

    With `tuned`, groups whose setting is not chosen yet are left out. Presets of the filter replace those of the file;
    each of them has all trials of the file. Raises `ApeError` if no trial is chosen, or if none of the chosen trials
    has been trained.
    """
    if file is None:
        return registry.where(chosen), ""
    from ape_cli.experiment.spec import default_preset
    from ape_cli.experiment.spec_files import located
    from ape_cli.models.device import choose_device
    from ape_cli.runs import filters
    from ape_cli.sweep import combinations, specification, stages
    from ape_cli.sweep.specification import SweepSpec

    layers = [SweepSpec(preset=preset) for preset in chosen.presets] or [SweepSpec()]
    with located(file, layers[0], whole=True):
        grids = [grid for layer in layers for grid in specification.read(file, layer)]
    usual = default_preset(choose_device("auto").type)
    with located(file, layers[0]):
        groups = combinations.groups(grids, usual, lambda name: dataset_folder(storage_path(name)))
        planned = stages.plan(groups, registry, DATASETS)
    every = planned.trials
    undecided = planned.undecided if tuned else {}

    kinds = []
    for config, data in ((item.config, item.data) for item in every):
        of_data = data.task, data.order, data.parameters
        kinds.append(filters.kind(config.scheme, config.preset, *of_data, image=data.image is not None))
    chosen.check(kinds, f"the sweep {file}")
    again = with_results(f"sweep {shlex.quote(str(file))}", registry.folder)
    items = [item for item, kind in zip(every, kinds, strict=True) if chosen.picks(kind)]
    of = f" with {chosen}" if str(chosen) else ""
    # a finished run that is not evaluated yet counts as stopped
    registered = [item for item in items if item.run and item.state in ("finished", "stopped")]
    if not any(item.run and item.run.status == "finished" for item in registered):
        got = f"{len(items)} {'run' if len(items) == 1 else 'runs'}{of}, none finished in {registry.folder}"
        raise ApeError(f"no run of the sweep {file} is finished", got=got, fix=f"`{again}` trains them")
    done = sum(item.state == "finished" for item in items)
    progress = f"Of the {len(items)} runs of {file.name}{of.replace('`', '')}, {done} are finished."
    runs = [item.run.name for item in items if item.run and item.name not in undecided]
    if all(item.name in undecided for item in registered):
        fix = f"`{again}` continues; without `best_by`, its runs are shown"
        raise ApeError("no setting is chosen yet", got=undecided[registered[0].name], fix=fix)
    for line in dict.fromkeys(undecided[item.name] for item in items if item.name in undecided):
        print_note(f"not tuned: {line}")
    if left := sum(item.state == "finished" and item.name in undecided for item in items):
        are = "is" if left == 1 else "are"
        progress += f" {left} of them {are} left out, because the settings of their schemes are not chosen yet."
    return registry.only(runs), progress if done < len(items) else ""
