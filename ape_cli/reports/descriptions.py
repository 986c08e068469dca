"""The descriptions of runs for tables: what their rows and columns are named by.

Runs that differ in anything but the seed never share a row of a table. That includes the code of a user's own scheme,
kind of attention or map of positions: runs that were trained with another version of it have a row of their own.

Several views of one report read the same `ReportedRuns`, which read and describe each run once. With
`--best-by validation` they are restricted to the chosen runs. A row is then a scheme with its kind of attention, map of
positions, model and structure (`ROW`), and the other settings are what was chosen (`Choice`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, cast

from ape_cli import tasks
from ape_cli.core.errors import ApeError
from ape_cli.runs.config import PRESETS, SIZE, TRAINING, Config
from ape_cli.runs.listing import PARTS, code_version, configuration
from ape_cli.runs.record import DatasetRecord, RunRecord, settings_text
from ape_cli.runs.registry import Registry
from ape_cli.runs.run import Run
from ape_cli.structure import linearisation

CODE = "code "  # begins the part of a variant that names the version of own code; settings contain "="
Result = TypeVar("Result")
ROW = ("attention", "model", "positions", "structure")  # the settings that a row of a tuned table is named by


class Choice(NamedTuple):
    """The setting that validation scores chose for a row in a column, from its trials."""

    setting: str
    trials: int  # the number of settings
    seeds: int  # the number of seeds that the mean validation scores are over
    is_default: bool  # whether the setting is that of the preset
    tried: tuple[str, ...]  # the settings as text
    shared: tuple[str, ...]  # the names of the settings that all trials have, which name the row
    # the score on a split less that of the preset's setting, or the ratio of two perplexities; without those not known
    moved: Mapping[str, float] = {}


class Settings(NamedTuple):
    """The settings of a run, each as text (`lr_peak=0.003`), by their names. Lines of reports have it as JSON."""

    variant: dict[str, str]  # what differs from the preset and the scheme; also the version of own code, as `CODE`
    training: dict[str, str]  # those of `TRAINING`; empty if they were chosen by validation scores
    choice: Choice | None

    def __str__(self) -> str:
        """The settings as JSON."""
        return json.dumps(self)

    @property
    def method(self) -> dict[str, str]:
        """The variant without settings of training."""
        return {key: item for key, item in self.variant.items() if key not in TRAINING}


def read_settings(text: str) -> Settings:
    """The settings from their JSON."""
    variant, training, choice = json.loads(text)
    return Settings(variant, training, choice and Choice(*choice))


def joined(items: Mapping[str, str]) -> str:
    """Settings in one text, sorted by name, with the version of own code at the end."""
    return ", ".join(items[key] for key in sorted(items, key=lambda key: (key == CODE, key)))


class ReportedRuns(Registry):
    """The runs of a report. What its views read of them is kept (`once`), so each file is read once.

    `choices` has the choice of each run by name, if validation scores chose the settings. Then these are the only runs.
    `whole` keeps what does not depend on the choice: the runs that others were chosen from, or these themselves.
    """

    def __init__(self, registry: Registry, choices: Mapping[str, Choice] | None = None) -> None:
        """Nothing is read yet."""
        super().__init__(registry.folder, registry.names if choices is None else frozenset(choices), registry.chosen)
        self.choices, self.own_code = choices or {}, registry.own_code
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


def described(registry: Registry, bad: list[str]) -> Iterator[tuple[Run, RunRecord, dict[str, Any]]]:
    """Each readable run, its run.json, and its description for tables.

    A line of text about each unreadable run is appended to `bad`. Only `ReportedRuns` keep the runs in memory.
    """
    if not isinstance(registry, ReportedRuns):
        yield from _described(registry, bad)
        return
    found, lines = once(registry, _all_described, registry)
    bad += lines
    yield from found


def _all_described(registry: Registry) -> tuple[list[tuple[Run, RunRecord, dict[str, Any]]], list[str]]:
    """All runs with their descriptions, and a line of text about each unreadable run."""
    lines = list[str]()
    return list(_described(registry, lines)), lines


def _described(registry: Registry, bad: list[str]) -> Iterator[tuple[Run, RunRecord, dict[str, Any]]]:
    """Read and describe the runs.

    If the runs of a user's own scheme were trained with different versions of its code, their `variant` and their
    `configuration` end with the first digits of its SHA-256. So do those of a run that was resumed with other code. The
    same holds for a kind of attention and a map of positions. Runs with own code come last.
    """
    choices = registry.choices if isinstance(registry, ReportedRuns) else {}
    versions: dict[tuple[str, ...], set[str]] = {}  # of each combination of plug-ins: those of its own files
    of_own_code: list[tuple[Run, RunRecord, str]] = []
    for run, record in registry.readable(bad):
        try:
            of_run = _description(record, choices.get(run.name))
        except ApeError as error:  # the task of the run does not have its order
            bad.append(f"{run.name}: {error.summary}")
            continue
        version = code_version(record)
        versions.setdefault(PARTS(record.config), set()).add(version)
        if version:  # how many versions there are is known at the end
            of_own_code.append((run, record, version))
        else:
            yield run, record, of_run
    for run, record, version in of_own_code:
        several = len(versions[PARTS(record.config)]) > 1 or record.resumed_with
        yield run, record, _description(record, choices.get(run.name), version if several else "")


def row_settings(record: RunRecord) -> dict[str, Any]:
    """The settings of a run that name its row in a tuned table."""
    return {key: value for key, value in record.variant.items() if key in ROW}


def _description(record: RunRecord, choice: Choice | None, version: str = "") -> dict[str, Any]:
    """The description of a run. `version`: that of its own code, if its row names it.

    Raises `ApeError` if its task lacks its order.
    """
    config, trained = record.config, record.dataset
    named = record.variant
    if choice is not None:
        named = row_settings(record) | {key: named[key] for key in choice.shared}
    variant = {key: settings_text({key: value}) for key, value in named.items()} | (
        {CODE: CODE + version} if version else {}
    )
    fields = {} if choice else {key: getattr(config, key, None) for key in TRAINING}
    training = {key: settings_text({key: value}) for key, value in fields.items() if value is not None}
    return {
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
        "paper_size": is_paper_size(config, trained),
        "settings": str(Settings(variant, training, choice)),
    }


def form_of(trained: DatasetRecord) -> str:
    """The form of a task's dataset, as the task names it: `branching 3, binarised`. Empty if the task is not known."""
    try:
        return tasks.load(trained.task).form(trained.parameters)
    except (ApeError, LookupError):
        return ""


