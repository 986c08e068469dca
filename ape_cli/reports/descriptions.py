"""The descriptions of runs for tables: what their rows and columns are named by.

Runs that differ in anything but the seed never share a row of a table. That includes the code of a user's own scheme,
kind of attention or map of positions: runs that were trained with another version of it have a row of their own.

The frames of a report have the columns of `evaluations.COLUMNS`. The settings of a run travel beside them, as records
by the columns `configuration` and `variant` (`RowKey`).

Several views of one report read the same `ReportedRuns`, which read and describe each run once. With
`--best-by validation` they are restricted to the chosen runs. A row is then a scheme with its kind of attention, map of
positions, model and structure (`ROW`), and the other settings are what was chosen (`Choice`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from ape_cli import tasks
from ape_cli.core.errors import LEFT_OUT, ApeError
from ape_cli.runs.config import PRESETS, SIZE, TRAINING, Config
from ape_cli.runs.listing import CodeVersions, configuration
from ape_cli.runs.record import DatasetRecord, RunRecord, settings_text
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.structure import linearisation
from ape_cli.tasks import BaseTask

CODE = "code "  # begins the part of a variant that names the version of own code; settings contain "="
ROW = ("attention", "model", "positions", "structure")  # the settings that a row of a tuned table is named by
Result = TypeVar("Result")
Items = tuple[tuple[str, str], ...]  # names of settings, and each setting as text (`lr_peak=0.003`)
RowKey = tuple[str, str]  # the configuration and the variant of a line
logger = logging.getLogger(__name__)


class Choice(NamedTuple):
    """The setting that validation scores chose for a row in a column, from its trials."""

    setting: str
    trials: int  # the number of settings
    seeds: int  # the number of seeds that the mean validation scores are over
    is_default: bool  # whether the setting is that of the preset
    tried: tuple[str, ...]  # the settings as text
    shared: tuple[str, ...]  # the names of the settings that all trials have, which name the row
    # the score on a split less that of the preset's setting, or the ratio of two perplexities; without those not known
    moved: tuple[tuple[str, float], ...] = ()


class Settings(NamedTuple):
    """The settings of a run."""

    variant: Items = ()  # what differs from the preset and the scheme; also the version of own code, as `CODE`
    training: Items = ()  # those of `TRAINING`; empty if they were chosen by validation scores
    choice: Choice | None = None

    @property
    def method(self) -> Items:
        """The variant without settings of training."""
        return tuple(item for item in self.variant if item[0] not in TRAINING)


class Described(NamedTuple):
    """A run with its description for tables."""

    run: Run
    record: RunRecord
    columns: dict[str, Any]
    settings: Settings

    @property
    def key(self) -> RowKey:
        """The key of the settings."""
        return self.columns["configuration"], self.columns["variant"]


@cache
def is_image(task: str) -> bool:
    """Whether the rows of a task are images."""
    return tasks.modality_of(task) == "image"


def joined(items: Iterable[tuple[str, str]]) -> str:
    """Settings in one text, sorted by name, with the version of own code at the end."""
    return ", ".join(text for _, text in sorted(items, key=lambda item: (item[0] == CODE, item[0])))


class ReportedRuns(Registry):
    """The runs of a report. What its views read of them is kept (`once`), so each file is read once.

    `choices` has the choice of each run by name, if validation scores chose the settings. Then these are the only runs.
    `whole` keeps what does not depend on the choice: the runs that others were chosen from, or these themselves.
    """

    def __init__(self, registry: Registry, choices: Mapping[str, Choice] | None = None) -> None:
        """Nothing is read yet."""
        super().__init__(registry.folder, registry.names if choices is None else frozenset(choices), registry.chosen)
        self.choices, self.user_code = choices or {}, registry.user_code
        self.kept: dict[tuple[Callable[..., Any], Hashable], Any] = {}
        self.whole: ReportedRuns = registry.whole if isinstance(registry, ReportedRuns) else self


def once(registry: Registry, read: Callable[..., Result], *given: Any, key: Hashable = None) -> Result:
    """The value of `read(*given)`. `ReportedRuns` keep it under `read` and `key`, so the caller must not change it."""
    if not isinstance(registry, ReportedRuns):
        return read(*given)
    if (read, key) not in registry.kept:
        registry.kept[read, key] = read(*given)
    return cast(Result, registry.kept[read, key])


def whole(registry: Registry) -> Registry:
    """The runs among which settings were chosen, or the registry itself. `once` keeps there what no choice changes."""
    return registry.whole if isinstance(registry, ReportedRuns) else registry


def described(registry: Registry) -> list[Described]:
    """Each readable run with its description.

    If the runs of a user's own scheme were trained with different versions of its code, their `variant` and their
    `configuration` end with the first digits of its SHA-256. So do those of a run that was resumed with other code. The
    same holds for a kind of attention and a map of positions. Runs with own code come last.
    """
    return once(registry, _described, registry)


def _described(registry: Registry) -> list[Described]:
    choices = registry.choices if isinstance(registry, ReportedRuns) else {}
    versions, runs, of_own_code = CodeVersions(), list[Described](), list[tuple[Run, RunRecord]]()
    for run, record in registry.readable():
        try:
            description = _description(run, record, choices.get(run.name))
        except ApeError as error:  # the task of the run does not have its order
            logger.warning(f"{LEFT_OUT}{run.name}: {error.summary}")
            continue
        if versions.add(record):  # how many versions there are is known at the end
            of_own_code.append((run, record))
        else:
            runs.append(description)
    return runs + [
        _description(run, record, choices.get(run.name), versions.told(record)) for run, record in of_own_code
    ]


def row_settings(record: RunRecord) -> dict[str, Any]:
    """The settings of a run that name its row in a tuned table."""
    return {key: value for key, value in record.variant.items() if key in ROW}


def _description(run: Run, record: RunRecord, choice: Choice | None, version: str = "") -> Described:
    """The description of a run. `version`: that of its own code, if its row names it.

    Raises `ApeError` if its task lacks its order.
    """
    config, trained, named = record.config, record.dataset, record.variant
    if choice is not None:
        named = row_settings(record) | {key: named[key] for key in choice.shared}
    variant = _texts(named) + (((CODE, CODE + version),) if version else ())
    fields = {} if choice else {key: getattr(config, key, None) for key in TRAINING}
    training = _texts({key: value for key, value in fields.items() if value is not None})
    columns = {
        "task": trained.task,
        "order": trained.order,
        "scheme": config.scheme,
        "variant": joined(variant),
        "configuration": configuration(record, version),
        "attention": config.attention,
        "preset": config.preset,
        "seed": config.seed,
        "structure": trained.structure,
        "form": form_of(trained),
        "trained_on": trained.name,
        "trained_fingerprint": trained.fingerprint,
        "preset_size": (of_preset := has_preset_size(config, trained)),
        "paper_size": of_preset and config.preset in ("paper", "neurips"),
    }
    return Described(run, record, columns, Settings(variant, training, choice))


def _texts(settings: Mapping[str, Any]) -> Items:
    """Settings, each as text."""
    return tuple((key, settings_text({key: value})) for key, value in settings.items())


def form_of(trained: DatasetRecord) -> str:
    """The form of a task's dataset, as the task names it: `branching 3, binarised`. Empty if the task is not known."""
    try:
        return tasks.load(trained.task).form(trained.parameters)
    except (ApeError, LookupError):
        return ""


