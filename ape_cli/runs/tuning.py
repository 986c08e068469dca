"""The choice among settings by validation scores, for sweeps and for reports. The test split has no part in it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from statistics import fmean
from typing import Generic, NamedTuple, TypeVar

from ape_cli.core.errors import RunError
from ape_cli.runs.run import Run

Setting = TypeVar("Setting", bound=Hashable)
_equal = partial(math.isclose, rel_tol=1e-12, abs_tol=1e-12)  # the same sum of other scores may differ by rounding


class Validation(NamedTuple):
    """The scores on the validation split of the weights that a run has kept."""

    accuracy: float  # token accuracy, or top-1 accuracy of images: a fraction
    loss: float  # mean cross-entropy, nats a token or image


class ChosenSetting(NamedTuple, Generic[Setting]):
    """The setting with the best validation scores, and its mean scores over the seeds that all settings have."""

    setting: Setting
    seeds: list[int]
    validation: Validation


def validation(run: Run) -> Validation:
    """The validation scores of a finished run, from its history. Raises `RunError` if the history lacks them."""
    outcome = run.record.outcome
    kept = [row for row in run.history_table().to_pylist() if row.get("step") == outcome.best_step]
    if not kept:
        raise RunError("the run has no validation scores", got=run.name, fix="train it to its end")
    return Validation(kept[0]["validation_token_accuracy"], kept[0]["validation_loss"])


def mean(scores: Iterable[Validation]) -> Validation:
    """The mean scores of several runs."""
    of_runs = list(scores)
    return Validation(fmean(run.accuracy for run in of_runs), fmean(run.loss for run in of_runs))


def choose(scores: Mapping[Setting, Mapping[int, Validation]]) -> ChosenSetting[Setting]:
    """The setting with the highest mean accuracy; of equal ones, the one with the lowest mean loss, then the first.

    `scores` has the validation scores of each setting by seed. The means are over the seeds that all settings have, so
    that a setting with more seeds than the others has no advantage. Means that differ only by rounding are equal.
    Raises `ValueError` if there is no such seed.
    """
    common = set.intersection(*(set(by_seed) for by_seed in scores.values()))
    if not common:
        raise ValueError("the settings have no seed in common")
    means = {setting: mean(by_seed[seed] for seed in common) for setting, by_seed in scores.items()}
    highest = max(score.accuracy for score in means.values())
    tied = {setting: score.loss for setting, score in means.items() if _equal(score.accuracy, highest)}
    lowest = min(tied.values())
    chosen = next(setting for setting, loss in tied.items() if _equal(loss, lowest))
    return ChosenSetting(chosen, sorted(common), means[chosen])
