"""The rows of a table for what is reached without a model: chance, and the best simple rule.

`evaluation.count_baselines` counts them on the training split. Evaluations of earlier versions do not have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

_CHANCE, _RULE = "chance", "simple rule"
_ABOUT = {
    _CHANCE: "chance: always predicts the most frequent symbol of the training split, with target lengths given.",
    _RULE: "simple rule: the best of several rules that need no model (`ape eval RUN` prints all): {}.",
}
_BEST = "best rule"  # the name of the rule whose score is shown


def beside(lines: pl.DataFrame, baselines: Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]]) -> pl.DataFrame:
    """The lines of a report with the columns `chance`, `simple rule` and `best rule`, null if they are not known.

    They are known with teacher forcing on the data of training. `baselines`: the scores of each, the most frequent
    answer first, by the fingerprint of this data and the split.
    """
    found = []
    for (fingerprint, split), by_name in baselines.items():
        for metric in ("token_accuracy", "exact_match"):
            (_, chance), *rules = ((name, scores[metric]) for name, scores in by_name.items())
            name, best = max(rules, key=lambda rule: rule[1], default=(None, None))
            found.append((fingerprint, fingerprint, "teacher", split, metric, chance, best, name))
    keys = ["fingerprint", "trained_fingerprint", "decode", "split", "metric"]
    schema = dict.fromkeys(keys, pl.String()) | dict.fromkeys(_ABOUT, pl.Float64()) | {_BEST: pl.String()}
    return lines.join(pl.DataFrame(found, schema, orient="row"), on=keys, how="left", maintain_order="left")


def rows(lines: pl.DataFrame, columns: Sequence[str]) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """The rows for a table with these columns, given its lines from `beside`, and the rules of reading them."""
    foot, rules = [], []
    for name, about in _ABOUT.items():
        known = dict(lines.drop_nulls(name).select("column", name).rows()) if name in lines.columns else {}
        if known:
            foot.append((name, [f"{100 * known[column]:.2f}" if column in known else "—" for column in columns]))
            best = list[tuple[str, str]]()
            if name == _RULE:
                best = lines.drop_nulls(name).select("column", _BEST).unique(maintain_order=True).rows()
            rules.append(about.format(", ".join(f"{rule} ({column})" for column, rule in best)))
    return foot, rules
