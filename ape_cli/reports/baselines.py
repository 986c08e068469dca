"""The rows of a table for what is reached without a model: chance, and the best simple rule.

`evaluation.count_baselines` counts them on the training split, and stores them in the folder of the dataset. There are
no rows if this folder is not there any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import polars as pl

from ape_cli.core.errors import ApeError
from ape_cli.reports.evaluations import METRICS
from ape_cli.runs.record import DatasetRecord
from ape_cli.storage import files
from ape_cli.storage.paths import storage_path

_CHANCE, _RULE = "chance", "simple rule"
_ABOUT = {
    _CHANCE: "chance: always the most frequent answer in training; the end of a target is given.",
    _RULE: "simple rule: the best of the rules that are counted on the training split (`ape eval` lists them).",
}


def beside(lines: pl.DataFrame, trained: Mapping[str, DatasetRecord]) -> pl.DataFrame:
    """The lines of a report with the columns `chance` and `simple rule`, which are null if they are not known.

    They are known with teacher forcing on the data of training. `trained` has this data by its fingerprint.
    """
    data = lines.filter(pl.col("fingerprint") == pl.col("trained_fingerprint"), decode="teacher")
    found = []
    for fingerprint, split, metric in data.select("fingerprint", "split", "metric").unique().rows():
        with suppress(ApeError, OSError, ValueError, LookupError):
            stored = files.read_json(storage_path(trained[fingerprint].path) / "baselines" / f"{split}.json")
            scores = [part[metric] for part in stored["counted"].values()]  # the most frequent answer is the first
            if not scores and METRICS[metric].is_share:
                scores = [stored["constant_guess"]]  # of images, which have no rule
            if scores and stored["fingerprint"] == fingerprint:
                best = max(scores) if len(scores) > 1 else None
                found.append((fingerprint, fingerprint, "teacher", split, metric, scores[0], best))
    keys = ["fingerprint", "trained_fingerprint", "decode", "split", "metric"]
    schema = dict.fromkeys(keys, pl.String()) | dict.fromkeys(_ABOUT, pl.Float64())
    return lines.join(pl.DataFrame(found, schema, orient="row"), on=keys, how="left", maintain_order="left")


def rows(lines: pl.DataFrame, columns: Sequence[str]) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """The rows for a table with these columns, given its lines from `beside`, and the rules of reading them."""
    foot, rules = [], []
    for name, about in _ABOUT.items():
        known = dict(lines.drop_nulls(name).select("column", name).rows())
        if known:
            foot.append((name, [f"{100 * known[column]:.2f}" if column in known else "—" for column in columns]))
            rules.append(about)
    return foot, rules
