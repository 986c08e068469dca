"""The choice of `ape report --best-by validation`: one setting for each row and column, by validation scores.

A row is a scheme with its kind of attention, map of positions, model and structure (`descriptions.ROW`). Everything
else in which its runs differ, except for the seed, is a setting. In each column, the setting with the best mean
validation accuracy is chosen (`runs.tuning`). Settings that all runs of a row in its table share name the row. Test
scores are not read for the choice. They are read afterwards, for `moved` in JSON and CSV: what the choice changed.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

import polars as pl

from ape_cli.core.errors import LEFT_OUT, RunError, left_out
from ape_cli.core.numbers import counted, perplexity
from ape_cli.reports.descriptions import ROW, Choice, ReportedRuns, described, row_settings
from ape_cli.reports.evaluations import METRICS, NothingToReportError, Options, evaluated, task_of
from ape_cli.runs import filters, tuning
from ape_cli.runs.config import Config
from ape_cli.runs.record import settings_text
from ape_cli.runs.registry import Registry
from ape_cli.runs.tuning import Validation

logger = logging.getLogger(__name__)
_LONG = 55  # characters of chosen settings that a note does not count instead


@dataclass
class _Trial:
    """The finished runs of one setting."""

    config: Config
    setting: dict[str, Any]  # what differs from the preset and the scheme, without what names the row
    scores: dict[int, Validation] = field(default_factory=dict)  # of each seed
    runs: dict[int, str] = field(default_factory=dict)  # the name of the run of each seed


class _Cell(NamedTuple):
    """A row in a column."""

    structure: str
    task: str
    order: str | None
    form: str
    preset: str
    trained_fingerprint: str
    scheme: str
    row: str  # the settings that name the row
    code: str  # the version of own code

    @property
    def row_of_table(self) -> _Cell:
        """What the columns of the row in one table share."""
        return self._replace(task="", order=None, form="", trained_fingerprint="")

    def __str__(self) -> str:
        """The row and the column in words."""
        row = f"{self.scheme} ({self.row})" if self.row else self.scheme
        return f"{row} on {task_of(self._asdict())}, preset {self.preset}"


class _Chosen(NamedTuple):
    """The chosen setting of a row in a column, and the preset's setting if it is among the trials."""

    cell: _Cell
    trial: _Trial
    default: _Trial | None
    choice: Choice


class Tuned:
    """The runs of the chosen settings. Reading them needs all runs; `runs` then restricts reports to the chosen."""

    def __init__(self, registry: Registry) -> None:
        """Read the validation scores of all finished runs, and choose. What cannot be chosen is left out.

        Raises `NothingToReportError` if nothing can be chosen.
        """
        self.registry, self._chosen = registry, list[_Chosen]()
        self._of_metric: dict[str, ReportedRuns] = {}
        with left_out() as missing:
            cells = _trials(registry)
            of_rows: dict[_Cell, list[dict[str, Any]]] = {}  # the settings of all trials of a row in a table
            for cell, trials in cells.items():
                of_rows.setdefault(cell.row_of_table, []).extend(trial.setting for trial in trials)
            for cell, trials in cells.items():
                first, *others = of_rows[cell.row_of_table]
                shared = {key for key, value in first.items() if all(other.get(key) == value for other in others)}
                try:
                    self._chosen.append(_choose(cell, trials, shared))
                except ValueError as error:
                    tried = [(settings_text(trial.setting) or "the preset", sorted(trial.runs)) for trial in trials]
                    seeds = "; ".join(f"{setting}: {', '.join(map(str, of))}" for setting, of in tried)
                    logger.warning(f"{LEFT_OUT}{cell}: {str(error).replace('the', 'its', 1)} ({seeds})")
        if missing and not self._chosen:
            what, fix = (
                "no setting can be chosen by validation scores",
                "train the settings of a row with the same seeds",
            )
            raise NothingToReportError(what, got=str(registry.folder), fix=fix)

    def runs(self, options: Options) -> ReportedRuns:
        """The chosen runs, with what the choice moved the score that the options ask for."""
        if options.metric not in self._of_metric:
            self._of_metric[options.metric] = ReportedRuns(self.registry, self._choices(options))
        return self._of_metric[options.metric]

    def _choices(self, options: Options) -> dict[str, Choice]:
        """The choice of each chosen run."""
        needed = [trial for chosen in self._chosen for trial in (chosen.trial, chosen.default) if trial]
        registry = self.registry.only([name for trial in needed for name in trial.runs.values()]).where(filters.ANY)
        field = METRICS[options.metric].field
        scores = {  # of each run on its own data
            run.run.name: evaluation["overall"][field]
            for run, evaluation in evaluated(registry, options.split)
            if (evaluation["decode"], evaluation["split"]) == (options.decode, options.split)
            and evaluation["fingerprint"] == run.record.dataset.fingerprint
            and evaluation["overall"].get(field) is not None
        }
        choices: dict[str, Choice] = {}
        for chosen in self._chosen:
            names = chosen.trial.runs.values()
            if scores.keys().isdisjoint(names):
                setting = chosen.choice.setting or "the only one"
                lacking = f"the chosen setting ({setting}) has no {options.decode} scores on its {options.split} split"
                logger.warning(f"{LEFT_OUT}{chosen.cell}: {lacking}")
            choices |= dict.fromkeys(names, chosen.choice._replace(moved=_moved(chosen, scores, options)))
        return choices


