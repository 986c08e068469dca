"""The settings among which a sweep chooses one for each scheme: all combinations of values, or a subset of them.

A TOML file gives them in a table:

    [tune]
    set = { lr_peak = [3e-4, 1e-3, 3e-3], decay = [1, 0.98] }
    trials = 4    # at most this many of the six combinations; without it, all
    seeds = [42]  # the seeds of these trials; without it, all seeds of the grid

The subset is the same for all schemes, tasks and machines. It has the default setting of each scheme, if that is a
combination of the values, so that the effect of tuning can be measured.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from ape_cli import attention, position
from ape_cli.core import rng
from ape_cli.core.errors import UsageError
from ape_cli.core.validation import Scalar, Whole
from ape_cli.data import position_maps
from ape_cli.experiment import ExperimentOptions
from ape_cli.experiment.resolution import locality

_MOST_COMBINATIONS = 10_000
_SEED = 0  # of the subset


class TuneSpecification(BaseModel):
    """What is tuned: the values of each setting, the number of trials, and their seeds."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    set: dict[str, Annotated[list[Scalar], Field(min_length=1)]] = Field(
        min_length=1, description="Settings and the values that are tried. All combinations are."
    )
    trials: int | None = Field(None, gt=0, description="Only this many random combinations. Default: all.")
    seeds: list[Whole] | None = Field(
        None,
        min_length=1,
        description="Seeds of the search. Others train only the chosen setting. Default: all.",
    )


def settings_of(tune: TuneSpecification, defaults: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings that are tried, in the order of the combinations. `defaults`: settings that a subset must have.

    Raises `UsageError` if a value is repeated, if there are too many combinations, or if the number of trials does not
    fit them.
    """
    for key, values in tune.set.items():
        if len(set(values)) < len(values):
            raise UsageError(f"a value of {key} is repeated in what is tuned", got=str(values), fix="write it once")
    count = math.prod(map(len, tune.set.values()))
    if count > _MOST_COMBINATIONS:
        allowed = f"{_MOST_COMBINATIONS:,} combinations of values"
        raise UsageError(
            "too many values to tune", got=f"{count:,} combinations", allowed=allowed, fix="leave some out"
        )
    every = [dict(zip(tune.set, values, strict=True)) for values in itertools.product(*tune.set.values())]
    if tune.trials is None:
        return every
    if tune.trials > count:
        what = "there are more trials than combinations of the tuned values"
        raise UsageError(what, got=f"trials {tune.trials}", allowed=f"1 to {count}", fix="leave `trials` out")
    kept = {index for index, setting in enumerate(every) if setting in [*defaults]} if tune.trials < count else set()
    if len(kept) > tune.trials:
        what = "there are fewer trials than default settings of the schemes"
        fix = f"`trials={len(kept)}`, or tune these schemes in separate sweeps"
        raise UsageError(what, got=f"trials {tune.trials}, {len(kept)} default settings", fix=fix)
    shuffled = np.argsort(rng.rows(_SEED, "tune", np.arange(count)), kind="stable").tolist()
    others = [index for index in shuffled if index not in kept]
    return [every[index] for index in sorted([*kept, *others[: tune.trials - len(kept)]])]


def default_setting(base: ExperimentOptions, kind: str, keys: Iterable[str]) -> dict[str, Any]:
    """The default values of settings, for options without them and a kind of data.

    Settings that do not exist, or whose default depends on the data (`max_size`), are left out. Raises `UsageError` if
    the options are not valid.
    """
    config = base.config(kind)
    known = position_maps.options(base.positions) | attention.options(base.attention) | position.options(base.scheme)
    known |= config.model_dump() | {"decay": locality(config)}
    return {key: known[key] for key in keys if known.get(key) is not None}
