"""The table of runs: what `ape runs --json` prints, and `registry.open(DIR).runs()` returns.

A row has the name of the run, its scores and times, the identity of its configuration, and a column for each setting:
the fields of the configuration, and the options of schemes, kinds of attention and maps of positions. A setting that a
run does not have is null. Test scores are those on the test split of the run's own dataset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ape_cli.core.errors import RunError
from ape_cli.core.plugins import DIGITS
from ape_cli.runs.config import KINDS, Config
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


def table(runs: Iterable[tuple[Run, RunRecord]], bad: list[str], folder: StoragePath) -> pl.DataFrame:
    """The table of runs, of which `folder` has the folders.

    A line of text about each run with an evaluation that cannot be read is appended to `bad`.
    """
    import polars as pl

    def line(of: tuple[Run, RunRecord]) -> tuple[RunRecord, dict[str, Any]]:
        run, known = of
        return known, _line(run, known, bad)

    found = list(files.each(line, runs, folder))
    versions: dict[tuple[str, ...], set[str]] = {}
    for known, _ in found:
        versions.setdefault(PARTS(known.config), set()).add(code_version(known))
    for known, of_run in found:
        several = len(versions[PARTS(known.config)]) > 1 or known.resumed_with
        of_run["configuration"] = configuration(known, code_version(known) if several else "")
    lines = [of_run for _, of_run in found]
    fields = [name for kind in KINDS.values() for name in kind.model_fields if name not in _OPTIONS]
    names = dict.fromkeys([*fields, *sorted({name for of_run in lines for name in of_run})])
    main = pl.DataFrame([{name: x[name] for name in _COLUMNS} for x in lines], schema=_COLUMNS, orient="row")
    return main.with_columns(_column(name, [x.get(name) for x in lines]) for name in names if name not in _COLUMNS)


def _line(run: Run, known: RunRecord, bad: list[str]) -> dict[str, Any]:
    """The line of a run, without its identity."""
    config, data, result = known.config, known.dataset, known.result
    return _settings(config) | {
        "run": run.name,
        "task": data.task,
        "order": data.order,
        "scheme": config.scheme,
        "variant": settings_text(known.variant),
        "preset": config.preset,
        "seed": config.seed,
        "status": run.status_in(known),
        "dataset": data.name,
        "parameters": result and result.parameters,
        "steps": result.steps if result else config.steps,
        "seconds": result and result.seconds,
        "validation_token_accuracy": result and result.best_accuracy,
        "started": known.started,
        "finished": known.finished,
        **_test_scores(run, known, bad),
    }


def _settings(config: Config) -> dict[str, Any]:
    """The settings of a configuration: its fields and the options that it sets."""
    fields = config.model_dump(mode="json")
    options = [fields.pop(name, {}) for name in _OPTIONS]
    return {name: value for of_part in (*options, fields) for name, value in of_part.items()}


def _test_scores(run: Run, known: RunRecord, bad: list[str]) -> dict[str, float | None]:
    """The scores on the test split of the run's dataset, by the names of their columns."""
    scores: dict[str, float | None] = {}
    for decode, before in _TEST.items():
        try:
            evaluation = run.evaluation(evaluation_name(known.dataset.fingerprint, "test", decode))
        except RunError as error:
            bad.append(f"{run.name}: {error.summary}")
            evaluation = None
        overall = evaluation["overall"] if evaluation else {}
        scores |= {before + score: overall.get(score) for score in _SCORES}
    return scores


def _column(name: str, values: list[Any]) -> pl.Series:
    """The column of a setting. Values of different types, and those that Polars has no type for, become text."""
    import polars as pl

    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and all(abs(value) < _LARGEST for value in values if isinstance(value, int)):
        return pl.Series(name, values, pl.Int64 if kinds == {int} else pl.Float64)
    if kinds in ({bool}, {str}):
        return pl.Series(name, values)
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pl.Series(name, texts, pl.String)


def differing(lines: list[dict[str, Any]]) -> list[str]:
    """The settings in which runs differ, given their lines: the preset, and settings that some run sets otherwise.

    What the name of a run tells, and what follows from its preset, is left out.
    """
    set_somewhere = {name for x in lines for name in re.findall(r"(?:^|, )(\w+)=", x["variant"])}
    names = [name for name in (lines[0] if lines else ()) if name == "preset" or name in set_somewhere]
    return [name for name in names if len({x[name] for x in lines}) > 1]
