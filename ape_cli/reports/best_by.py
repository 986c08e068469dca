"""The choice of `ape report --best-by validation`: one setting for each row and column, by validation scores.

A row is a scheme with its kind of attention, map of positions, model and structure (`descriptions.ROW`). Everything
else in which its runs differ, except for the seed, is a setting. In each column, the setting with the best mean
validation accuracy is chosen (`runs.tuning.best`). Settings that all runs of a row in its table share name the row.
Test scores are not read for the choice. They are read afterwards, to say what it moved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

from ape_cli.core.errors import RunError
from ape_cli.core.perplexity import perplexity
from ape_cli.reports.descriptions import ROW, Choice, ReportedRuns, described, row_settings
from ape_cli.reports.evaluations import METRICS, Options, evaluated, nothing_to_report, task_of
from ape_cli.runs import filters, tuning
from ape_cli.runs.config import Config
from ape_cli.runs.record import settings_text
from ape_cli.runs.registry import Registry
from ape_cli.runs.tuning import Validation


@dataclass
class _Trial:
    """The finished runs of one setting."""

    config: Config
    setting: dict[str, Any]  # what differs from the preset and the scheme, without what names the row
    scores: dict[int, Validation] = field(default_factory=dict)  # of each seed
    runs: dict[int, str] = field(default_factory=dict)  # the name of the run of each seed


class _Place(NamedTuple):
    """A row in a column."""

    structure: str
    task: str
    order: str | None
    form: str
    preset: str
    fingerprint: str
    scheme: str
    row: str  # the settings that name the row
    code: str  # the version of own code

    @property
    def row_of_table(self) -> _Place:
        """What the columns of the row in one table share."""
        return self._replace(task="", order=None, form="", fingerprint="")

    def __str__(self) -> str:
        """The row and the column in words."""
        row = f"{self.scheme} ({self.row})" if self.row else self.scheme
        return f"{row} on {task_of(self._asdict())}, preset {self.preset}"


class _Chosen(NamedTuple):
    """The chosen setting of a row in a column, and the preset's setting if it is among the trials."""

    place: _Place
    trial: _Trial
    default: _Trial | None
    choice: Choice


class Tuned:
    """The runs of the chosen settings. Reading them needs all runs; `runs` then restricts reports to the chosen ones.

    A line of text about each run that cannot be read is appended to `bad`.
    """

    def __init__(self, registry: Registry, bad: list[str]) -> None:
        """Read the validation scores of all finished runs, and choose. What cannot be chosen is left out.

        Raises `ApeError` if nothing can be chosen.
        """
        self.registry, self._bad, self._chosen = registry, bad, list[_Chosen]()
        found = _trials(registry, bad)
        of_rows: dict[_Place, list[dict[str, Any]]] = {}  # the settings of all trials of a row in a table
        for place, trials in found.items():
            of_rows.setdefault(place.row_of_table, []).extend(trial.setting for trial in trials.values())
        for place, trials in found.items():
            try:
                self._chosen.append(_choose(place, trials, _shared(of_rows[place.row_of_table])))
            except ValueError:
                seeds = "; ".join(
                    f"{settings_text(trial.setting) or 'the preset'}: {', '.join(map(str, sorted(trial.runs)))}"
                    for trial in trials.values()
                )
                bad.append(f"{place}: its settings have no seed in common ({seeds})")
        if bad and not self._chosen:
            what = "no setting can be chosen by validation scores"
            fix = "train the settings of a row with the same seeds"
            raise nothing_to_report(what, bad, got=str(registry.folder), fix=fix)
        self._of_metric: dict[str, ReportedRuns] = {}

    def runs(self, options: Options) -> ReportedRuns:
        """The chosen runs, with what the choice moved the score that the options ask for."""
        if options.metric not in self._of_metric:
            self._of_metric[options.metric] = ReportedRuns(self.registry, self._choices(options))
        return self._of_metric[options.metric]

    def _choices(self, options: Options) -> dict[str, Choice]:
        """The choice of each chosen run."""
        needed = [trial for one in self._chosen for trial in (one.trial, one.default) if trial]
        of_run = self._scores([name for trial in needed for name in trial.runs.values()], options)
        found: dict[str, Choice] = {}
        for one in self._chosen:
            if not of_run.keys() & set(one.trial.runs.values()):
                scores = f"{options.decode} scores on its {options.split} split"
                self._bad.append(
                    f"{one.place}: the chosen setting ({one.choice.setting or 'the only one'}) has no {scores}"
                )
            choice = one.choice._replace(moved=_moved(one, of_run, options))
            found |= dict.fromkeys(one.trial.runs.values(), choice)
        return found

    def _scores(self, names: list[str], options: Options) -> dict[str, float]:
        """The value (`evaluations.Metric`) of each of these runs on its own data, if it has one."""
        field = METRICS[options.metric].field
        registry = self.registry.only(names).where(filters.ANY)
        return {
            record.run: evaluation["overall"][field]
            for record, of, evaluation in evaluated(registry, self._bad, options.split)
            if (of["decode"], of["split"]) == (options.decode, options.split)
            and of["fingerprint"] == of["trained_fingerprint"]
            and evaluation["overall"].get(field) is not None
        }


