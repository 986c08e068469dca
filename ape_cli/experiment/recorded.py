"""What registered runs recorded about their datasets, which may no longer exist."""

from __future__ import annotations

from typing import Any

from ape_cli.data.plan import DatasetPlan
from ape_cli.runs.record import Trained


class RecordedDatasets:
    """What registered runs recorded about their datasets."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._fingerprints: dict[str, str] = {}  # by the plan
        self._sizes: dict[str, dict[str, int]] = {}  # by the fingerprint
        self._by_name: dict[str, dict[str, Trained]] = {}  # records by name and fingerprint

    def add(self, record: Trained) -> None:
        """Add the record of a dataset, the field `dataset` of a run.json."""
        self._fingerprints[_plan_key(record.model_dump(), record.order)] = record.fingerprint
        self._sizes.setdefault(record.fingerprint, {}).update(record.largest)
        self._by_name.setdefault(record.name, {})[record.fingerprint] = record

    def fingerprint(self, plan: DatasetPlan) -> str:
        """The fingerprint of the dataset of a plan, or an empty string if no run used it."""
        return self._fingerprints.get(_plan_key(plan.model_dump(), plan.linearisation), "")

    def sizes(self, fingerprint: str) -> dict[str, int]:
        """The largest sizes of the training split of a dataset, by the structure that is read, as far as runs know."""
        return self._sizes.get(fingerprint, {})

    def named(self, name: str) -> Trained | None:
        """The record of the dataset of this name, or None if none or several datasets had this name."""
        records = list(self._by_name.get(name, {}).values())
        return records[0] if len(records) == 1 else None


def _plan_key(plan: dict[str, Any], order: str | None) -> str:
    """A key for a dataset's plan. `order` is the name of its linearisation."""
    return repr([order, *(plan[key] for key in ("task", "parameters", "seed", "rows"))])
