"""The table of runs: what `ape runs --json` prints, and `registry.open(DIR).runs()` returns.

A row has the name of the run, its scores and times, the identity of its configuration, and a column for each setting:
the fields of the configuration, and the options of schemes, kinds of attention and maps of positions. A setting that a
run does not have is null. Test scores are those on the test split of the run's own dataset.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ape_cli.core.errors import LEFT_OUT, RunError
from ape_cli.core.plugins import DIGITS
from ape_cli.runs.config import KINDS
from ape_cli.runs.record import RunRecord, evaluation_name, settings_text
from ape_cli.runs.run import Run
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath

if TYPE_CHECKING:  # imported lazily: training needs no polars
    import polars as pl

_SCORES = ("token_accuracy", "exact_match", "cross_entropy")
_TEST = {"teacher": "test_", "greedy": "test_greedy_"}  # the beginnings of the names of test scores, by decoding
_COLUMNS = {
    **dict.fromkeys(("run", "task", "order", "scheme", "variant", "preset"), str),
    "seed": int,
    "status": str,
    "dataset": str,
    **dict.fromkeys(("parameters", "steps"), int),
    **dict.fromkeys(("seconds", "validation_token_accuracy"), float),
    **dict.fromkeys(("started", "finished", "configuration"), str),
    **{before + score: float for before in _TEST.values() for score in _SCORES},
}
_OPTIONS = ("scheme_options", "attention_options", "positions_options")
_LARGEST = 2**63  # of a column of integers
logger = logging.getLogger(__name__)

PARTS = attrgetter("scheme", "attention", "positions")  # the parts of a configuration that can be a user's own


def code_version(record: RunRecord) -> str:
    """The first digits of the SHA-256 of a run's own code, `then` those of other code that it was resumed with.

    Empty if it has none, or recorded none.
    """
    versions = [record.own_files, *record.resumed_with]
    texts = ["+".join(digest[:DIGITS] for _, digest in sorted(files.items())) for files in versions]
    return " then ".join(text or "unknown" for text in texts) if any(texts) else ""


def configuration(record: RunRecord, version: str = "") -> str:
    """The identity of a configuration on its dataset, which runs with other seeds share.

    `version`: that of its own code, if runs with other versions of it are listed too.
    """
    digest = record.config.digest(record.dataset.fingerprint, without=("seed",))
    return digest + (f"-{version}" if version else "")


class CodeVersions:
    """The versions of their own code with which runs were trained: those of each combination of plug-ins."""

    def __init__(self) -> None:
        """No run is known yet."""
        self._versions: dict[tuple[str, ...], set[str]] = {}

    def add(self, record: RunRecord) -> str:
        """Add a run. Returns its version (`code_version`)."""
        version = code_version(record)
        self._versions.setdefault(PARTS(record.config), set()).add(version)
        return version

    def told(self, record: RunRecord) -> str:
        """The version of a run if that tells it from others, which have all been added; otherwise empty."""
        several = len(self._versions[PARTS(record.config)]) > 1
        return code_version(record) if several or record.resumed_with else ""


def table(runs: Iterable[tuple[Run, RunRecord]], folder: StoragePath) -> pl.DataFrame:
    """The table of runs, of which `folder` has the folders. It warns of evaluations that cannot be read."""
    import polars as pl

    described = list(files.map_ordered(lambda run: (run[1], _line(*run)), runs, folder))
    versions = CodeVersions()
    for record, _ in described:
        versions.add(record)
    lines = [line | {"configuration": configuration(record, versions.told(record))} for record, line in described]
    fields = [name for config_class in KINDS.values() for name in config_class.model_fields if name not in _OPTIONS]
    names = dict.fromkeys([*fields, *sorted({name for line in lines for name in line})])
    main = pl.DataFrame([{name: x[name] for name in _COLUMNS} for x in lines], schema=_COLUMNS, orient="row")
    return main.with_columns(_column(name, [x.get(name) for x in lines]) for name in names if name not in _COLUMNS)


def _line(run: Run, record: RunRecord) -> dict[str, Any]:
    """The line of a run, without its identity."""
    config, data, result = record.config, record.dataset, record.result
    fields = config.model_dump(mode="json")  # the settings: fields of the configuration, and the options that it sets
    options = [fields.pop(name, {}) for name in _OPTIONS]
    settings = {name: value for part in (*options, fields) for name, value in part.items()}
    return settings | {
        "run": run.name,
        "task": data.task,
        "order": data.order,
        "scheme": config.scheme,
        "variant": settings_text(record.variant),
        "preset": config.preset,
        "seed": config.seed,
        "status": run.status_in(record),
        "dataset": data.name,
        "parameters": result and result.parameters,
        "steps": result.steps if result else config.steps,
        "seconds": result and result.seconds,
        "validation_token_accuracy": result and result.best_accuracy,
        "started": record.started,
        "finished": record.finished,
        **_test_scores(run, record),
    }


def _test_scores(run: Run, record: RunRecord) -> dict[str, float | None]:
    """The scores on the test split of the run's dataset, by the names of their columns."""
    scores: dict[str, float | None] = {}
    for decode, before in _TEST.items():
        try:
            evaluation = run.evaluation(evaluation_name(record.dataset.fingerprint, "test", decode))
        except RunError as error:
            logger.warning(f"{LEFT_OUT}{run.name}: {error.summary}")
            evaluation = None
        overall = evaluation["overall"] if evaluation else {}
        scores |= {before + score: overall.get(score) for score in _SCORES}
    return scores


def _column(name: str, values: list[Any]) -> pl.Series:
    """The column of a setting. Values of different types, and those that Polars has no type for, become text."""
    import polars as pl

    types = {type(value) for value in values if value is not None}
    if types <= {int, float} and all(abs(value) < _LARGEST for value in values if isinstance(value, int)):
        return pl.Series(name, values, pl.Int64 if types == {int} else pl.Float64)
    if types in ({bool}, {str}):
        return pl.Series(name, values)
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pl.Series(name, texts, pl.String)