def is_paper_size(config: Config, trained: DatasetRecord) -> bool:
    """Whether a run has the size of a paper: that of preset `paper`, or of `neurips`."""
    return config.preset in ("paper", "neurips") and has_preset_size(config, trained)


def has_preset_size(config: Config, trained: DatasetRecord) -> bool:
    """Whether a run has the size of its preset: its model, its steps, and its data.

    The model is the encoder-decoder with the preset's widths and layers (`runs.config.SIZE`). Its steps follow from the
    epochs and the batch size. Other settings, such as a learning rate, a structure or the bound of a scheme, are part
    of a method and not of a size.
    """
    preset = PRESETS[config.preset].of(config.kind)
    same = all(getattr(config, name, None) == preset.get(name) for name in SIZE)
    return same and not config.is_joined and has_preset_data(config.preset, trained)


def has_preset_data(preset: str, trained: DatasetRecord) -> bool:
    """Whether a run's data has the rows and the sizes of its preset, in any form; or all images of CIFAR-10."""
    rows = trained.rows
    if trained.image:  # validation rows are held out of the images for training; equal images decide how many
        return form_of(trained) == "cifar-10" and (rows["train"] + rows["validation"], rows["test"]) == (50_000, 10_000)
    if trained.task not in tasks.names() or tasks.load(trained.task).fixed_rows:
        return False
    kind = tasks.load(trained.task)
    options = kind.options_at(preset, PRESETS[preset].sizes)
    of_preset = tasks.make(trained.task, *linearisation.parse(trained.order), **options).parameters
    sizes, usual = (
        {k: v for k, v in kind.recorded(of).items() if k not in kind.form_options}
        for of in (trained.parameters, of_preset)
    )
    return bool(sizes == usual and rows == PRESETS[preset].rows)