def _trials(registry: Registry, bad: list[str]) -> dict[_Place, dict[str, _Trial]]:
    """The trials of each row and column, by what identifies their configuration."""
    found: dict[_Place, dict[str, _Trial]] = {}
    for run, record, of in described(registry, bad):
        if run.status_in(record) != "finished":
            continue
        try:
            score = tuning.validation(run)
        except RunError as error:
            bad.append(f"{run.name}: {error.summary}")
            continue
        row, code = settings_text(row_settings(record)), of["configuration"].partition("-")[2]
        column = of["structure"], of["task"], of["order"], of["form"], of["preset"], of["trained_fingerprint"]
        setting = {key: value for key, value in record.variant.items() if key not in ROW and value is not None}
        trials = found.setdefault(_Place(*column, of["scheme"], row, code), {})
        trial = trials.setdefault(of["configuration"], _Trial(record.config, setting))
        trial.scores[of["seed"]], trial.runs[of["seed"]] = score, run.name
    return found


def _shared(settings: list[dict[str, Any]]) -> set[str]:
    """The names of the settings that have one value in all trials; no value is None."""
    return {key for key, value in settings[0].items() if all(one.get(key) == value for one in settings)}


def _choose(place: _Place, trials: dict[str, _Trial], shared: set[str]) -> _Chosen:
    """Choose a trial. `shared`: the settings that name the row. Raises `ValueError` without a seed in common."""
    ordered = sorted(trials.values(), key=lambda trial: (bool(trial.setting), settings_text(trial.setting)))
    scores = {number: trial.scores for number, trial in enumerate(ordered)}
    chosen = ordered[tuning.best(scores)]
    varied = sorted({key for trial in ordered for key in trial.setting} - shared)
    default = next((trial for trial in ordered if not trial.setting.keys() - shared), None)
    common = set.intersection(*(set(of) for of in scores.values()))
    tried = {id(trial): _text(trial, varied) for trial in ordered}
    text, is_default = tried[id(chosen)], chosen is default
    choice = Choice(text, len(ordered), len(common), is_default, tuple(sorted(tried.values())), tuple(sorted(shared)))
    return _Chosen(place, chosen, default, choice)


def _text(trial: _Trial, varied: list[str]) -> str:
    """The values of the settings in which the trials differ."""
    values = {key: trial.setting.get(key, getattr(trial.config, key, None)) for key in varied}
    return settings_text({key: value for key, value in values.items() if value is not None})


def _moved(chosen: _Chosen, of_run: dict[str, float], options: Options) -> dict[str, float]:
    """What the choice moved the score: the mean difference over the seeds that both settings have.

    It is given for the split of the options and for validation, without what is not known. `of_run` has the scores on
    the split of the options.
    """
    trial, default, metric = chosen.trial, chosen.default, METRICS[options.metric]
    if default is None:
        return {}
    seeds = sorted(trial.runs.keys() & default.runs.keys())
    chose = {"token_accuracy": "accuracy", "cross_entropy": "loss"}.get(metric.field)
    pairs = {options.split: [(of_run.get(trial.runs[seed]), of_run.get(default.runs[seed])) for seed in seeds]}
    if chose:
        stored = [(getattr(trial.scores[seed], chose), getattr(default.scores[seed], chose)) for seed in seeds]
        pairs = {"validation": stored} | pairs
    differences = {split: [a - b for a, b in of if a is not None and b is not None] for split, of in pairs.items()}
    moved = {split: fmean(of) for split, of in differences.items() if of}
    return {split: perplexity(value) if metric.exponential else value for split, value in moved.items()}
