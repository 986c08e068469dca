"""Exported models that are mutated: `ape_cli.load` refuses them, or loads the same model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ape_cli
from ape_cli.evaluation.sharing.exported import CARD, export
from ape_cli.runs.registry import open_registry
from tests.nightly.fuzz.cases import Case, finished


class ExportedTensors(Case):
    """The weights of an exported model."""

    names: tuple[str, ...] = ("model.safetensors",)

    def make(self) -> None:
        finished(self.template)
        (run,) = open_registry(self.template / "results")
        export(run, self.template / "out")

    def files(self) -> Sequence[Path]:
        return [self.work / "out" / name for name in self.names]

    def seen(self) -> tuple[Any, str]:
        assert (self.work / "out" / CARD).exists()
        model = ape_cli.load(self.work / "out")
        weights = {name: value.tolist() for name, value in model.module.state_dict().items()}
        return (weights, model.predict(["a b c", "d"], max_tokens=4), model.about, model.config, model.vocabulary), ""


class ExportedFacts(ExportedTensors):
    """The configuration and the vocabulary of an exported model."""

    json = True
    names = ("config.json", "vocabulary.json")


CASES = {"export-weights": ExportedTensors, "export-facts": ExportedFacts}
