"""The configuration and the dataset that the options of `ape train` choose."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ape_cli.cli._app import existing_dataset
from ape_cli.core.errors import UsageError

if TYPE_CHECKING:  # imported by the command when it runs, because torch is slow to import
    from ape_cli.data.loader import Dataset
    from ape_cli.runs.config import Config
    from ape_cli.runs.config_file import ConfigFile
    from ape_cli.runs.record import Trained
    from ape_cli.storage.paths import StoragePath
    from ape_cli.structure import Structure

logger = logging.getLogger(__name__)
_EXCLUSIVE = {"steps": "epochs", "validate_every_steps": "validate_every_epochs"}


@dataclass(frozen=True)
class WantedRun:
    """The options that choose the configuration and the dataset."""

    preset: str
    scheme: str
    structure: str | None
    attention: str
    order: str | None  # the name of a linearisation
    seed: int
    precision: str
    settings: dict[str, Any]
    recorded: Trained | None = None  # the dataset of a configuration file
    from_file: frozenset[str] = frozenset()  # the settings that only the file has

    def over(self, file: ConfigFile, given: Collection[str]) -> WantedRun:
        """The configuration of a file, with the options that were `given` in place of its own."""
        own = file.config
        schemes, attentions = own.scheme_options, own.attention_options
        base = file.settings
        schemes = {} if "scheme" in given else schemes
        if {"scheme", "structure", "attention"} & set(given):  # they decide these two, unless --set does
            base = {name: value for name, value in base.items() if name not in ("max_size", "decay")}
        attentions = {} if "attention" in given else attentions
        for one, other in [*_EXCLUSIVE.items(), *((b, a) for a, b in _EXCLUSIVE.items())]:
            if one in self.settings:
                base.pop(other, None)
        structure = None if own.structure is None or "scheme" in given else own.structure.expression
        return WantedRun(
            preset=own.preset,
            scheme=self.scheme if "scheme" in given else own.scheme,
            structure=self.structure if "structure" in given else structure,
            attention=self.attention if "attention" in given else own.attention,
            order=self.order,
            seed=self.seed if "seed" in given else own.seed,
            precision=self.precision if "precision" in given else own.precision,
            settings=base | schemes | attentions | self.settings,
            recorded=file.dataset,
            from_file=frozenset(base) - set(self.settings),
        )

    def config(self, kind: str) -> Config:
        """The configuration for data of a kind, `sequence` or `image`. Raises `UsageError` if it is not valid."""
        from ape_cli import attention, position
        from ape_cli.models.settling import locality
        from ape_cli.runs import config

        found = config.resolve(
            self.preset,
            self.scheme,
            position.options(self.scheme),
            kind=kind,
            structure=self.structure,
            attention=self.attention,
            attention_options=attention.options(self.attention),
            seed=self.seed,
            precision=self.precision,
            settings=self.settings,
        )
        locality(found)
        return found

    def baseline(self) -> WantedRun:
        """The same model without positions. Options that only the scheme has are left out."""
        from ape_cli import position

        own = {"max_size", *position.options(self.scheme)} | ({"decay"} & self.from_file)
        settings = {key: value for key, value in self.settings.items() if key not in own}
        return replace(self, scheme="none", structure=None, settings=settings)

    def dataset(self, data: StoragePath | None, task: str | None, datasets: StoragePath, usual: bool) -> Dataset:
        """Open the dataset, or generate it. `usual`: whether the preset is the default one."""
        from ape_cli import position
        from ape_cli.models.factory import scheme_of
        from ape_cli.runs import config
        from ape_cli.training import dataset_choice

        def check(own: Structure) -> None:
            """Raise an error for bad options of the scheme. The size of a bounded scheme may follow from the data."""
            chosen = self.config(kind)
            if chosen.max_size is not None or not position.load(self.scheme).bounded:
                scheme_of(chosen, own)

        if data is not None:
            kind, make = dataset_choice.given_dataset(existing_dataset(data, datasets))
        elif task is not None:
            of_task = task, self.order, self.preset, datasets
            kind, make = dataset_choice.task_dataset(*of_task, self.scheme, self.structure, check)
            dataset_choice.note_unused(*of_task)
        elif self.recorded is not None and self.order is None:
            kind, make = dataset_choice.recorded_dataset(self.recorded, datasets)
        elif self.recorded is not None:
            fix = "name a task with --task, or leave the order out"
            raise UsageError("the configuration file already names a dataset", got=f"order {self.order}", fix=fix)
        else:
            kind, make = dataset_choice.choose_dataset(
                self.scheme, self.structure, self.order, self.preset, datasets, check
            )
        self.config(kind)  # raises an error for a bad configuration before anything is generated
        about = config.preset(self.preset).about[kind]
        logger.info(f"preset: {self.preset} ({about}){'; --preset chooses another' if usual else ''}")
        return make()