def has_preset_size(config: Config, trained: DatasetRecord) -> bool:
    """Whether a run has the size of its preset: its model, its steps, and its data.

    The model is the encoder-decoder with the preset's widths and layers (`runs.config.SIZE`). Its steps follow from the
    epochs and the batch size. Other settings, such as a learning rate, a structure or the bound of a scheme, are part
    of a method and not of a size.
    """
    preset = PRESETS[config.preset].of(config.modality)
    same = all(getattr(config, name, None) == preset.get(name) for name in SIZE)
    return same and not config.decoder_only and has_preset_data(config.preset, trained)


def has_preset_data(preset: str, trained: DatasetRecord, sizes: str | None = None) -> bool:
    """Whether a run's data has the rows and the sizes of its preset, in any form; or all images of CIFAR-10.

    `sizes`: the preset with the sizes, if it is another.
    """
    rows = trained.rows
    if trained.image:  # validation rows are held out of the images for training; equal images decide how many
        return form_of(trained) == "cifar-10" and (rows["train"] + rows["validation"], rows["test"]) == (50_000, 10_000)
    with suppress(ApeError, LookupError):  # a task that is not known here
        own = _sizes(tasks.load(trained.task), trained.parameters)
        return rows == PRESETS[preset].rows and own == _preset_sizes(sizes or preset, trained.task, trained.order)
    return False


@cache
def _preset_sizes(preset: str, task: str, order: str | None) -> dict[str, Any] | None:
    """The `_sizes` of a task's dataset at a preset; None if the task has fixed rows."""
    task_class = tasks.load(task)
    if task_class.fixed_rows:
        return None
    options = task_class.options_at(preset, PRESETS[preset].sizes)
    return _sizes(task_class, tasks.make(task, *linearisation.parse(order), **options).parameters)


def _sizes(task_class: type[BaseTask], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a dataset that are not part of its form."""
    return {k: v for k, v in task_class.recorded(parameters).items() if k not in task_class.form_options}
