"""What counting reaches: scores of tables that are counted on the training split, and of two rules without a table.

A model that has learned a task is better than all of them. A table predicts the label that was most frequent in
training for its key. Keys that training does not have get the most frequent label of all. Every baseline knows where a
target ends, so EOS is always right, as it is for trained models.

| baseline | what it predicts from |
|---|---|
| most frequent answer | nothing |
| previous answer | the label before |
| previous answer and symbol | the label before, and the source's symbol at the same place |
| repeated answer | no table: it is the label before |
| most frequent symbol of the source | no table: of those that are an answer in training, the one the source has most |
| symbol | the source's symbol at the same place |
| symbols before and after | the symbols of the source beside the label's place |
| parent and children | for trees: the symbols of the node's parent and children |

The first five are for targets that are written one after the other, as under teacher forcing. Tags have no previous
answer, so they have the first and the last three.

Shapes: B rows, M labels, N source tokens, F numbers of a key, L labels of all rows, V ids.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch

from ape_cli.core.rng import I64
from ape_cli.core.vocabulary import EOS, PAD
from ape_cli.data.batches import SequenceBatch
from ape_cli.data.loader import Dataset, ImageSplit, Split
from ape_cli.evaluation.metrics import MetricSums
from ape_cli.structure import Tree

_ROWS = 256  # in a batch; the results do not depend on it

Key = Callable[[SequenceBatch], I64]  # -> int64 [B, M, F]


def majority_baseline(split: Split | ImageSplit) -> float:
    """The share of the labels of a split that are its most frequent label, from 0 to 1. 0 for a split without rows.

    No constant answer is better. The label may be the end of a sequence, which is a label of words.
    """
    counts: Counter[int] = Counter()
    for batch in split.batches(_ROWS):
        counts.update(batch.labels[batch.label_mask].tolist())
    return max(counts.values(), default=0) / max(1, counts.total())


def count_baselines(data: Dataset, split: str) -> dict[str, dict[str, float]]:
    """The token accuracy and the exact match of each baseline on a split, from 0 to 1, by its name.

    The tables are counted on the training split. Raises `DataError` if rows cannot be read.
    """
    train, scored = data.split("train"), data.split(split)
    assert isinstance(train, Split)
    assert isinstance(scored, Split)
    tree = data.structure if isinstance(data.structure, Tree) else None
    keys = _keys(bool(data.plan.tagged), tree)
    tables = {name: _Table() for name in keys}
    for batch in train.batches(_ROWS):
        for name, key in keys.items():
            tables[name].count(key(batch), batch)
    answers = np.array(sorted(tables["most frequent answer"].total))
    rules = {} if data.plan.tagged else _RULES
    sums = {name: MetricSums() for name in (*keys, *rules)}
    for batch in scored.batches(_ROWS):
        for name, each in sums.items():
            predicted = tables[name].predict(keys[name](batch)) if name in keys else rules[name](batch, answers)
            labels = batch.labels.numpy()
            right_end = torch.from_numpy(np.where(labels == EOS, EOS, predicted))
            each.add(batch, right_end, torch.zeros(labels.shape))
    return {name: _scores(each) for name, each in sums.items()}


def _scores(sums: MetricSums) -> dict[str, float]:
    """The token accuracy and the exact match."""
    of = sums.columns()
    return {"token_accuracy": sums.token_accuracy, "exact_match": float((of["correct"] == of["tokens"]).mean())}


def _keys(tagged: bool, tree: Tree | None) -> dict[str, Key]:
    """What the tables of a dataset are counted by. `tree`: the structure of the positions if it is a tree."""
    keys: dict[str, Key] = {"most frequent answer": lambda batch: np.zeros((*batch.labels.shape, 1), dtype=np.int64)}
    if not tagged:
        keys["previous answer"] = lambda batch: _before(batch)[..., None]
        keys["previous answer and symbol"] = lambda batch: np.stack([_before(batch), _symbol(batch)], axis=-1)
        return keys
    keys |= {"symbol": lambda batch: _symbol(batch)[..., None], "symbols before and after": _beside}
    if tree is not None:
        keys["parent and children"] = lambda batch: _family(batch, tree)
    return keys


def _before(batch: SequenceBatch) -> I64:
    """The label before each label, SOS before the first. -> int64 [B, M]"""
    return batch.input_ids.numpy()


def _symbol(batch: SequenceBatch) -> I64:
    """The symbol of the source at the place of each label, PAD beyond its end. -> int64 [B, M]"""
    source = batch.source_ids.numpy()
    return np.pad(source, ((0, 0), (0, max(0, batch.labels.shape[1] - source.shape[1]))))[:, : batch.labels.shape[1]]


def _beside(batch: SequenceBatch) -> I64:
    """The symbols before and after each place. -> int64 [B, M, 2]"""
    wide = np.pad(_symbol(batch), ((0, 0), (1, 1)))
    return np.stack([wide[:, :-2], wide[:, 2:]], axis=-1)


def _family(batch: SequenceBatch, tree: Tree) -> I64:
    """The symbols of the parent and of the children of each node of the source, PAD for none. -> int64 [B, M, 1 + k]"""
    at, symbols = batch.source_positions.numpy(), batch.source_ids.numpy()
    first = tree.branching * (at - 1) + 2
    relatives = np.stack([tree.ancestor(at, 1), *(first + c for c in range(tree.branching))], axis=-1)
    relatives[at == 0] = 0  # padding
    symbols_there = np.empty_like(relatives)
    for row, (places, names) in enumerate(zip(at.tolist(), symbols.tolist(), strict=True)):
        known = dict(zip(places, names, strict=True)) | {0: PAD}
        symbols_there[row] = [[known.get(place, PAD) for place in places] for places in relatives[row].tolist()]
    return symbols_there[:, : batch.labels.shape[1]]


class _Table:
    """Counts of labels by key."""

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self.counts: defaultdict[bytes, Counter[int]] = defaultdict(Counter)

    def count(self, key: I64, batch: SequenceBatch) -> None:
        """Count the labels of a batch, without EOS. key: int64 [B, M, F]"""
        labels = batch.labels.numpy()
        counted = (labels != PAD) & (labels != EOS)
        pairs = np.concatenate([key[counted], labels[counted][:, None]], axis=1)  # [L, F + 1]
        for pair, count in zip(*np.unique(pairs, axis=0, return_counts=True), strict=True):
            self.counts[pair[:-1].tobytes()][int(pair[-1])] += int(count)

    @cached_property
    def total(self) -> Counter[int]:
        """How often each label was counted, with any key. It is read when everything has been counted."""
        return sum(self.counts.values(), Counter())

    def predict(self, key: I64) -> I64:
        """The most frequent label of each key; of equally frequent ones the first. int64 [B, M, F] -> int64 [B, M]"""
        flat = np.ascontiguousarray(key.reshape(-1, key.shape[-1]))
        distinct, place = np.unique(flat, axis=0, return_inverse=True)
        best = [_first_of_most(self.counts.get(key.tobytes(), self.total)) for key in distinct]
        return np.array(best, dtype=np.int64)[place.reshape(-1)].reshape(key.shape[:-1])


def _first_of_most(counts: dict[int, int]) -> int:
    """The label with the greatest count; of several the first."""
    return min(counts, key=lambda label: (-counts[label], label))


def _most_of_the_source(batch: SequenceBatch, answers: I64) -> I64:
    """The answer that each source has most often, the first one of several. `answers`: ids. -> int64 [B, 1]"""
    often = (np.bincount(row, minlength=answers[-1] + 1)[answers] for row in batch.source_ids.numpy())
    best = np.array([answers[counts.argmax()] for counts in often])[:, None]
    return np.broadcast_to(best, batch.labels.shape)


_RULES: dict[str, Callable[[SequenceBatch, I64], I64]] = {
    "repeated answer": lambda batch, answers: _before(batch),
    "most frequent symbol of the source": _most_of_the_source,
}
