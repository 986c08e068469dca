"""The two stages of a sweep with tuning.

In the first stage, all settings of a group of trials are trained, with the seeds that the tuning names. When all of a
group's trials are finished, the setting with the best validation scores is chosen (`runs.tuning`). In the second stage,
only this setting is trained with the other seeds of the grid. The choice is made again from the registry whenever the
sweep is planned, so nothing has to be stored. The test split has no part in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ape_cli.core.errors import RunError, UsageError
from ape_cli.runs import record, tuning
from ape_cli.runs.registry import Registry
from ape_cli.storage.paths import StoragePath
from ape_cli.sweep.combinations import TrialGroup, first_stage
from ape_cli.sweep.durations import PastRuns
from ape_cli.sweep.planning import PlannedTrial, Planner, unique


@dataclass(frozen=True)
class GroupChoice:
    """The setting that was chosen for a group of trials.

    `group` says in words which group it is. `trials` is the number of settings that were tried, and `validation` the
    mean score of the chosen one over `seeds`. `runs` are the trials that the grid asks for with the chosen setting.
    """

    group: str
    setting: dict[str, Any]
    trials: int
    seeds: list[int]
    validation: tuning.Validation
    runs: list[PlannedTrial]


@dataclass(frozen=True)
class Stages:
    """The planned trials of a sweep.

    `second` has the trials with chosen settings, and those whose settings are still `open`. `undecided` has the trials
    of groups whose setting is not chosen yet, by name, with a line of text that says why. `left` has a line about each
    trial that is impossible.
    """

    first: list[PlannedTrial]
    second: list[PlannedTrial]
    choices: list[GroupChoice]
    undecided: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    @property
    def waiting(self) -> list[str]:
        """A line about each group whose setting is not chosen yet."""
        return list(dict.fromkeys(self.undecided.values()))

    @property
    def trials(self) -> list[PlannedTrial]:
        """The trials of both stages."""
        return unique([*self.first, *self.second])


def plan(groups: list[TrialGroup], registry: Registry, datasets: StoragePath, past: PastRuns | None = None) -> Stages:
    """Plan both stages of groups of trials. Nothing is generated.

    Raises `UsageError` if a group cannot be trained with one of the settings that are tuned, and the errors of
    `Planner.trial`.
    """
    planner = Planner(registry, datasets, past)

    for group in (group for group in groups if group.tuned):
        _check_same(group, planner)
    first = unique(item for options in first_stage(groups) if (item := planner.trial(options)))
    second: list[PlannedTrial] = []
    choices: list[GroupChoice] = []
    undecided: dict[str, str] = {}
    for group in (group for group in groups if group.tuned):
        tried = [[planner.trial(group.point(setting, seed)) for seed in group.seeds] for setting in group.settings]
        items = [[item for item in of_setting if item] for of_setting in tried]
        if not items[0]:
            continue  # impossible, as `left` says
        try:
            choice = _choice(group, items, planner)
        except RunError as error:
            line = f"{_name(group, items[0][0])}: {error.summary}" + (f"; {error.fix}" if error.fix else "")
            undecided |= {item.name: line for of_setting in items for item in of_setting}
            second += _open(group, items[0][0])
        else:
            choices.append(choice)
            second += [item for item in choice.runs if item.config.seed in group.later]
    return Stages(first, unique(second), choices, undecided, planner.left)


def _check_same(group: TrialGroup, planner: Planner) -> None:
    """Check that all settings of a group can be trained, or none. Raises `UsageError` otherwise."""
    reasons: dict[bool, str] = {}  # of settings that can be trained, and of those that cannot
    for setting in group.settings:
        text = f"{group.base.scheme} cannot take {record.settings_text(setting)}"
        what, fix = "each scheme needs the same trials", "tune this scheme with other settings in a [[grid]] of its own"
        try:
            reason = planner.obstacle(group.point(setting, group.seeds[0]))
        except UsageError as error:
            planner.trial(group.base)  # raises if the tuned settings are not the cause
            if error.fix and error.fix.startswith("did you mean"):
                raise  # a mistyped name is no setting of another scheme either
            fix = f"{error.fix}; or {fix}" if error.fix else fix
            raise UsageError(what, got=f"{text}: {error.summary}", allowed=error.allowed, fix=fix) from error
        reasons[bool(reason)] = f"{text}: {reason}"
        if len(reasons) == 2:
            raise UsageError(what, got=reasons[True], fix=fix)


def _choice(group: TrialGroup, items: list[list[PlannedTrial]], planner: Planner) -> GroupChoice:
    """The choice among the settings of a group, given the trials of each.

    Raises `RunError` if a trial is not finished or its validation scores cannot be read.
    """
    every = [item for of_setting in items for item in of_setting]
    if unfinished := [item for item in every if item.state != "finished"]:
        got = f"{len(unfinished)} of {len(every)} trials, the first is {unfinished[0].name}"
        raise RunError("no setting is chosen, because trials are not finished", got=got)
    chosen = tuning.choose(
        {
            number: {item.config.seed: tuning.validation(item.run) for item in of_setting if item.run}
            for number, of_setting in enumerate(items)
        }
    )
    setting = group.settings[chosen.setting]
    runs = [item for seed in group.of_grid if (item := planner.trial(group.point(setting, seed)))]
    name = _name(group, items[chosen.setting][0])
    return GroupChoice(name, setting, len(items), group.seeds, chosen.validation, runs)


def _name(group: TrialGroup, item: PlannedTrial) -> str:
    """A group in words: its dataset, its scheme, and the settings that are not tuned."""
    tuned = set().union(*group.settings)
    text = record.settings_text({key: value for key, value in item.experiment.variant.items() if key not in tuned})
    return f"{item.data.folder.name} {item.config.scheme}" + (f" ({text})" if text else "")


def _open(group: TrialGroup, item: PlannedTrial) -> Iterator[PlannedTrial]:
    """The trials of the second stage of a group, before its setting is chosen. `item` is one of its first stage."""
    tuned = tuple(sorted(set().union(*group.settings)))
    for seed in group.later:
        experiment = replace(item.experiment, config=item.config.model_copy(update={"seed": seed}))
        yield PlannedTrial(experiment, None, "open", item.past, tuned=tuned)