def _trials(registry: Registry) -> dict[_Cell, list[_Trial]]:
    """The trials of each row and column."""
    cells: dict[_Cell, dict[str, _Trial]] = {}
    for run, record, line, _ in described(registry):
        if run.status_in(record) != "finished":
            continue
        try:
            score = tuning.validation(run)
        except RunError as error:
            logger.warning(f"{LEFT_OUT}{run.name}: {error.summary}")
            continue
        names = {"row": settings_text(row_settings(record)), "code": line["configuration"].partition("-")[2]}
        cell = _Cell(**{name: line[name] for name in _Cell._fields if name not in names}, **names)
        setting = {key: value for key, value in record.variant.items() if key not in ROW and value is not None}
        trial = cells.setdefault(cell, {}).setdefault(line["configuration"], _Trial(record.config, setting))
        trial.scores[line["seed"]], trial.runs[line["seed"]] = score, run.name
    return {cell: list(trials.values()) for cell, trials in cells.items()}


def _choose(cell: _Cell, trials: list[_Trial], shared: set[str]) -> _Chosen:
    """Choose a trial. `shared`: the settings that name the row. Raises `ValueError` without a seed in common."""
    ordered = sorted(trials, key=lambda trial: (bool(trial.setting), settings_text(trial.setting)))
    number, seeds, _ = tuning.choose({number: trial.scores for number, trial in enumerate(ordered)})
    varied = sorted({key for trial in ordered for key in trial.setting} - shared)
    default = next((trial for trial in ordered if not trial.setting.keys() - shared), None)
    of_trials = [
        [(key, trial.setting.get(key, getattr(trial.config, key, None))) for key in varied] for trial in ordered
    ]
    tried = [settings_text({key: value for key, value in items if value is not None}) for items in of_trials]
    is_default = ordered[number] is default
    choice = Choice(tried[number], len(ordered), len(seeds), is_default, tuple(sorted(tried)), tuple(sorted(shared)))
    return _Chosen(cell, ordered[number], default, choice)


def _moved(chosen: _Chosen, of_run: dict[str, float], options: Options) -> tuple[tuple[str, float], ...]:
    """What the choice moved the score: the mean difference over the seeds that both settings have.

    It is given for the split of the options and for validation, without what is not known. `of_run` has the scores on
    the split of the options.
    """
    trial, default, metric = chosen.trial, chosen.default, METRICS[options.metric]
    if default is None:
        return ()
    seeds = sorted(trial.runs.keys() & default.runs.keys())
    stored_as = {"token_accuracy": "accuracy", "cross_entropy": "loss"}.get(metric.field)
    pairs = {options.split: [(of_run.get(trial.runs[seed]), of_run.get(default.runs[seed])) for seed in seeds]}
    if stored_as:
        stored = [(getattr(trial.scores[seed], stored_as), getattr(default.scores[seed], stored_as)) for seed in seeds]
        pairs = {"validation": stored} | pairs
    differences = {
        split: [a - b for a, b in of_split if a is not None and b is not None] for split, of_split in pairs.items()
    }
    moved = {split: fmean(of_split) for split, of_split in differences.items() if of_split}
    return tuple((split, perplexity(value) if metric.exponential else value) for split, value in moved.items())


def notes(lines: pl.DataFrame) -> tuple[list[str], list[str]]:
    """The notes and the rules on the chosen settings of a table. There are none if nothing was chosen.

    `lines` has the columns of the choice (`evaluations.COLUMNS`), `column` and `row`. The note counts the
    rows of each setting, or the settings, and the last rule lists them.
    """
    lines = lines.drop_nulls("setting").unique(["column", "row"], keep="last", maintain_order=True)
    trials, seeds = set(lines["trials"]), set(lines["tuning_seeds"])
    if not trials:
        return [], []
    if trials == {1}:
        return ["Each row has one setting."], []
    cells: dict[str, dict[str, list[str]]] = {}  # the rows of each setting in each column
    for line in lines.iter_rows(named=True):
        setting = line["setting"] or ("the only setting" if line["trials"] == 1 else "the preset's")
        cells.setdefault(line["column"], {}).setdefault(setting, []).append(line["row"])
    listed = "; ".join(
        f"{column}: " + ", ".join(f"{setting} for {', '.join(rows)}" for setting, rows in settings.items())
        for column, settings in cells.items()
    )
    counts = Counter(setting for of_column in cells.values() for setting, rows in of_column.items() for _ in rows)
    told = ", ".join(f"{setting} in {counted(count, 'cell')}" for setting, count in counts.most_common())
    if len(counts) == 1:
        told = f"{next(iter(counts))} in all rows"
    notes = [f"Validation chose {told if len(told) <= _LONG else f'{len(counts)} different settings'}."]
    rules = [f"Validation chose from {_range(trials, 'setting')}, by the mean over {_range(seeds, 'seed')}."]
    if len(trials) > 1 or len(seeds) > 1 or lines["tried"].n_unique() > 1:
        notes.append("Rows were not tuned equally.")
        rules.append("Not tuned equally: the settings to choose from, or the seeds, differ between rows.")
    return notes, rules + [f"Chosen settings: {listed}."] * (len(counts) > 1)


def _range(counts: set[int], what: str) -> str:
    """Numbers of things as text: `3 seeds`, `1 to 3 seeds`."""
    low, high = min(counts), max(counts)
    return f"{low if low == high else f'{low} to {high}'} {what}{'s' * (high != 1)}"
