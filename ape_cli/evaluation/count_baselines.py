"""What counting reaches: scores of tables that are counted on the training split, and of two rules without a table.

A model that has learned a task is better than all of them. A table predicts the label that was most frequent in
training for its key, and of equally frequent ones the one with the lowest id. Keys that training does not have get the
most frequent label of all. Every baseline knows where a target ends, so EOS is always right, as it is for trained
models.

| baseline | what it predicts from |
|---|---|
| most frequent answer | nothing |
| previous answer | the label before |
| previous answer and symbol | the label before, and the source's symbol at the same place |
| repeated answer | no table: it is the label before |
| most frequent symbol of the source | no table: of those that are an answer in training, the one the source has most |
| symbol | the source's symbol at the same place |
| symbols before and after | the symbols of the source beside the label's place |
| symbol and the one before | for causal tags: the source's symbol at the same place, and the one before |
| parent and children | for trees: the symbols of the node's parent and children |

The first five are for targets that are written one after the other, as under teacher forcing. Tags have no previous
answer, so they have the first and the last four. Only counts for keys of the scored split are kept, to bound memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Literal

import polars as pl
from pydantic import Field

from ape_cli.core.errors import ApeError
from ape_cli.core.vocabulary import EOS, PAD, SOS
from ape_cli.data.loader import Dataset, Split
from ape_cli.data.manifest import DatasetPlan, Frozen
from ape_cli.storage import files
from ape_cli.structure import Seq, Tree

_ROWS = 4096  # that are counted at once, which bounds the memory
MOST_FREQUENT_CLASS = "most frequent class"  # the only baseline for images
_USUAL, _REPEATED, _OF_SOURCE = "most frequent answer", "repeated answer", "most frequent symbol of the source"
_Share = Annotated[float, Field(ge=0, le=1)]
_Scores = dict[Annotated[str, Field(pattern="^(token_accuracy|exact_match)$")], _Share]


class Baselines(Frozen):
    """What is reached on a split without a model.

    `constant_guess` is the share of the labels of the split that are its most frequent label or class. The label may be
    EOS, which is a label of words. `counted` has the scores of each baseline by its name. Always the most frequent
    answer, or for images the most frequent class, is the first.
    """

    version: Literal[1] = 1  # of the definitions
    fingerprint: str
    constant_guess: _Share
    counted: dict[str, Annotated[_Scores, Field(min_length=2)]]


def count_baselines(data: Dataset, split: str) -> Baselines:
    """The baselines of a split. Neither it nor the training split may be empty.

    They are stored in the folder of the dataset as `baselines/SPLIT.json`, if it can be written to, and counted only if
    they are not there. Raises `DataError` if rows cannot be read.
    """
    path = data.folder / "baselines" / f"{split}.json"
    with suppress(ApeError, OSError, ValueError):  # the file is missing or damaged
        baselines = Baselines.model_validate(files.read_json(path))
        if (baselines.fingerprint, list(baselines.counted)) == (data.fingerprint, list(_keys(data.plan))):
            return baselines
    baselines = _counted(data, split)
    with suppress(ApeError):  # the folder is read-only
        files.write_text(path, f"{baselines.model_dump_json(indent=2)}\n")
    return baselines


def chance_by_size(train: Split, scored: Split) -> dict[int, dict[str, float]]:
    """The scores, at each size of a split, of always giving the most frequent answer of the training split `train`.

    They are counted as those of `Baselines`: the end of a target is known.
    """
    labels = (pl.DataFrame(table)["target_ids"].explode() for table in train.tables("target_ids"))
    counts = pl.concat(part.value_counts() for part in labels).filter(pl.col("target_ids") != PAD)
    counts = counts.group_by("target_ids").sum().sort("count", "target_ids", descending=[True, False])
    targets = pl.concat(pl.DataFrame(table) for table in scored.tables("size", "target_ids"))
    plan, label = scored.manifest.plan, pl.col("target_ids")
    ends = int(plan.structure == Seq() and not plan.tagged)
    answers = label.list.eval(pl.element() != PAD).list.sum()
    right = label.list.count_matches(counts["target_ids"][0])
    of_size = targets.group_by("size").agg(
        token_accuracy=(right + ends).sum() / (answers + ends).sum(), exact_match=(right == answers).mean()
    )
    return {int(size): {"token_accuracy": share, "exact_match": exact} for size, share, exact in of_size.rows()}


def _keys(plan: DatasetPlan) -> dict[str, list[str]]:
    """The columns of `_places` by which the table of each baseline is read, by its name."""
    keys = {"symbol": ["here"], "symbols before and after": ["before", "after"]}
    if plan.causal:
        keys = {"symbol": ["here"], "symbol and the one before": ["before", "here"]}
    elif not plan.tagged:
        keys = {"previous answer": ["previous"], "previous answer and symbol": ["previous", "here"]}
        keys |= {_REPEATED: ["previous"], _OF_SOURCE: ["row"]}
    elif isinstance(plan.structure, Tree):
        keys["parent and children"] = list(_relatives(plan.structure))
    return {MOST_FREQUENT_CLASS: []} if plan.image else {_USUAL: ["nothing"], **keys}


def _counted(data: Dataset, split: str) -> Baselines:
    """Count the baselines of a split."""
    train, scored, plan, keys, counted = data.split("train"), data.split(split), data.plan, _keys(data.plan), {}
    if isinstance(scored, Split) and isinstance(train, Split):
        asked = _counts(scored)
        labels = [*asked[_USUAL]["count"], scored.rows * (plan.structure == Seq() and not plan.tagged)]  # the last: EOS
        by_count = {n: c.sort("count", "label", descending=[True, False]) for n, c in _counts(train, asked).items()}
        tables = {name: count.unique(keys[name], keep="first").drop("count") for name, count in by_count.items()}
        answers, symbol, wrong = by_count[_USUAL]["label"], pl.col("source_ids"), []
        if not plan.tagged:
            tables[_REPEATED] = asked["previous answer"].select("previous", label="previous").unique()
            most_frequent = symbol.filter(symbol.is_in(answers.to_list())).mode().min().fill_null(answers.min())
            sources = (pl.DataFrame(table).explode("source_ids") for table in scored.tables("row", "source_ids"))
            tables[_OF_SOURCE] = pl.concat(source.group_by("row").agg(label=most_frequent) for source in sources)
        is_wrong = pl.col(*keys).fill_null(pl.lit(answers.first())) != pl.col("label")
        for places in _places(scored):
            guesses = places
            for name, table in tables.items():
                guesses = guesses.join(table.rename({"label": name}), keys[name], "left")
            wrong.append(guesses.group_by("row").agg(is_wrong.sum()))
        for name, of_row in pl.concat(wrong).drop("row").to_dict().items():
            accuracy = (sum(labels) - int(of_row.sum())) / max(1, sum(labels))
            exact = (scored.rows - int((of_row > 0).sum())) / scored.rows
            counted[name] = {"token_accuracy": accuracy, "exact_match": exact}
    else:
        classes, of_split = (pl.concat(map(pl.DataFrame, part.tables("label")))["label"] for part in (train, scored))
        of_class = dict(of_split.value_counts().iter_rows())
        labels = [*of_class.values()]
        right = of_class.get(classes.mode().min(), 0) / len(of_split)
        counted[MOST_FREQUENT_CLASS] = {"token_accuracy": right, "exact_match": right}
    guess = max(labels) / max(1, sum(labels))
    return Baselines(fingerprint=data.fingerprint, constant_guess=guess, counted=counted)


def _counts(part: Split, asked: dict[str, pl.DataFrame] | None = None) -> dict[str, pl.DataFrame]:
    """How often a split has each label with each key: by baseline, the columns of the key, `label` and `count`.

    `asked`: the counts of the scored split, to leave out keys that it does not have.
    """
    counts: dict[str, pl.DataFrame] = {}
    keys = {name: key for name, key in _keys(part.manifest.plan).items() if name not in (_REPEATED, _OF_SOURCE)}
    columns = {column for key in keys.values() for column in key}
    for places in _places(part):
        grouped = places.group_by(*columns, "label").agg(count=pl.len().cast(pl.Int64))  # few rows, for most tasks
        for name, key in keys.items():
            new = grouped.select(*key, "label", "count")
            new = new if asked is None else new.join(asked[name], key, "semi")
            both = pl.concat([counts.get(name, new.clear()), new])
            counts[name] = both.group_by(*key, "label").agg(pl.col("count").sum())
    return counts


def _places(part: Split) -> Iterator[pl.DataFrame]:
    """The places of the labels of a split, some rows at a time: `row`, `label`, and the columns of all keys."""
    plan, source, length = part.manifest.plan, pl.col("source_ids"), pl.col("target_ids").list.len()
    relatives = _relatives(plan.structure) if plan.tagged and isinstance(plan.structure, Tree) else {}
    positions = ["source_positions"] if relatives else []
    if plan.structure == Seq():
        end = pl.lit(EOS, pl.UInt16)
        if plan.tagged:  # as in batches of 256 rows: the EOS of the longest rows is cut off, because it has no label
            end = pl.when(pl.col("longest")).then(PAD).otherwise(end).cast(pl.UInt16)
        source = pl.concat_list(source, end)
    here, after = (source.list.gather(pl.int_ranges(i, length + i), null_on_oob=True) for i in (0, 1))
    previous = pl.concat_list(pl.lit(SOS, pl.UInt16), "target_ids").list.head(length)
    beside = {"before": here.list.shift(), "after": after} if plan.tagged else {"previous": previous}
    batch = (length.rank("ordinal") - 1) // 256
    tables = (pl.DataFrame(table) for table in part.tables("row", "source_ids", "target_ids", *positions))
    marked = (table.with_columns(longest=length == length.max().over(batch)) for table in tables)
    for rows in (rows for table in marked for rows in table.iter_slices(_ROWS)):
        places = rows.select("row", *positions, label="target_ids", here=here, **beside)
        places = places.explode(pl.selectors.exclude("row")).with_columns(nothing=pl.lit(PAD))
        for name, relative in relatives.items():
            nodes = places.select("row", pl.col("here").alias(name), place=pl.col("source_positions").cast(pl.Int64))
            places = places.with_columns(place=relative).join(nodes, ["row", "place"], "left")
        yield places.fill_null(PAD).filter(pl.col("label") != PAD)


def _relatives(tree: Tree) -> dict[str, pl.Expr]:
    """The heap indices of the parent and the children of a node; 0 for the parent of the root."""
    at, k = pl.col("source_positions").cast(pl.Int64), tree.branching
    return {"parent": (at + k - 2) // k, **{f"child {c}": k * (at - 1) + 2 + c for c in range(k)}}
